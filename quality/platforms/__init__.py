"""Data about each platform for fault injection: one module each, named in its row."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, cast

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.platforms import PLATFORMS


class Measured(Protocol):
    """The interface of the module that `Platform.measures` names."""

    KILL_PARTS: int
    """The number of parts into which the kills of the fault injection are divided."""
    OUTPUTS: Mapping[str, Mapping[str, Any]]
    """Resource type -> the cloud's outputs that the program reads."""


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
