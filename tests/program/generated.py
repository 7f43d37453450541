"""Configs that nobody wrote: an environment's own with other settings and more pools, then with
mistakes. A seed gives the same config whatever else is run.

What is set follows from the fields of the settings and `quality/tries.yaml`; only what the settings
accept stays.
"""

import copy
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

import yaml

from gpu_cluster.stacks.definition.files import ROOT
from quality.faults.changes import NAMED, Table, table
from quality.keys import Setting
from quality.tries import ABSENT, tries
from tests.program import everything
from tests.program.effects import STACK_OF, after, leaves, own_starts, places, read
from tests.program.environments import values_of

Values = dict[str, Any]

PLATFORM_OF = {stack: platform for platform, stack in STACK_OF.items()}
PLATFORM_STACKS = tuple(PLATFORM_OF)
"""An environment of each platform."""
JUNK = (None, True, -1, 10**9, 3.5, "", "no such thing", "a\nb", [], {}, [{}], {"x": 1})
STACKS: Mapping[str, Values] = {
    f"{file.relative_to(ROOT)}": config
    for folder in ("examples", "quality/faults/stacks", "tests/fixtures/stacks")
    for file in sorted((ROOT / folder).rglob("Pulumi.*.yaml"))
    if "gpu-cluster:cluster" in (config := yaml.safe_load(file.read_text()).get("config", {}))
} | {stack: everything.config_of(stack) for stack in everything.EVERYTHING}
"""The configs of the repository's stack files, and those with all that a scaler can do."""
_NAMES = ("a", "gpus", "large-2", "train-b", "x9-y")


def config(stack: str, seed: int, *, again: bool = False) -> Values:
    """An environment's config after some changes of several settings at once, some of single ones,
    and with further pools; drawn once, and the caller's own. `again` draws it in any case."""
    return copy.deepcopy((_config.__wrapped__ if again else _config)(stack, seed))


@cache
def _config(stack: str, seed: int) -> Values:
    random = Random(f"{stack} {seed}")
    values = values_of(stack)
    own, others = _rows(stack)
    # What needs several settings at once is rare among all rows: one of those in each config.
    for to in [random.choice(own), *random.sample(others, random.randint(1, 8))]:
        values = _if_accepted(after(values, to), values) if _reaches(to, values) else values
    for setting in random.sample(_settings(stack), random.randint(4, 40)):
        values = _if_accepted(_with(stack, values, setting, random), values)
    for name in random.sample(_NAMES, random.randint(0, 2)):
        pools = values["gpu-cluster:gpuPools"]
        to = {"gpuPools": {name: random.choice([*pools.values()])}}
        values = _if_accepted(after(values, to), values)
    return values


def broken(stack: str, seed: int) -> Values:
    """Such a config with one value, at any depth, replaced by something else or removed."""
    random = Random(f"broken {stack} {seed}")
    values = config(stack, seed)
    blocks = {key: value for key, value in values.items() if "gpu-" in key}
    place, key = _chosen(blocks, random)
    if isinstance(place, dict) and random.random() < 0.5:
        del place[key]
    else:
        place[key] = random.choice(JUNK)
    return values


def mistaken(stack: str, seed: int, mistakes: int) -> Values:
    """The config of one of `STACKS` with this many mistakes: typing mistakes in keys and words,
    values of other types, out of range or of other settings, deleted keys, duplicated entries."""
    random = Random(f"{stack} {mistakes} {seed}")
    values: Values = copy.deepcopy(STACKS[stack])
    for _ in range(mistakes):
        place, key = _chosen(values, random)
        value = place[key]
        match random.randrange(6):
            case 0 if isinstance(place, dict):
                place[_misspelt(str(key), random)] = place.pop(key)
            case 1 if isinstance(place, dict):
                del place[key]
            case 2 if isinstance(place, dict) and isinstance(value, dict):
                place[_misspelt(str(key), random)] = copy.deepcopy(value)
            case 2 if isinstance(place, list):
                place.append(copy.deepcopy(value))
            case 3:
                other, name = _chosen(values, random)
                place[key] = copy.deepcopy(other[name])
            case 4 | 5 if isinstance(value, str):
                place[key] = _misspelt(value, random)
            case 4 | 5 if isinstance(value, int | float):
                place[key] = random.choice((-value, 0, value * 1000, value / 2, str(value)))
            case _:
                place[key] = copy.deepcopy(random.choice(JUNK))
    return values


def _chosen(values: Values, random: Random) -> tuple[Any, Any]:
    """A value at any depth: the map or list that has it, and its key or position there."""
    *above, key = random.choice(_paths(values))
    place: Any = values
    for step in above:
        place = place[step]
    return place, key


def _misspelt(word: str, random: Random) -> str:
    """The word with a letter left out, doubled, in another case, or swapped with the next one."""
    at = random.randrange(len(word) or 1)
    letter, after = word[at : at + 1], word[at + 1 :]
    return word[:at] + random.choice(
        (after, letter * 2 + after, letter.swapcase() + after, after[:1] + letter + after[1:])
    )


@cache
def _rows(stack: str) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Changes that a preview of the stack can have: the listed starts, and those of the fault
    injection, which leave it its workloads."""
    planned = table(PLATFORM_OF[stack], stack)
    own = [to for to in own_starts(PLATFORM_OF[stack]) if not _elsewhere(planned, to)]
    others = [
        {key: value for key, value in change.whole.items() if (key, value) != ("workloads", ABSENT)}
        for change in planned.changes
    ]
    return own, others


def _elsewhere(planned: Table, to: Mapping[str, Any]) -> bool:
    """Whether it is of another cluster: a preview has none there."""
    return any(key.startswith("cluster.kube") for key in planned.not_here.keys() & to.keys())


def _reaches(to: Mapping[str, Any], values: Values) -> bool:
    """Whether the config has an entry for each key: an earlier change may have removed them all."""
    rooms = {key.partition(".")[0] for key in to if "." in key}
    return all(values.get(f"gpu-cluster:{room}") for room in rooms & {*NAMED})


@cache
def _settings(stack: str) -> Sequence[Setting]:
    return [*leaves(PLATFORM_OF[stack]).values()]


def _with(stack: str, values: Values, setting: Setting, random: Random) -> Values:
    """The config with another value of the setting, in one of the places where it can be."""
    other = copy.deepcopy(values)
    spots = [*places(other, setting.key)]
    block, key = random.choice(spots) if spots else ({}, "")
    tried = [*tries(PLATFORM_OF[stack], setting, block.get(key), random=random)] if spots else []
    if len(block) > 1:  # the settings take an empty block for one that is left out
        tried.append((ABSENT, {}))
    for value, given in random.sample(tried, min(1, len(tried))):
        for name, each in ({key: value} | given).items():
            if each == ABSENT:
                block.pop(name, None)
            else:
                block[name] = copy.deepcopy(each)
    return other


def _if_accepted(values: Values, before: Values) -> Values:
    return before if read(values) is None else values


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        found += _paths(item, (*path, key)) if isinstance(item, dict | list) else [(*path, key)]
    return found
