"""Every setting changed by itself in a stack that stands: what the engine would replace for it.

The engine only previews; nothing is changed.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from checks.plan import Change as Planned
from checks.plan import read_plan
from prove.trial import Bench

CHANGES = Path(__file__).with_suffix(".yaml")
NAMED = ("gpuPools", "workloads", "trainingJobs")
"""Parts of the config whose entries have names: a key there means the stack's first entry."""
ABSENT = "absent"
"""A value that takes the setting away."""
WARNING, REFUSAL = "anew: ", "cannot be while the cluster stands"
"""By which the program's warning of a replacement is known, and its refusal of a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One setting and its new value, with what it cannot do without."""

    key: str
    """As in the table of keys: `cluster.systemPool.diskSizeGb`, `gpuPools.machineType`."""
    to: Mapping[str, Any]
    """Key -> its new value; more than one only where the settings allow none of them alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one change would do."""

    environment: str
    platform: str
    key: str
    value: str
    changes: int = 0
    """Resources that would be created, updated, replaced or deleted."""
    replaced: tuple[str, ...] = ()
    """What is lost: `cluster`, `GPU pool`, `system pool`."""
    because: tuple[str, ...] = ()
    """The properties that force it."""
    warned: tuple[str, ...] = ()
    """What the program says of it in the preview."""
    refused: bool = False
    """Whether the program refuses it: the cloud can do it in no way."""
    wrong: tuple[str, ...] = ()
    """Why this is not as it should be; empty if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What the file says of a platform."""

    changes: list[Change]
    not_here: Mapping[str, str] = field(default_factory=dict)
    """Keys that cannot be changed in a stack that stands -> why."""


def table(platform: str, stack: str) -> Table:
    """What the file says of a platform, and of one stack there."""
    document = yaml.safe_load(CHANGES.read_text())
    rows = [document[platform], document.get(stack) or {}, document["everywhere"]]
    return Table(
        changes=[
            Change(key=next(iter(to)), to=to) for row in rows for to in row.get("changes") or ()
        ],
        not_here={k: v for row in rows for k, v in (row.get("not_here") or {}).items()},
    )


def effects(bench: Bench, planned: Table) -> Iterator[Effect]:
    """Previews each change of a stack that is up."""
    file = bench.folder / "program" / f"Pulumi.{bench.stack}.yaml"
    before = file.read_text()
    try:
        for change in planned.changes:
            file.write_text(changed(before, change))
            yield _effect(bench, change)
    finally:
        file.write_text(before)


def changed(stack_file: str, change: Change) -> str:
    """A stack file's text with the change in it."""
    document = json.loads(json.dumps(yaml.safe_load(stack_file)))  # without shared parts
    for key, value in change.to.items():
        room, *path = key.split(".")
        if key == room and value == ABSENT:
            document["config"].pop(f"gpu-cluster:{room}", None)
            continue
        block = document["config"].setdefault(f"gpu-cluster:{room}", {})
        if not path:
            block |= value
            continue
        if room in NAMED:
            block = block[next(iter(block))]
        *parents, last = path
        for name in parents:
            block = block.setdefault(name, {})
        if value == ABSENT:
            block.pop(last, None)
        else:
            block[last] = value
    return yaml.safe_dump(document, sort_keys=False)


def _effect(bench: Bench, change: Change) -> Effect:
    engine = bench.stage.engine
    done = subprocess.run(
        [engine.cli, "preview", "--stack", bench.stack, "--json", "--non-interactive"],
        cwd=bench.folder / "program",
        env={**engine.environment, "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    plan = read_plan(done.stdout or "{}", change.key)
    errors = list(plan.errors) or ([done.stderr.strip()] if done.returncode else [])
    refused = any(REFUSAL in error for error in errors)
    lost = plan.losses
    warned = tuple(line for line in warnings(done.stdout) if WARNING in line)
    return Effect(
        environment=bench.stack,
        platform=bench.stage.platform,
        key=change.key,
        value=str(change.to[change.key]),
        changes=len(plan.changes),
        replaced=tuple(dict.fromkeys(str(one.loss) for one in lost)),
        because=tuple(dict.fromkeys(path for one in lost for path in one.paths)),
        warned=warned,
        refused=refused,
        wrong=() if refused else tuple(errors or _wrong(lost, warned)),
    )


def _wrong(lost: list[Planned], warned: tuple[str, ...]) -> Iterator[str]:
    """A replacement that the program does not know of is one that the cloud does not demand."""
    if lost and not warned:
        names = ", ".join(f"{one.loss} {one.name}" for one in lost)
        yield f"would replace the {names}, and no warning says so"
    if warned and not lost:
        yield f"the program warns for nothing: {warned[0]}"


def warnings(events: str) -> Iterator[str]:
    """What the program warns of in a preview that was printed as a stream of events."""
    for line in events.splitlines():
        said = json.loads(line).get("diagnosticEvent") or {}
        if said.get("severity") == "warning":
            yield said["message"].strip()
