"""Configs that nobody wrote: an environment's own with other settings and more pools, then with
something broken. A seed gives the same config whatever else is run.

What is set follows from the fields of the settings, `quality/faults/changes.yaml` and
`effects.yaml`; only what the settings accept stays.
"""

import copy
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from components.limits import fragment
from quality.docs.keys import Setting
from quality.faults.changes import Table, table
from quality.tries import ABSENT, tries
from tests.program.effects import STACK_OF, after, leaves, own_starts, places, read
from tests.program.environments import values_of

Values = dict[str, Any]

PLATFORM_OF = {stack: platform for platform, stack in STACK_OF.items()}
PLATFORM_STACKS = tuple(PLATFORM_OF)
"""An environment of each platform."""
JUNK = (None, True, -1, 3.5, "", "no such thing", "a\nb", [], {}, [{}], {"x": 1})
_NAMES = ("a", "gpus", "large-2", "train-b", "x9-y")


def config(stack: str, seed: int) -> Values:
    """An environment's config after some changes of several settings at once, some of single ones,
    and with further pools."""
    random = Random(f"{stack} {seed}")
    values = values_of(stack)
    own, others = _rows(stack)
    # What needs several settings at once is rare among all rows: one of those in each config.
    for to in [random.choice(own), *random.sample(others, random.randint(1, 8))]:
        values = _if_accepted(after(values, to), values)
    for setting in random.sample(_settings(stack), random.randint(4, 40)):
        values = _if_accepted(_with(values, setting, random), values)
    for name in random.sample(_NAMES, random.randint(0, 2)):
        pools = values["gpu-cluster:gpuPools"]
        to = {"gpuPools": {name: random.choice([*pools.values()])}}
        values = _if_accepted(after(values, to), values)
    return values


def broken(stack: str, seed: int) -> Values:
    """Such a config with one value, at any depth, replaced by something else or removed."""
    random = Random(f"broken {stack} {seed}")
    values = copy.deepcopy(config(stack, seed))
    path = random.choice(_paths({k: v for k, v in values.items() if "gpu-" in k}))
    place: Any = values
    for step in path[:-1]:
        place = place[step]
    if isinstance(place, dict) and random.random() < 0.5:
        del place[path[-1]]
    else:
        place[path[-1]] = random.choice(JUNK)
    return values


@cache
def _rows(stack: str) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Changes that a preview of the stack can have, and that leave it its workloads: those of
    `effects.yaml`, and those of the fault injection."""
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


@cache
def _settings(stack: str) -> Sequence[Setting]:
    return [*leaves(PLATFORM_OF[stack]).values()]


def _with(values: Values, setting: Setting, random: Random) -> Values:
    """The config with another value of the setting, in one of the places where it can be."""
    other = copy.deepcopy(values)
    spots = [*places(other, setting.key)]
    block, key = random.choice(spots) if spots else ({}, "")
    tried = _drawn(setting, block.get(key), random) if spots else []
    if len(block) > 1:  # the settings take an empty block for one that is left out
        tried.append((ABSENT, {}))
    for value, given in random.sample(tried, min(1, len(tried))):
        for name, each in ({key: value} | given).items():
            if each in (ABSENT, None):
                block.pop(name, None)
            else:
                block[name] = copy.deepcopy(each)
    return other


def _drawn(setting: Setting, present: Any, random: Random) -> list[tuple[Any, Mapping[str, Any]]]:
    """Values to try, and one of those that the field's limits allow."""
    known = fragment(setting.annotations)
    tried = [*tries(setting, present)]
    if setting.kind is int and "minimum" in known:
        most = min(known.get("maximum", known["minimum"] + 9), known["minimum"] + 9)
        tried.append((random.randint(known["minimum"], most), {}))
    return tried


def _if_accepted(values: Values, before: Values) -> Values:
    return before if read(values) is None else values


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        found += _paths(item, (*path, key)) if isinstance(item, dict | list) else [(*path, key)]
    return found
