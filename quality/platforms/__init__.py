"""Data about each platform for benchmarks and fault injection: one module each, named in its
row."""

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from components.platforms import PLATFORMS


class Measured(Protocol):
    """The interface of the module that `Platform.measures` names."""

    SCALE: float
    """How many of the cloud's seconds one second of an `up` stands for; an `up` then takes about
    two minutes. More would magnify times that are not the cloud's: the engine's start of 2 s."""
    ORDER: Sequence[str]
    """Types that the cloud creates in this order before a GPU can be requested."""
    KILL_PARTS: int
    """The number of parts into which the kills of the fault injection are divided."""


def measured(platform: str) -> Measured | None:
    """The platform's data; None if no program can change the order of its creations."""
    name = PLATFORMS[platform].measures
    return cast(Measured, import_module(name)) if name else None
