"""What benchmarks and fault injection know of each platform: a module each, named in its row."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from components.catalog.node_prices import NodePrice
from components.platforms import PLATFORMS
from stacks.cost.bill import Bill, Item, Part
from stacks.cost.bill_parts import node_pool


class Measured(Protocol):
    """The module that `Platform.measures` names."""

    ENVIRONMENT: str
    """The sample whose first pool is copied, for stacks of many pools."""
    SCALE: float
    """One second of an `up` at the cloud's pace is so many in the cloud: an `up` takes some two
    minutes. More would magnify what is not the cloud's: the engine's start, 2 s."""
    ORDER: Sequence[str]
    """Types that the cloud itself creates in this order before a GPU can be asked for."""
    KILL_PARTS: int
    """The parts into which the kills of the fault injection are dealt."""

    def idle(self, settings: Any) -> Mapping[str, Bill]:
        """Well-known module -> its bill for such a cluster, with what it chooses itself."""


def measured(platform: str) -> Measured | None:
    """None for a platform whose cluster or nodes no program can create in another order."""
    name = PLATFORMS[platform].measures
    return cast(Measured, import_module(name)) if name else None


def nodes(name: str, price: NodePrice, extra: Sequence[Part], count: int) -> Item:
    """So many nodes, idle and full."""
    return node_pool(name, price, "", extra, (count, count), "on-demand")
