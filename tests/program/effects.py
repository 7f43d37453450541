"""Whether a setting changes what the program declares, and where: two configs that differ only in
it."""

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gpu_cluster.components.platforms import PLATFORMS, platform_in
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.schema.effect import Sent
from gpu_cluster.components.schema.refusal import Refusals
from gpu_cluster.components.settings import load as settings
from gpu_cluster.rehearsal.plugins.cloud.patterns import within
from gpu_cluster.stacks.definition.files import SAMPLES
from quality import keys
from quality.faults.changes import NAMED, apply_changes, table
from quality.keys import Setting
from quality.tries import ABSENT, document, tries
from tests.program.environments import as_engine_config, recorded, values_of
from tests.program.registered import inputs_of

_SAMPLE = {
    platform_in(values_of(stack)["gpu-cluster:cluster"]): stack for stack in reversed(SAMPLES)
}
STACK_OF = {platform: _SAMPLE[platform] for platform in PLATFORMS}
"""Platform -> the environment whose config its settings are changed in."""
LISTED = "gpu-cluster:cluster:LastingSettings"
"""Repeats settings to compare the next run's with: no effect of theirs."""

_POSITION = re.compile(r"\[\d+\]")

Config = dict[str, Any]
Input = tuple[str, str, str, str]
"""Class of a resource, its name, the path of an input or option, its value as JSON."""


@cache
def leaves(platform: str) -> Mapping[str, Setting]:
    """Every key of the platform that holds a value."""
    return {setting.key: setting for setting in keys.settings_of(platform) if setting.leaf}


def sent(setting: Setting) -> Sequence[str]:
    """The inputs in which the setting shows, by its field: `NodePool nodeConfig.diskType`."""
    return [each for marker in setting.inherited(Sent) for each in marker.inputs]


@cache
def starts(platform: str) -> Sequence[Config]:
    """The sample and what follows from it by one row each, those listed for it first."""
    sample = values_of(STACK_OF[platform])
    return [sample, *(after(sample, to) for to in rows(platform))]


@cache
def rows(platform: str) -> Sequence[Mapping[str, Any]]:
    """The changes by which the starts follow from the sample."""
    followed = [change.whole for change in table(platform, STACK_OF[platform]).changes]
    own = [*own_starts(platform), *followed]
    if not PLATFORMS[platform].added:
        return own
    # Also what a cluster of the stack's own has, as far as it is accepted here.
    sample, like = values_of(STACK_OF[platform]), rows(platform.removesuffix("-existing"))
    own += [to for to in like if to not in own]
    return [to for to in own if read(after(sample, to))]


def nearest(platform: str, key: str) -> Sequence[Config]:
    """The starts, those first that change a key beside this one: most settings that the sample
    does not take need one of these."""
    beside = key.rpartition(".")[0] + "."
    near = [any(changed.startswith(beside) for changed in to) for to in rows(platform)]
    sample, *others = starts(platform)
    by_distance = sorted(zip(near, others, strict=True), key=lambda pair: not pair[0])
    return [sample, *(start for _, start in by_distance)]


def after(config: Config, to: Mapping[str, Any]) -> Config:
    """The config with a change in it."""
    other = copy.deepcopy(config)
    apply_changes(other, copy.deepcopy(to))
    return other


def own_starts(platform: str) -> Sequence[Mapping[str, Any]]:
    """The starts of `quality/tries.yaml` for the platform."""
    parts = document()["effects"]
    starts = [to for part in ("all", platform) for to in parts[part].get("start", ())]
    # A list in the list is what another platform has too.
    return [to for start in starts for to in (start if isinstance(start, list) else [start])]


# What a sample has for its own scaler, and other scalers refuse.
_FOR_SCALER: Mapping[str, Mapping[str, Any]] = {
    "compute-classes": {"gpuPools.driver": ABSENT, "gpuPools.devicePlugin": ABSENT},
    "autopilot-compute-classes": {"gpuPools.gpusPerNode": 1},
    "karpenter": {
        "cluster.autoscaler": ABSENT, "cluster.karpenter": {}, "gpuPools.nodeRepair": ABSENT,
    },
    "auto-mode": {"cluster.autoscaler": ABSENT, "gpuPools.nodeRepair": ABSENT},
}  # fmt: skip


def set_scaler(config: Config, name: str) -> None:
    """Gives the config of a sample the scaler, a key of `SCALERS`."""
    to: dict[str, Any] = {**_FOR_SCALER.get(name, {})}
    for pool in config["gpu-cluster:gpuPools"].values():
        for key, value in to.items():
            if key.startswith("gpuPools."):
                apply_changes({"gpu-cluster:gpuPools": {"": pool}}, {key: value})
    cluster = {key: value for key, value in to.items() if key.startswith("cluster.")}
    setting = {"cluster.scaler": SCALERS[name].setting}
    apply_changes(config, copy.deepcopy({**setting, **cluster}))


def with_scaler(platform: str, name: str) -> Config:
    """The platform's sample with the scaler, a key of `SCALERS`."""
    config = values_of(STACK_OF[platform])
    set_scaler(config, name)
    return config


def without_effect(platform: str, name: str, block: str) -> list[str]:
    """Settings of a block whose change the scaler accepts, and for which it declares the same."""
    start = with_scaler(platform, name)
    assert read(start) is not None
    silent = []
    for change in table(platform, STACK_OF[platform]).changes:
        if not change.key.startswith(f"{block}.") or change.key == "cluster.scaler":
            continue
        # Without the other keys that the change needs with another scaler.
        for given in (change.given, {}):
            before = after(start, given)
            other = after(before, change.to if given or not change.given else {
                change.key: change.to[change.key]})  # fmt: skip
            if _differs(before, other) and read(before):
                if inputs(before) == inputs(other):
                    silent.append(change.key)
                break
    return silent


def places(config: Config, key: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Every block of the config in which the key stands or could stand, and its last part."""
    room, *parents, last = key.split(".")
    blocks = [config[f"gpu-cluster:{room}"]] if f"gpu-cluster:{room}" in config else []
    for name in [*(["<name>"] if room in NAMED else []), *parents]:
        if name == "<name>":
            blocks = [entry for block in blocks for entry in block.values()]
        elif name.endswith("[]"):
            found = [one for block in blocks for one in block.get(name[:-2]) or ()]
            blocks = [one for one in found if isinstance(one, dict)]  # others are short for a map
        else:
            blocks = [block[name] for block in blocks if block.get(name) is not None]
    for block in blocks:
        yield block, last


def values(platform: str, setting: Setting) -> list[Any]:
    """Values to try: those listed or derived, and all that a start has there."""
    key = setting.key
    given = [
        block[last]
        for start in starts(platform)
        for block, last in places(start, key)
        if last in block
    ]
    tried = [value for value, _ in tries(platform, setting, also=given)]
    tried = [*tried, ABSENT]
    return [*{json.dumps(value): value for value in tried}.values()]  # 1 == True


def pairs(
    platform: str, setting: Setting, wanted: Callable[[set[str]], bool]
) -> Iterator[tuple[Config, Config, set[str]]]:
    """Accepted configs that differ only in the key and mean different things, and its values, if
    these are wanted.

    First the sample and its starts that differ so: what those declare is recorded anyway.
    """
    key = setting.key
    sample, *others = starts(platform)
    for to, other in zip(rows(platform), others, strict=True):
        for block, last in places(sample, key) if [*to] == [key] else ():
            given = {str(block.get(last, ABSENT)), str(to[key])}
            if wanted(given) and _differs(sample, other):
                yield sample, other, given
            break  # of entries that have names, a row changes the first one's
    tried = values(platform, setting)
    for start in nearest(platform, key):
        for number, (block, last) in enumerate(places(start, key)):
            before = block.get(last, ABSENT)
            for value in tried:
                given = {str(before), str(value)}
                if not wanted(given):
                    continue
                other = copy.deepcopy(start)
                target, _ = list(places(other, key))[number]
                if value == ABSENT:
                    target.pop(last, None)
                else:
                    target[last] = value
                if _differs(start, other):
                    yield start, other, given


def _differs(start: Config, other: Config) -> bool:
    meant = read(other)
    return meant is not None and meant != read(start)


def effects(
    platform: str, setting: Setting, most: int = 20, *, any_input: bool = False
) -> tuple[set[str], Sequence[str], Sequence[Any]]:
    """The inputs that the setting changes, in which of those that its field names it does not show,
    and which choices of its type change nothing.

    A choice does where some other value in its place declares something else. Gives up after
    `most` pairs that show nothing new. `any_input`: whether one of those inputs is enough, since
    others may be another platform's.
    """
    unseen, pending = [*sent(setting)], {str(choice) for choice in keys.choices(setting.kind)}
    seen, fruitless = set[str](), 0

    def missing() -> bool:
        return bool(unseen) and not (any_input and len(unseen) < len(sent(setting)))

    def wanted(given: set[str]) -> bool:
        return bool(not seen or missing() or pending & given)

    for start, other, given in pairs(platform, setting, wanted):
        difference = inputs(start) ^ inputs(other)
        shown = [each for each in unseen if any(_within(line, each) for line in difference)]
        if difference and (shown or not seen or pending & given):
            seen |= {f"{kind} {path}".strip() for kind, _, path, _ in difference}
            pending, fruitless = pending - given, 0
            unseen = [each for each in unseen if each not in shown]
        else:
            fruitless += 1
        if (seen and not missing() and not pending) or fruitless == most:
            break
    return seen, unseen, sorted(pending)


def _within(line: Input, place: str) -> bool:
    """Whether the input is the one that a field names, or is beneath it."""
    kind, _, path, _ = line
    wanted, _, outer = place.partition(" ")
    if wanted == "PodSpec":
        whole = _POSITION.sub("[]", path)
        return any(within(whole[each.end() :], outer) for each in re.finditer(r"\bspec\.", whole))
    if wanted == "ObjectMeta":
        wanted, outer = kind, f"metadata.{outer}"
    return kind == wanted and (not outer or within(_POSITION.sub("[]", path), outer))


def inputs(config: Config, *, again: bool = False) -> frozenset[Input]:
    """Every input and option of each resource that the program registers."""
    return (_inputs.__wrapped__ if again else _inputs)(json.dumps(config), again)


@cache
def _inputs(config: str, again: bool) -> frozenset[Input]:
    return frozenset(
        (_class(resource.type), resource.name, path, json.dumps(value))
        for resource in recorded(json.loads(config), again=again).resources
        if resource.type != LISTED
        for path, value in [("", ""), *inputs_of(resource)]
    )


def _class(token: str) -> str:
    """`NodePool` of `gcp:container/nodePool:NodePool`."""
    return "Provider" if token.startswith("pulumi:providers:") else token.rpartition(":")[2]


def read(config: Config) -> settings.Settings | None:
    """What the config means; None where it is refused."""
    return _read(json.dumps(config))


@cache
def _read(config: str) -> settings.Settings | None:
    given, refusals = as_engine_config(json.loads(config)), Refusals()
    try:
        # One round: how much else is wrong with what is refused takes as long again.
        values = settings._values(given, refusals)
        return settings._read(given, values, "", Path(), refusals, rounds=1)
    except ValueError:
        return None
