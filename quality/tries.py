"""Values to try for a setting: those that its field names, or else values derived from its type."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from components import limits
from components.effect import Tries
from quality.docs.keys import Setting, choices

ABSENT = "absent"
"""Stands for the removal of the setting."""


def tries(
    setting: Setting, present: Any = None, *, also: list[Any] | None = None,
    random: Random | None = None,
) -> Iterator[tuple[Any, Mapping[str, Any]]]:  # fmt: skip
    """Values, each with the other keys of the same block that it needs; `present`: the setting's
    current value, None if it has none.

    `also`: values of other configs, which are tried with their neighbours. With `random` a number
    within its limits too. The program may refuse them: a neighbour may be out of bounds.
    """
    named = setting.marked(Tries)
    for marker in named:
        for value in marker.values:
            yield value, marker.given
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
        derived += [*choices(setting.kind), *also, *(near for each in also for near in _near(each))]
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
        return [value[:-1], [*value, *(_near(each)[0] for each in value[-1:])]]
    return [{name: _near(each)[0] for name, each in value.items()}, {}]
