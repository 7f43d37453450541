"""Values to try for a setting: those of `tries.yaml`, or else derived from its type and limits."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from gpu_cluster.clouds.read import long_yaml
from gpu_cluster.components.schema import limits
from gpu_cluster.components.settings.blocks import RUNNING
from quality.keys import Setting, choices

ABSENT = "absent"
"""Stands for the removal of the setting."""


@cache
def document() -> Mapping[str, Any]:
    """`tries.yaml`, which says what its parts mean."""
    parts: Mapping[str, Any] = long_yaml(Path(__file__).with_suffix(".yaml").read_text())
    return parts


@cache
def listed(platform: str, key: str) -> list[tuple[Any, Mapping[str, Any]]]:
    """The values of the file for a setting, each with the other keys of the same block that it
    needs; `absent` removes one."""
    block, _, inner = key.partition(".")
    keys = [key, *([f"pods.{inner}"] if block in RUNNING else [])]
    for scope in (platform, platform.removesuffix("-existing"), "all"):
        for name in keys:
            entry = document()["values"].get(scope, {}).get(name)
            if isinstance(entry, list):
                return [(value, {}) for value in entry]
            if entry is not None:
                return [(value, entry["start"]) for value in entry["value"]]
    return []


def tries(
    platform: str, setting: Setting, present: Any = None, *, also: list[Any] | None = None,
    random: Random | None = None,
) -> Iterator[tuple[Any, Mapping[str, Any]]]:  # fmt: skip
    """Values, each with the other keys of the same block that it needs; `present`: the setting's
    current value, None if it has none.

    `also`: values of other configs, which are tried with their neighbours. With `random` a number
    within its limits too. The program may refuse them: a neighbour may be out of bounds.
    """
    named = listed(platform, setting.key)
    yield from named
    known = limits.fragment(setting.annotations)
    start = setting.default if present is None else present
    derived = list[Any]()
    if not named:
        every = (*choices(setting.kind), *known.get("enum", ()))
        derived += [value for value in every if value != start]
        if setting.kind in (bool, int, float):
            least = known.get("minimum", 1)
            derived += _near(start) if start is not None else [setting.kind(least + 1), least]
    if also is not None:
        derived += [*choices(setting.kind), *also, *(near for item in also for near in _near(item))]
    if random and setting.kind is int and "minimum" in known:
        most = known["minimum"] + 9
        derived.append(random.randint(known["minimum"], min(known.get("maximum", most), most)))
    yield from ((value, {}) for value in derived)


def _near(value: Any) -> list[Any]:
    """Values that differ from it as little as they can."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value - 1, value / 2, value * 2]
    if isinstance(value, str):
        return [f"{value}x"]
    if isinstance(value, list):
        return [value[:-1], [*value, *(_near(inner)[0] for inner in value[-1:])]]
    return [{name: _near(item)[0] for name, item in value.items()}, {}]
