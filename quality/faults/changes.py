"""Every setting changed on its own in an existing stack, and the effect: it is updated in place, it
recycles the nodes of a pool, or it replaces the pool or the cluster.

Each change is previewed; those of the cluster and the pools are then applied, including
replacements.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.clouds.read import long_yaml
from gpu_cluster.components.schema.decode import decode
from gpu_cluster.components.schema.effect import Silent
from gpu_cluster.components.schema.refusal import Refusal
from gpu_cluster.components.settings.blocks import BLOCKS, RUNNING
from gpu_cluster.components.settings.load import from_config
from gpu_cluster.components.settings.remaining import steps
from gpu_cluster.stacks.definition.files import EXAMPLES, ROOT, stacks
from gpu_cluster.stacks.definition.settings import NOWHERE, flat, with_kubeconfig
from gpu_cluster.stacks.engine.plan import NODES, codes, read_plan
from gpu_cluster.stacks.engine.plan import Change as Planned
from gpu_cluster.stacks.engine.urn import Urn
from quality.faults.fault_run import FaultRunner, NotRecovered
from quality.keys import Setting, blocks, settings, settings_of
from quality.tries import ABSENT, document, listed, tries

STACKS = Path(__file__).with_name("stacks")
"""Stacks for changes that no sample allows: of an existing network, or of settings that N1
excludes."""
MORE = tuple(stacks(STACKS))
NAMED = ("gpuPools", *(key for key, block in BLOCKS.items() if block.names is not None))
"""Config blocks whose entries have names: a key there refers to the stack's first entry."""
MADE = ("cluster", "gpuPools")
"""Config blocks whose changes are applied as well. Those for workloads are not, as they wait for
nodes that a stack under fault injection does not get."""
FOLLOWED = (*MADE, "monitoring")
"""Config blocks whose changes are derived from their fields. Workloads are changed by rows with
several settings at once, since a preview of each would show no more."""
REPLACES = {
    "REPLACE-CLUSTER": {"cluster", "GPU pool", "system pool"},
    "REPLACE-NODE-POOLS": {"GPU pool", "system pool"},
    "REPLACE-GPU-POOL": {"GPU pool"},
    "REPLACE-SYSTEM-POOL": {"system pool"},
    "REPLACE-PODS": set(),
}
"""Code of a warning -> every resource that may be lost."""
RECYCLES = {"RECYCLE-GPU-POOL": "GPU pool", "RECYCLE-SYSTEM-POOL": "system pool"}
"""Code of a warning -> the pool whose nodes are recycled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One setting and its new value, in a stack that already has the other keys that it needs."""

    key: str
    """As in the table of keys: `cluster.systemPool.diskSizeGb`, `gpuPools.machineType`."""
    to: Mapping[str, Any]
    """Key -> its new value; more than one only if the settings do not allow them separately."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """Key -> its value before and after: what that causes is not counted as this one's."""

    @property
    def whole(self) -> Mapping[str, Any]:
        """Everything that differs from the stack's file."""
        return {**self.given, **self.to}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of one change."""

    environment: str
    platform: str
    key: str
    value: str
    changes: int = 0
    """Resources that would be created, updated, replaced or deleted."""
    replaced: tuple[str, ...] = ()
    """Resources that are lost: `cluster`, `GPU pool`, `system pool`."""
    because: tuple[str, ...] = ()
    """The properties that force the replacement."""
    warned: tuple[str, ...] = ()
    """The program's warnings in the preview."""
    recycled: tuple[str, ...] = ()
    """The pools whose nodes are drained and replaced, according to the program's warnings."""
    kept: bool = False
    """Whether the program reports that the cloud keeps the old value."""
    refused: bool = False
    """Whether the program refuses the change: the setting is immutable."""
    made: bool = False
    """Whether an `up` then applied the change."""
    not_made: str = ""
    """Why the change was not applied although it replaces something; empty if it was."""
    wrong: tuple[str, ...] = ()
    """Deviations from the expected effect; empty if there are none."""

    @property
    def deletes(self) -> bool:
        """Whether what it replaces gets another type or name, as a pool that becomes a class."""
        return bool(self.replaced) and not self.because


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The file's data for a platform."""

    changes: list[Change]
    silent: Mapping[str, str] = field(default_factory=dict)
    """Keys, or choices (`key=value`), that declare nothing on the platform -> why."""
    not_here: Mapping[str, str] = field(default_factory=dict)
    """Keys that cannot be changed in an existing stack -> why."""
    not_applied: Mapping[str, str] = field(default_factory=dict)
    """Keys whose changes, and those of the keys below them, are only previewed -> why."""
    stays: frozenset[str] = frozenset()
    """Keys whose changes cannot be undone."""

    def only_previewed(self, key: str) -> str | None:
        """Why a change of the key is not applied; None if it is."""
        parts = key.split(".")
        above = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
        return next((self.not_applied[name] for name in above if name in self.not_applied), None)


@cache
def table(platform: str, stack: str) -> Table:
    """The data of the fields and the file for a platform and one of its stacks; for stacks that
    exist only for changes, only the file's. A row replaces the change derived from its first key's
    field."""
    rows = _rows(platform, stack)
    followed, changes = without_pods(platform, stack)
    if stack not in MORE:
        file = EXAMPLES / f"Pulumi.{stack}.yaml"
        changes = [*running(platform, file, _merged(rows, "start").get("pods", {})), *changes]
    return Table(
        changes=[*followed, *changes],
        silent=silent(platform, stack),
        not_here=_each_of_pods(_merged(rows, "skip")),
        not_applied=_merged(rows, "preview_only"),
        stays=frozenset(key for row in rows for key in row.get("stays", ())),
    )


@cache
def silent(platform: str, stack: str) -> Mapping[str, str]:
    """`Table.silent`, which is read without the changes."""
    effects = document()["effects"]
    return {} if stack in MORE else _each_of_pods(effects[platform].get("skip", {}))


@cache
def without_pods(platform: str, stack: str) -> tuple[list[Change], list[Change]]:
    """The changes that follow from the fields of cluster, pools and monitoring, and the file's."""
    rows = _rows(platform, stack)
    changes = [_change(dict(to)) for row in rows for to in row.get("value", ())]
    if stack in MORE:
        return [], changes
    skipped = _each_of_pods(_merged(rows, "skip"))
    known = {*silent(platform, stack), *skipped, *(change.key for change in changes)}
    file = EXAMPLES / f"Pulumi.{stack}.yaml"
    start = _merged(rows, "start")
    followed = derived(platform, file, {key: to for key, to in start.items() if key != "pods"})
    return [change for change in followed if change.key not in known], changes


def _rows(platform: str, stack: str) -> list[Mapping[str, Any]]:
    parts = document()["changes"]
    scopes = (stack,) if stack in MORE else (platform, stack, "all")
    return [parts[scope] for scope in scopes if scope in parts]


def _merged(rows: Sequence[Mapping[str, Any]], part: str) -> dict[str, Any]:
    return {key: value for row in rows for key, value in row.get(part, {}).items()}


def _each_of_pods(reasons: Mapping[str, str]) -> dict[str, str]:
    return {pod: why for key, why in reasons.items() for pod in _of_pods(key)}


def _of_pods(key: str) -> list[str]:
    """The keys that `pods.<key>` stands for: those of each block that runs pods."""
    kind, _, inner = key.partition(".")
    if kind != "pods":
        return [key]
    found = {f"{block}.{inner}": settings(row.args) for block, row in RUNNING.items()}
    return [kind for kind, fields in found.items() if inner in {field.key for field in fields}]


def _change(to: dict[str, Any]) -> Change:
    given = to.pop("start", {})
    return Change(key=next(iter(to)), to=to, given=given)


def derived(platform: str, file: Path, along: Mapping[str, Mapping[str, Any]]) -> Iterator[Change]:
    """The changes of a stack's cluster, pools and monitoring that are derived from the fields: to
    every listed value, or else to the first other value that the block accepts. A block with listed
    values is changed as a whole. `along`: further keys that a change of a config block, such as
    `gpuPools`, needs."""
    config = _loaded(file.read_text())["config"]
    for setting in settings_of(platform):
        block = setting.key.partition(".")[0]
        if block not in FOLLOWED or not _followed(platform, setting):
            continue
        before = _block(config, block)
        now = _read(platform, block, before)
        parent = setting.key.rpartition(".")[0]
        for value, needs in tries(platform, setting, _present(before, setting.key)):
            given = {f"{parent}.{key}": value for key, value in needs.items()}
            given |= along.get(block, {})
            change = Change(key=setting.key, to={setting.key: value}, given=given)
            after = copy.deepcopy(config)
            apply_changes(after, change.given)
            start = _read(platform, block, _block(after, block))
            apply_changes(after, change.to)
            if _read(platform, block, _block(after, block)) in (None, start or now):
                continue
            # Without the change, the settings may refuse what it needs.
            yield change if start else Change(key=setting.key, to=change.whole)
            if not listed(platform, setting.key):
                break


def running(platform: str, file: Path, also: Mapping[str, Any]) -> Iterator[Change]:
    """New entries of each block that runs pods, in a stack with one more pool like its last and
    with what the pods may name (`also`): one with the values that follow from the block's fields,
    and one for each listed entry (`pods`) that it has keys of."""
    pods, config = document()["pods"], _loaded(file.read_text())["config"]
    apply_changes(config, given := also.get("start", {}))
    first, *_, last = [*config["gpu-cluster:gpuPools"].items()] * 2
    needed = {**pods["start"], "pool": first[0], "pools": [first[0], "second"]}
    others = {key: value for key, value in also.items() if key != "start"}
    others["gpuPools"] = {"second": last[1]}
    shared = pods["value"][0]
    for block, kind in RUNNING.items():
        own = [setting for setting in settings(kind.args) if setting.outer is None]
        for row in ({}, *pods["value"]):
            entry = {name.key: [row[name.key]] for name in own if name.key in row}
            if row and next(iter(row)) not in entry:
                continue
            for part in own:
                if part.required and part.key in needed:
                    entry.setdefault(part.key, [needed[part.key]])
                elif part.required or not (row or part.key in shared or part.marked(Silent)):
                    full = replace(part, key=f"{block}.{part.key}")
                    entry.setdefault(part.key, _values(platform, full))
            to = _accepted(config, block, entry, {**others, **row.get("start", {})})
            yield Change(key=block, to=to, given=given)


def _values(platform: str, setting: Setting) -> list[Any]:
    """A required setting's example, or else values, not its default, that need no others."""
    if setting.example:
        return [yaml.safe_load(setting.example)]
    found = tries(platform, setting)
    return [value for value, needs in found if not needs and value != setting.default]


def _accepted(
    config: Any, block: str, entry: dict[str, list[Any]], also: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The entry and what it needs in addition, without what the settings refuse: of the values of a
    key, the first one that they accept. Raises ValueError if they refuse what is not in it."""
    path = [block, *(["new"] if block in NAMED else [])]
    while True:
        value = {key: values[0] for key, values in entry.items() if values}
        to = {block: {"new": value} if block in NAMED else value, **also}
        after = copy.deepcopy(config)
        apply_changes(after, copy.deepcopy(to))
        try:
            from_config(flat(with_kubeconfig(after, NOWHERE)), ROOT)
            return to
        except Refusal as refusal:
            refused = steps(refusal.path)
            here = refused[: len(path)] == path
            key, *inner = map(str, refused[len(path) :] if here else [""])
            if key in value and len(inner) == 2 and isinstance(value[key], dict):
                entry[key] = [{k: v for k, v in value[key].items() if k != inner[0]}]
            elif key in value:
                del entry[key][0]
            elif "batch" not in also:
                also = {**also, "batch": {"jobSet": True}}  # as training jobs do
            else:
                raise


def _followed(platform: str, setting: Setting) -> bool:
    """Whether a change is derived from the field itself: not if the field changes nothing, or is
    changed with a block around it."""
    if setting.marked(Silent) and not listed(platform, setting.key):
        return False
    outer = setting.outer
    while outer and not listed(platform, outer.key):
        outer = outer.outer
    return outer is None and "<name>" not in setting.key and "[]" not in setting.key


def _block(config: Mapping[str, Any], room: str) -> Mapping[str, Any]:
    """A block of a stack file; if its entries have names, the first entry."""
    block: Mapping[str, Any] = config.get(f"gpu-cluster:{room}", {})
    return block[next(iter(block))] if room in NAMED else block


def _present(block: Any, key: str) -> Any:
    """The value of a key in its block; None if it is missing."""
    for step in key.split(".")[1:]:
        block = block.get(step) if isinstance(block, Mapping) else None
    return block


def _read(platform: str, room: str, block: Mapping[str, Any]) -> Any:
    """The decoded block; None if it is refused."""
    kind = blocks(platform)[room]
    try:
        return decode(room, kind, {key: v for key, v in block.items() if key != "platform"})
    except ValueError:
        return None


def effects(runner: FaultRunner, planned: Table) -> Iterator[Effect]:
    """Previews each change of a deployed stack that has what the change needs."""
    file = runner.folder / "program" / f"Pulumi.{runner.stack}.yaml"
    before = file.read_text()
    start = changed(before, {})
    try:
        for change in [*planned.changes, Change(key="", to={})]:  # at the end without any `given`
            if (needed := changed(before, change.given)) != start:
                file.write_text(start := needed)
                runner.run_or_fail(runner.sandbox.engine.up)
            if change.key:
                file.write_text(changed(start, change.to))
                yield _effect(runner, change)
    finally:
        file.write_text(before)


def applied(
    runner: FaultRunner, planned: Table, found: Sequence[Effect]
) -> Iterator[tuple[int, Effect]]:
    """Applies the changes, each by an `up` from its start, which also undoes the previous change.

    `found`: the previews' effects, in the table's order; yields the index and the effect as now
    known. A change that cannot be undone remains, and later changes are made in addition to it.
    """
    file = runner.folder / "program" / f"Pulumi.{runner.stack}.yaml"
    first = before = file.read_text()
    start = changed(first, {})
    seen = _Standing.of(runner)
    if not seen.created:  # another owner's cluster, of which an `up` can replace nothing
        return
    last = nothing = Effect(
        environment=runner.stack, platform=runner.sandbox.program.platform, key="", value=""
    )
    try:
        for number, (change, effect) in enumerate(zip(planned.changes, found, strict=True)):
            if effect.refused or effect.wrong or change.key.partition(".")[0] not in MADE:
                continue
            if reason := planned.only_previewed(change.key):
                yield number, replace(effect, not_made=reason)
                continue
            needed = changed(before, change.given)
            same = set(last.because) & set(effect.because) or (last.deletes and effect.deletes)
            if needed != start or same:
                # Between two changes with the same effect, an `up` would do nothing.
                file.write_text(start := needed)
                runner.run_or_fail(runner.sandbox.engine.up)
                seen, last = _Standing.of(runner), nothing
            file.write_text(changed(start, change.to))
            outcome = runner.sandbox.engine.up()
            now = _Standing.of(runner)
            wrong = list(outcome.errors if not outcome.ok else now.not_as_said(seen, effect, last))
            seen = now
            yield number, replace(effect, made=True, wrong=tuple(wrong))
            if change.key in planned.stays:
                before = start = changed(before, change.to)
                last = replace(last, replaced=(), recycled=())
            else:
                last = effect
        if again := runner.run_or_fail(runner.sandbox.engine.up).resources:
            raise NotRecovered(*(f"a further up: {what} {urn}" for what, urn in again))
    finally:
        file.write_text(first)


@dataclass(frozen=True, slots=True)
class _Standing:
    """The existing clusters and node pools at one moment."""

    created: Mapping[str, tuple[str, str]]
    """URN -> what it is (`cluster`, `GPU pool`, `system pool`), and when it was created."""
    revisions: Mapping[str, int]
    """Node group -> how often the cloud has recycled it."""

    @classmethod
    def of(cls, runner: FaultRunner) -> "_Standing":
        created = {
            row["urn"]: (str(loss), str(row["created"]))
            for row in runner.sandbox.engine.resources()
            if Urn.parse(row["urn"]).type in NODES
            and (loss := Planned(urn=row["urn"], verb="replace").loss)
        }
        groups = runner.sandbox.cloud.node_groups()
        return cls(created, {group.name: group.revision for group in groups})

    def not_as_said(self, before: "_Standing", effect: Effect, last: Effect) -> Iterator[str]:
        """The effects of an `up` beyond this effect and the undoing of the previous change, and the
        parts of this effect that are missing."""
        lost = {
            kind: urn
            for urn, (kind, made) in before.created.items()
            if urn in self.created and self.created[urn][1] != made
        }
        for kind, urn in lost.items():
            if kind not in {*effect.replaced, *last.replaced}:
                yield f"the up replaced the {kind} {Urn.parse(urn).name}"
        # A pool that becomes a compute class, or a node group for each of its choices, is deleted.
        deleted = {kind for urn, (kind, _) in before.created.items() if urn not in self.created}
        for kind in effect.replaced:
            if kind not in {*lost, *deleted}:
                yield f"the up did not replace the {kind}"
        recycled = {
            "system pool" if "system" in name else "GPU pool"
            for name, revision in self.revisions.items()
            if revision > before.revisions.get(name, revision)
        }
        for kind in sorted(recycled - {*effect.recycled, *last.recycled}):
            yield f"the up recycled the nodes of the {kind}, and no warning says so"
        for kind in sorted({*effect.recycled} - recycled - {*effect.replaced, *last.replaced}):
            yield f"the program warns that nodes of the {kind} are recycled, and none was"


def changed(stack_file: str, to: Mapping[str, Any]) -> str:
    """A stack file's text with these keys set."""
    document = _loaded(stack_file)
    apply_changes(document["config"], to)
    return yaml.safe_dump(document, sort_keys=False)


def _loaded(stack_file: str) -> Any:
    return json.loads(json.dumps(long_yaml(stack_file)))  # without shared objects


def apply_changes(config: dict[str, Any], to: Mapping[str, Any]) -> None:
    """Sets keys of a stack file's config; in blocks with named entries, those of the first."""
    for key, value in to.items():
        room, *path = key.split(".")
        if key == room and value == ABSENT:
            config.pop(f"gpu-cluster:{room}", None)
            continue
        block = config.setdefault(f"gpu-cluster:{room}", {})
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


def _effect(runner: FaultRunner, change: Change) -> Effect:
    engine = runner.sandbox.engine
    done = engine.run("preview", "--json", PULUMI_ENABLE_STREAMING_JSON_PREVIEW="true")
    plan = read_plan(done.stdout or "{}", change.key)
    errors = list(plan.errors) or ([done.stderr.strip()] if done.returncode else [])
    refused = any("IMMUTABLE" in codes(error) for error in errors)
    # Whatever a refused change would have replaced remains.
    lost = [] if refused else [loss for loss in plan.losses if loss.type in NODES]
    lines = {line: codes(line) for line in plan.warnings}
    warned = tuple(line for line, found in lines.items() if REPLACES.keys() & {*found})
    recycled = [RECYCLES[code] for found in lines.values() for code in found if code in RECYCLES]
    return Effect(
        environment=runner.stack,
        platform=runner.sandbox.program.platform,
        key=change.key,
        value=str(change.to[change.key]),
        changes=len(plan.changes),
        replaced=tuple(dict.fromkeys(str(resource.loss) for resource in lost)),
        because=tuple(dict.fromkeys(path for row in lost for path in row.paths)),
        warned=warned,
        recycled=tuple(dict.fromkeys(recycled)),
        kept=any("KEPT" in found for found in lines.values()),
        refused=refused,
        wrong=() if refused else tuple(errors or not_as_said(lost, warned)),
    )


def not_as_said(lost: list[Planned], warned: tuple[str, ...]) -> Iterator[str]:
    """Replacements without a warning of the program, and warnings without a replacement."""
    expected = set().union(*(REPLACES[code] for line in warned for code in codes(line)))
    if unsaid := [resource for resource in lost if resource.loss not in expected]:
        names = ", ".join(f"{row.loss} {row.name}" for row in unsaid)
        yield f"would replace the {names}, and no warning says so"
    if warned and expected and not lost:
        yield f"the program warns for nothing: {warned[0]}"
