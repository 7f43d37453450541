"""Data about each platform for benchmarks and fault injection: one module each, named in its
row."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.platforms import PLATFORMS


class Measured(Protocol):
    """The interface of the module that `Platform.measures` names."""

    SCALE: float
    """How many of the cloud's seconds one second of an `up` stands for; an `up` then takes about
    two minutes. More would magnify times that are not the cloud's: the engine's start of 2 s."""
    ORDER: Sequence[str]
    """Types that the cloud creates in this order before a GPU can be requested."""
    KILL_PARTS: int
    """The number of parts into which the kills of the fault injection are divided."""
    OUTPUTS: Mapping[str, Mapping[str, Any]]
    """Resource type -> the cloud's outputs that the program reads."""
    SECONDS: Mapping[str, float]
    """Resource type -> how long its creation typically takes; 2 s for types that are not listed."""
    EMPTY_POOL: float
    """The seconds of a pool without nodes, which every GPU pool is at first."""
    SOURCES: Sequence[str]
    """Where the long ones are from; the rest is general experience, and too short to matter."""


def measured(platform: str) -> Measured | None:
    """The platform's data; None if no program can change the order of its creations."""
    name = PLATFORMS[platform].measures
    return cast(Measured, import_module(name)) if name else None


def by_node_pool() -> Mapping[str, Measured]:
    """Resource type of a pool of nodes -> the data of its platform."""
    return {
        CLOUDS[str(row.cloud)].node_pool: cast(Measured, import_module(row.measures))
        for row in PLATFORMS.values()
        if row.measures
    }


def outputs() -> Mapping[str, Mapping[str, Any]]:
    """Resource type -> the cloud's outputs that the program reads, on every platform."""
    return {kind: found for row in by_node_pool().values() for kind, found in row.OUTPUTS.items()}
