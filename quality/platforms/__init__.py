"""What benchmarks and fault injection know of each platform: a module each, named in its row."""

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from components.platforms import PLATFORMS


class Measured(Protocol):
    """The module that `Platform.measures` names."""

    SCALE: float
    """One second of an `up` at the cloud's pace is so many in the cloud: an `up` takes some two
    minutes. More would magnify what is not the cloud's: the engine's start, 2 s."""
    ORDER: Sequence[str]
    """Types that the cloud itself creates in this order before a GPU can be asked for."""
    KILL_PARTS: int
    """The parts into which the kills of the fault injection are dealt."""


def measured(platform: str) -> Measured | None:
    """None for a platform whose cluster or nodes no program can create in another order."""
    name = PLATFORMS[platform].measures
    return cast(Measured, import_module(name)) if name else None
