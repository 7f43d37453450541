"""Every setting changed by itself in a stack that stands: what the engine would replace for it.

Each is previewed; those of the cluster and the pools that should replace nothing are then made.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from checks.plan import Change as Planned
from checks.plan import read_plan
from prove.trial import Bench, Trouble

CHANGES = Path(__file__).with_suffix(".yaml")
NAMED = ("gpuPools", "workloads", "trainingJobs")
"""Parts of the config whose entries have names: a key there means the stack's first entry."""
MADE = ("cluster", "gpuPools")
"""Parts of the config whose changes are made too: what runs in the cluster is part of neither, and
waits for nodes that a stack under proof does not get."""
ABSENT = "absent"
"""A value that takes the setting away."""
WARNING, REFUSAL = " anew: ", "cannot be while the cluster stands"
"""By which the program's warning of a replacement is known, and its refusal of a change."""
GOES_WITH = {
    "cluster": {"cluster", "GPU pool", "system pool"},
    "node pools": {"GPU pool", "system pool"},
    "GPU pool": {"GPU pool"},
    "system pool": {"system pool"},
}
"""What a warning says is made anew -> all that may then be lost."""


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
    made: bool = False
    """Whether an `up` then made it."""
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


def makings(bench: Bench, planned: Table, found: Sequence[Effect]) -> Iterator[tuple[int, Effect]]:
    """Makes the changes of which the previews say that they replace nothing.

    An `up` for each, which also takes the one before back. `found` are the previews' effects, in
    the table's order; yields the number there and what is known of it now.
    """
    file = bench.folder / "program" / f"Pulumi.{bench.stack}.yaml"
    before, standing = file.read_text(), _standing(bench)
    if not standing:  # somebody else's cluster: an `up` can make none of it anew
        return
    try:
        for number, (change, effect) in enumerate(zip(planned.changes, found, strict=True)):
            if effect.replaced or effect.refused or effect.wrong:
                continue
            if change.key.partition(".")[0] not in MADE:
                continue
            file.write_text(changed(before, change))
            outcome = bench.stage.engine.up()
            wrong = list(outcome.errors) if not outcome.ok else []
            now = _standing(bench)
            wrong += [
                f"the up made {urn.rpartition('::')[2]} anew"
                for urn, made in standing.items()
                if now.get(urn) != made
            ]
            standing = {urn: now.get(urn, "") for urn in standing}
            yield number, replace(effect, made=True, wrong=tuple(wrong))
        if again := bench.must(bench.stage.engine.up).resources:
            raise Trouble(*(f"a further up: {what} {urn}" for what, urn in again))
    finally:
        file.write_text(before)


def _standing(bench: Bench) -> dict[str, str]:
    """The clusters and node pools of the state, and when each was made."""
    rows = [row for row in bench.resources() if Planned(urn=row["urn"], verb="replace").loss]
    return {row["urn"]: str(row["created"]) for row in rows}


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
        wrong=() if refused else tuple(errors or not_as_said(lost, warned)),
    )


def not_as_said(lost: list[Planned], warned: tuple[str, ...]) -> Iterator[str]:
    """A replacement that the program does not know of is one that the cloud does not demand."""
    said = {what for what in GOES_WITH if any(f" the {what}{WARNING}" in line for line in warned)}
    expected = set().union(*(GOES_WITH[what] for what in said))
    if unsaid := [one for one in lost if one.loss not in expected]:
        names = ", ".join(f"{one.loss} {one.name}" for one in unsaid)
        yield f"would replace the {names}, and no warning says so"
    if warned and not lost:
        yield f"the program warns for nothing: {warned[0]}"


def warnings(events: str) -> Iterator[str]:
    """What the program warns of in a preview that was printed as a stream of events."""
    for line in events.splitlines():
        said = json.loads(line).get("diagnosticEvent") or {}
        if said.get("severity") == "warning":
            yield said["message"].strip()
