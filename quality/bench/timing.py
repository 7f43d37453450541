"""When an `up` created each resource, and the longest chain of resources that wait for each other.

Times are taken while the engine's event log grows: its own timestamps are whole seconds.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rehearsal.engine import run_in_thread
from rehearsal.sandbox import Sandbox
from stacks.engine.state import PROVIDER_TYPE, waits_for
from stacks.engine.urn import Urn

POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One creation, in seconds since the first one began."""

    urn: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def token(self) -> str:
        return Urn.parse(self.urn).type

    @property
    def name(self) -> str:
        return Urn.parse(self.urn).name


def timed_up(sandbox: Sandbox) -> list[Span]:
    """Runs `up` and returns when each cloud resource and Kubernetes object was created.

    Raises RuntimeError if `up` fails.
    """
    logs = sandbox.folder / "logs"
    known = set(logs.glob("*.events.jsonl"))
    thread, outcomes = run_in_thread(sandbox.engine.up)
    began: dict[str, float] = {}
    ended: dict[str, float] = {}
    while thread.is_alive() and not (new := set(logs.glob("*.events.jsonl")) - known):
        time.sleep(POLL_SECONDS)
    (file,) = new
    with file.open("rb") as log:
        rest = b""
        while thread.is_alive():
            *lines, rest = (rest + log.read()).split(b"\n")
            now = time.perf_counter()
            for line in filter(bytes.strip, lines):
                _take(json.loads(line), now, began, ended)
            time.sleep(POLL_SECONDS)
    if not outcomes or not outcomes[0].ok:
        said = "; ".join(outcomes[0].errors) if outcomes else "it was not run"
        raise RuntimeError(f"{sandbox.stack}: pulumi up failed: {said}")
    first = min(began[urn] for urn in ended)
    spans = [Span(urn=u, began=began[u] - first, ended=ended[u] - first) for u in ended]
    return sorted(spans, key=lambda span: (span.began, span.ended))


def _take(
    event: Mapping[str, Any], now: float, began: dict[str, float], ended: dict[str, float]
) -> None:
    if started := event.get("resourcePreEvent"):
        began.setdefault(started["metadata"]["urn"], now)
    elif done := event.get("resOutputsEvent"):
        metadata = done["metadata"]
        made = metadata["op"] == "create" and (metadata.get("new") or {}).get("custom")
        if made and not metadata["type"].startswith(PROVIDER_TYPE):
            ended.setdefault(metadata["urn"], now)


def longest_chain(spans: Sequence[Span], resources: Sequence[Mapping[str, Any]]) -> list[Span]:
    """The chain of resources, each waiting for the previous one, with the longest total time.

    `resources`: those of the exported state, which contains the dependencies.
    """
    taken = {span.urn: span for span in spans}
    waits = {r["urn"]: waits_for(r) for r in resources}
    best: dict[str, tuple[float, list[Span]]] = {}

    def chain(urn: str) -> tuple[float, list[Span]]:
        if urn not in best:
            earlier = [chain(each) for each in waits.get(urn, ())]
            before = max(earlier, key=lambda found: found[0]) if earlier else (0.0, [])
            own = [taken[urn]] if urn in taken else []
            best[urn] = (before[0] + sum(span.seconds for span in own), [*before[1], *own])
        return best[urn]

    return max((chain(urn) for urn in taken), key=lambda found: found[0])[1]
