"""The order in which a pool's nodes are tried. Each entry is a way of buying them, as a word, or a
map of an args class with those of the pool's settings that differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Protocol, TypeVar

from ..catalog.spelling import camel
from .limits import Limit
from .refusal import Refusal, Refusals, refuse

T = TypeVar("T")
_BY_PRICE = ("reservation", "on-demand", "flex-start", "spot")


class Entry(Protocol):
    """A map in an order of fallback."""

    @property
    def capacity_type(self) -> str: ...
    @property
    def zones(self) -> Sequence[str]: ...
    @property
    def machines(self) -> Sequence[str]:
        """Its machine types; empty for the pool's."""


def way(entry: Any) -> Any:
    """How the nodes of an entry are bought."""
    return entry if isinstance(entry, str) else entry.capacity_type


def title(entry: str | Entry) -> str:
    """An entry in words: `on-demand`, `spot in us-east-1a with g6.xlarge`."""
    if isinstance(entry, str):
        return entry
    parts = {"in": entry.zones, "with": entry.machines}
    more = (f" {word} {' or '.join(names)}" for word, names in parts.items() if names)
    return entry.capacity_type + "".join(more)


def _repeated(fallback: Sequence[str | Entry]) -> Refusal | None:
    titles = [*map(title, fallback)]
    again = (at for at, text in enumerate(titles) if text in titles[:at])
    return next((Refusal((at,), "is a duplicate; remove it") for at in again), None)


DISTINCT = Limit(_repeated, {"uniqueItems": True})
"""Entries that differ, however they are written."""


def price_rank(capacity_type: str) -> int:
    """The position among the ways of buying on Google Cloud, 0 for the most expensive one: a
    reservation is always paid for."""
    return _BY_PRICE.index(capacity_type)


def of_each(fallback: Sequence[Any], choice: Callable[[Any], T]) -> Sequence[T]:
    """What `choice` returns for each entry. Raises the refusals of all entries: see `in_entry`."""
    refusals, found = Refusals(), list[T]()
    for position, entry in enumerate(fallback):
        with refusals:
            found.append(in_entry(position, entry, partial(choice, entry)))
    refusals.check()
    return found


def in_entry(position: int, entry: Any, check: Callable[[], T]) -> T:
    """Returns what `check` returns for the pool as the entry has it. Refusals of settings that the
    entry has get its path; so do those of others that it could have, such as of the pool's machine
    type, which does not exist in the entry's zones. The rest are the pool's."""
    refusals = Refusals()
    try:
        return check()
    except Refusal as refusal:
        refusals.add(*(_moved(item, position, entry) for item in refusal.every))
    raise refusals.first()


def _moved(refusal: Refusal, position: int, entry: Any) -> Refusal:
    key, *rest = refusal.path
    if isinstance(entry, str):
        own = {"capacityType": False}
    else:
        own = {camel(field.name): bool(getattr(entry, field.name)) for field in fields(entry)}
    if key not in own:
        return refusal
    return refusal.but(path=("fallback", position, *([key, *rest] if own[key] else [])))


def check_keys(given: Mapping[str, object]) -> None:
    """Raises `Refusal` for an empty order, `capacityType` with one, or `migrateBack` without.
    `given`: the fields set."""
    if "fallback" in given and not given["fallback"]:
        raise refuse("fallback")(
            "is empty", remedy="name at least two ways of buying nodes, or drop the key"
        )
    if {"fallback", "capacity_type"} <= {*given}:
        raise refuse("capacityType")(
            "is one way of buying nodes, and fallback is the order of several; drop one of the two"
        )
    if "migrate_back" in given and "fallback" not in given:
        raise refuse("migrateBack")(
            "has no effect without fallback, an order that only compute classes have; drop the key"
        )
