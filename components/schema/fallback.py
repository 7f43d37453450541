"""The ways of buying a pool's nodes: a single one, or an order of several."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from .refusal import refuse

_BY_PRICE = ("reservation", "on-demand", "flex-start", "spot")
Way = TypeVar("Way", bound=str)


def dearest(order: Sequence[Way]) -> Way:
    """The most expensive choice on Google Cloud: a reservation is always paid for."""
    return min(order, key=_BY_PRICE.index)


def check_keys(given: Mapping[str, object]) -> None:
    """Raises ValueError for an empty order, `capacityType` with one, or `migrateBack` without.
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
