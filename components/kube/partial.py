"""Plain API objects in which some values are not known yet, and verdicts about them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final


class _Unknown:
    def __repr__(self) -> str:
        return "unknown"


UNKNOWN: Final[Any] = _Unknown()
"""Stands for a value that is known only during the update."""


def get(value: Any, *path: str | int) -> Any:
    """The value at the path; None if there is none, `UNKNOWN` if it is not known."""
    for step in path:
        if value is UNKNOWN or value is None:
            return value
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def items(value: Any, *path: str | int) -> list[Any]:
    """The items of the list at the path; `[UNKNOWN]` if the list is not known."""
    found = get(value, *path)
    if found is UNKNOWN:
        return [UNKNOWN]
    return list(found) if isinstance(found, list) else []


def entries(value: Any, *path: str | int) -> Mapping[str, Any] | None:
    """The map at the path, empty if there is none; None if it is not known."""
    mapping = get(value, *path)
    if mapping is UNKNOWN:
        return None
    return mapping if isinstance(mapping, Mapping) else {}


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """False if any is False, else None if any is None, else True."""
    seen = list(verdicts)
    if any(verdict is False for verdict in seen):
        return False
    return None if any(verdict is None for verdict in seen) else True


def any_of(verdicts: Iterable[bool | None]) -> bool | None:
    """True if any is True, else None if any is None, else False."""
    seen = list(verdicts)
    if any(verdict is True for verdict in seen):
        return True
    return None if any(verdict is None for verdict in seen) else False
