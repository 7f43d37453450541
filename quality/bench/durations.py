"""Typical durations of a creation in a cloud, in seconds, as far as they have been measured.

They are in `quality/platforms/`. Replace them with your own figures if you have any.
"""

from typing import Final

from quality.platforms import by_node_pool
from stacks.engine.urn import Urn

_MEASURED: Final = by_node_pool()
SOURCES: Final = [source for one in _MEASURED.values() for source in one.SOURCES]
GPU_POOLS: Final = {kind: one.EMPTY_POOL for kind, one in _MEASURED.items()}
CREATION: Final = {
    kind: seconds for one in _MEASURED.values() for kind, seconds in one.SECONDS.items()
}
OTHER: Final = 2.0


def creation(urn: str, *, gpu_pools: frozenset[str]) -> float:
    """How many seconds a resource's creation takes; `gpu_pools`: the names of the stack's pools."""
    made = Urn.parse(urn)
    if made.name in gpu_pools and made.type in GPU_POOLS:
        return GPU_POOLS[made.type]
    return CREATION.get(made.type, OTHER)
