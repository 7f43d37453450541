"""The keys that say how a pool's nodes are bought, as every cloud's pools have them."""

from collections.abc import Mapping


def check_keys(given: Mapping[str, object]) -> None:
    """Raises ValueError for an order of none, and for one way of buying nodes beside an order of
    several. `given`: the fields that the settings name."""
    if "fallback" in given and not given["fallback"]:
        raise ValueError(
            "fallback: is empty; name at least two ways of buying nodes, or drop the key"
        )
    if {"fallback", "capacity_type"} <= {*given}:
        raise ValueError(
            "capacityType: is one way of buying nodes, and fallback is the order of several; "
            "drop one of the two"
        )
