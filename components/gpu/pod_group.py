"""Pods of one shape, as every block of settings describes those that it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """Pods that one entry of a block runs on one pool."""

    path: str
    """Key of the entry: `gpu-cluster:workloads.trainer`."""
    pool: str
    namespace: str
    image: str
    count: int
    """How many pods run at once, at the most."""
    gpus: int
    """Units of the pool's GPU resource that each pod has."""
    uses_host: bool
    """Whether they mount something of the host, or enter its IPC namespace."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """Volume -> the claim of the stack behind it."""
    own_nodes: bool = False
    """Whether each pod has a node to itself."""
    together: bool = False
    """Whether all pods start at the same time, or none does."""
