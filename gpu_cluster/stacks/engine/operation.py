"""Runs an operation of the engine, such as `up`, and reads its events while they are written."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_cluster.stacks.engine.pulumi import Pulumi
from gpu_cluster.stacks.engine.state import ROOT_TYPE
from gpu_cluster.stacks.engine.urn import Urn

_WRAPPED = re.compile(r"^(?:1 error occurred:\s+\* |creating urn:pulumi:\S+: )+")
"""Prefixes that a provider and the engine put before the reason when a create fails partway."""

QUIET = frozenset({"same", "read", "refresh"})
"""Operations that change nothing."""

HINTS = (
    "preview failed",
    "update failed",
    "destroy failed",
    "refresh failed",
    "an unhandled error occurred: Program exited with non-zero exit code: 1",
)
"""Text that the engine adds to an error without giving a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one run of the engine."""

    operation: str
    ok: bool
    seconds: float
    changes: Mapping[str, int] = field(default_factory=dict)
    """Operation (`create`, `same`, `replace`, ...) -> number of resources."""
    resources: tuple[tuple[str, str], ...] = ()
    """(operation, URN) of each changed resource, in the order of the changes."""
    errors: tuple[str, ...] = ()
    """Errors of the engine and the program, as the user sees them."""
    warnings: tuple[str, ...] = ()

    @property
    def changed(self) -> int:
        """How many resources were created, updated, replaced or deleted."""
        return sum(count for what, count in self.changes.items() if what not in QUIET)


def operate(
    pulumi: Pulumi,
    operation: str,
    log: Path,
    flags: Sequence[str] = (),
    *,
    start: Callable[..., subprocess.Popen[bytes]],
    end: Callable[[subprocess.Popen[bytes]], None],
    on_event: Callable[[str, str, str], None] = lambda operation, what, urn: None,
) -> Outcome:
    """Runs `preview`, `up`, `refresh` or `destroy` without asking; its output goes to `log`.

    `start` starts a process, like `subprocess.Popen`. `end` ends it if an exception, such as
    Ctrl-C, stops the wait for it. `on_event` is called with the command, the operation on a
    resource and its URN, once it is done.
    """
    events = log.with_suffix(".events.jsonl")
    log.parent.mkdir(parents=True, exist_ok=True)
    events.touch()
    command = [pulumi.command, operation, "--stack", pulumi.stack, "--non-interactive", *flags]
    command += ["--event-log", str(events), "--suppress-progress", "--color", "never"]
    if operation != "preview":
        command += ["--yes", "--skip-preview"]
    reader = EventReader(operation, events, on_event)
    started = time.monotonic()
    with log.open("wb") as output:
        process = start(
            command,
            cwd=pulumi.program,
            env={**pulumi.environment, "PULUMI_DEBUG_COMMANDS": "true"},  # shows --event-log
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        while process.poll() is None:
            reader.read()
            time.sleep(0.05)
    finally:
        if process.poll() is None:
            end(process)
    reader.read()
    errors = reasons(reader.errors)
    if process.returncode and not errors:
        errors = [log.read_text(errors="replace").strip() or "pulumi said nothing"]
    return Outcome(
        operation=operation,
        ok=process.returncode == 0,
        seconds=round(time.monotonic() - started, 2),
        changes=reader.changes,
        resources=tuple(reader.resources),
        errors=tuple(errors),
        warnings=tuple(dict.fromkeys(reader.warnings)),
    )


def reasons(errors: Sequence[str]) -> list[str]:
    """The errors that give a reason, without repetitions; if none does, all errors."""
    return [error for error in dict.fromkeys(errors) if error not in HINTS] or [*errors]


class EventReader:
    """Follows the engine's event log while the engine writes it."""

    def __init__(
        self, operation: str, file: Path, on_event: Callable[[str, str, str], None]
    ) -> None:
        self._operation = operation
        self._file = file.open("rb")
        self._on_event = on_event
        self._rest = b""
        self.changes: dict[str, int] = {}
        self.resources: list[tuple[str, str]] = []
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def read(self) -> None:
        """Processes the events written since the last call."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            if line.strip():
                self._take(json.loads(line))

    def _take(self, event: Mapping[str, Any]) -> None:
        if done := event.get("resOutputsEvent") or event.get("resOpFailedEvent"):
            metadata = done["metadata"]
            failed = "resOpFailedEvent" in event
            what = f"{metadata['op']} failed" if failed else metadata["op"]
            # A component is reported again when it registers its outputs.
            known = (what, metadata["urn"]) in self.resources
            if metadata["op"] not in QUIET and not known:
                self.resources.append((what, metadata["urn"]))
                self._on_event(self._operation, what, metadata["urn"])
        elif diagnostic := event.get("diagnosticEvent"):
            message = diagnostic["message"].strip()
            if diagnostic["severity"] == "error" and message:
                self.errors.append(_with_subject(diagnostic.get("urn"), message))
            elif diagnostic["severity"] == "warning" and message:
                self.warnings.append(_with_subject(diagnostic.get("urn"), message))
        elif policy := event.get("policyEvent"):
            # The message begins with the policy's description.
            found = policy["message"].strip().rpartition("\n")[2]
            text = f"policy {policy['policyName']}: {found}"
            kept = self.errors if policy["enforcementLevel"] == "mandatory" else self.warnings
            kept.append(_with_subject(policy.get("resourceUrn"), text))
        elif summary := event.get("summaryEvent"):
            self.changes = dict(summary.get("resourceChanges") or {})


def _with_subject(urn: str | None, message: str) -> str:
    if not urn:
        return message
    of = Urn.parse(urn)
    message = _WRAPPED.sub("", message)
    return message if of.type == ROOT_TYPE else f"{of.label}: {message}"
