"""Whether a setting changes what the program declares: two configs that differ in it alone."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from components.settings import load as settings
from quality.docs import keys
from quality.faults.changes import ABSENT, NAMED, Change, changed, table
from stacks.files import EXAMPLES
from tests.program.environments import as_engine_config, recorded
from tests.unit.quality.test_changes import TITLE

ROWS: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
STACK_OF = {"gke": "dev", "gke-autopilot": "autopilot", "eks": "train", "existing": "onprem"}
"""Platform -> the environment whose config its settings are changed in."""
LISTED = "gpu-cluster:cluster:LastingSettings"
"""Repeats settings to compare the next run's with: no effect of theirs."""

Config = dict[str, Any]


def leaves(platform: str) -> Mapping[str, Any]:
    """Every key of the platform that holds a value -> the value's type."""
    found = {}
    for title, kind in keys.TABLES.items():
        parts = TITLE.match(f"## {title}")
        assert parts
        if (parts[2] or parts[3] or platform) == platform:
            found |= {f"{parts[1]}.{key}": hint for key, hint in keys.leaves(kind)}
    return found


@cache
def starts(platform: str) -> Sequence[Config]:
    """The sample and what follows from it by one row each, those of `effects.yaml` first."""
    stack = STACK_OF[platform]
    sample = (EXAMPLES / f"Pulumi.{stack}.yaml").read_text()
    own = [Change(key=next(iter(to)), to=to) for to in own_starts(platform)]
    rows = own + table(platform, stack).changes
    return [
        yaml.safe_load(text)["config"]
        for text in (sample, *(changed(sample, change) for change in rows))
    ]


def own_starts(platform: str) -> Sequence[Mapping[str, Any]]:
    """The rows of `effects.yaml` for the platform."""
    return [to for part in ("everywhere", platform) for to in ROWS["starts"][part]]


def places(config: Config, key: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Every block of the config in which the key stands or could stand, and its last part."""
    room, *parents, last = key.split(".")
    blocks = [config[f"gpu-cluster:{room}"]] if f"gpu-cluster:{room}" in config else []
    for name in [*(["<name>"] if room in NAMED else []), *parents]:
        if name == "<name>":
            blocks = [entry for block in blocks for entry in block.values()]
        elif name.endswith("[]"):
            blocks = [one for block in blocks for one in block.get(name[:-2]) or ()]
        else:
            blocks = [block[name] for block in blocks if block.get(name) is not None]
    for block in blocks:
        yield block, last


def values(platform: str, key: str, hint: Any) -> list[Any]:
    """Values to try for the key: its choices, all that a start has there, and neighbours."""
    given = [
        block[last]
        for start in starts(platform)
        for block, last in places(start, key)
        if last in block
    ]
    tried = [*ROWS["values"].get(key, ()), *keys.choices(hint), *given]
    tried += [near for one in given for near in _near(one)]
    tried += {bool: [True, False], int: [2, 3]}.get(hint, [])
    return [one for i, one in enumerate([*tried, ABSENT]) if one not in tried[:i] or _odd(one)]


def _odd(value: Any) -> bool:
    """1 == True: of such values none counts as a repetition."""
    return isinstance(value, bool)


def _near(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value * 2]
    if isinstance(value, str):
        return [f"{value}x"]
    if isinstance(value, list):
        return [value[:-1], [*value, *map(_nearest, value[-1:])]]
    return [{name: _nearest(each) for name, each in value.items()}, {}]


def _nearest(value: Any) -> Any:
    return next(iter(_near(value)), value)


def pairs(platform: str, key: str, hint: Any) -> Iterator[tuple[Config, Config, set[str]]]:
    """Accepted configs that differ in the key alone and mean different things, and its values."""
    for start in starts(platform):
        for number, (block, last) in enumerate(places(start, key)):
            before = block.get(last, ABSENT)
            for value in values(platform, key, hint):
                other = copy.deepcopy(start)
                target, _ = list(places(other, key))[number]
                if value == ABSENT:
                    target.pop(last, None)
                else:
                    target[last] = value
                meant = read(other)
                if meant is not None and meant != read(start):
                    yield start, other, {str(before), str(value)}


def effects(platform: str, key: str, hint: Any, most: int = 10) -> tuple[bool, Sequence[Any]]:
    """Whether the key changes what is declared, and which choices of its type do not.

    A choice does where some other value in its place declares something else. Gives up after
    `most` pairs without any effect.
    """
    pending, seen, fruitless = {str(each) for each in keys.choices(hint)}, False, 0
    for start, other, given in pairs(platform, key, hint):
        if seen and not pending & given:
            continue
        if declared(start) != declared(other):
            seen, pending, fruitless = True, pending - given, 0
        else:
            fruitless += 1
        if (seen and not pending) or fruitless == most:
            break
    return seen, sorted(pending)


def read(config: Config) -> settings.Settings | None:
    """What the config means; None where it is refused."""
    return _read(json.dumps(config))


@cache
def _read(config: str) -> settings.Settings | None:
    try:
        return settings.from_config(as_engine_config(json.loads(config)))
    except ValueError:
        return None


def declared(config: Config, *, again: bool = False) -> Sequence[str]:
    """Every resource that the program registers, with inputs and options, as text."""
    return sorted(
        json.dumps({name: getattr(each, name) for name in each.__slots__}, default=sorted)
        for each in recorded(config, again=again).resources
        if each.type != LISTED
    )
