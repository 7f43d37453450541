"""GKE, as far as somebody of a cluster asks for it."""

from collections.abc import Mapping

from rehearsal.simulators.google.api.server import Answer
from rehearsal.simulators.google.container import (
    cluster_updates,
    clusters,
    keys,
    node_pool_updates,
    node_pools,
    operations,
)

METHODS: Mapping[str, Answer] = {
    **clusters.METHODS,
    **cluster_updates.METHODS,
    **node_pools.METHODS,
    **node_pool_updates.METHODS,
    **operations.METHODS,
    **keys.METHODS,
}
"""Method -> what answers it."""
