"""Typical durations of a creation in a cloud, in seconds, as far as they have been measured.

The long ones are from public reports (see `SOURCES`); the rest is general experience, and too short
to change a ratio. Replace them with your own figures if you have any.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from clouds.rows.aws import rows
from components.catalog.clouds import AWS, GOOGLE
from stacks.engine.urn import Urn

SOURCES: Final = (
    "EKS control plane: 793 to 971 s over 21 regions, 900 s in us-west-2 (easontechtalk.com)",
    "EKS node group: 2 to 4 minutes for one or two nodes; addons below a minute (issue reports)",
    "GKE private cluster 5 to 10 minutes, Autopilot 4 to 8, an empty node pool 30 to 45 s (blogs)",
    "GKE: 12 s for the removal of the default pool, 105 s for a pool with nodes "
    "(terraform-provider-google issue 1643)",
)

GPU_POOLS: Final[Mapping[str, float]] = MappingProxyType(
    {GOOGLE.node_pool: 40.0, AWS.node_pool: 90.0}
)
"""The durations of a pool without nodes, which every GPU pool is at first."""

CREATION: Final[Mapping[str, float]] = MappingProxyType(
    {
        GOOGLE.cluster: 312.0,  # with the removal of the default pool
        GOOGLE.node_pool: 105.0,
        "gcp:compute/network:Network": 15.0,
        "gcp:compute/subnetwork:Subnetwork": 20.0,
        "gcp:compute/router:Router": 12.0,
        "gcp:compute/routerNat:RouterNat": 12.0,
        "gcp:serviceaccount/account:Account": 5.0,
        "gcp:projects/iAMMember:IAMMember": 8.0,
        "gcp:monitoring/dashboard:Dashboard": 2.0,
        "gcp:monitoring/alertPolicy:AlertPolicy": 2.0,
        AWS.cluster: 900.0,
        AWS.node_pool: 180.0,
        **{token: row.seconds for token, row in rows().items() if row.seconds},
    }
)
"""Resource type -> seconds. `OTHER` for types that are not listed."""

OTHER: Final = 2.0


def creation(urn: str, *, gpu_pools: frozenset[str]) -> float:
    """How many seconds a resource's creation takes; `gpu_pools`: the names of the stack's pools."""
    made = Urn.parse(urn)
    if made.name in gpu_pools and made.type in GPU_POOLS:
        return GPU_POOLS[made.type]
    return CREATION.get(made.type, OTHER)
