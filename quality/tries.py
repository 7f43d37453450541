"""Values to try for a setting: those that its field names, or else values derived from its type."""

from collections.abc import Iterator, Mapping
from typing import Any

from components import limits
from components.effect import Tries
from quality.docs.keys import Setting, choices

ABSENT = "absent"
"""Stands for the removal of the setting."""


def tries(setting: Setting, present: Any = None) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Values, each with the other keys of the same block that it needs; `present`: the setting's
    current value, None if it has none.

    The program may refuse them: a number's neighbours may be out of bounds.
    """
    named = setting.marked(Tries)
    for marker in named:
        for value in marker.values:
            yield value, marker.given
    if not named:
        for value in _derived(setting, setting.default if present is None else present):
            yield value, {}


def _derived(setting: Setting, present: Any) -> Iterator[Any]:
    if setting.kind is bool:
        yield not present
        return
    known = limits.fragment(setting.annotations)
    for value in (*choices(setting.kind), *known.get("enum", ())):
        if value != present:
            yield value
    if setting.kind in (int, float):
        if present is not None:
            yield from (present + 1, present - 1, present / 2)
        else:
            least = known.get("minimum", 1)
            yield from (least + 1, least)
