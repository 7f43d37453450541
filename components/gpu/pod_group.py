"""Pods of one shape, the form in which every block of settings describes the pods that it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """The pods that one entry of a block runs on one pool."""

    path: str
    """The key of the entry: `gpu-cluster:workloads.trainer`."""
    pool: str
    namespace: str
    image: str
    count: int
    """The maximum number of pods that run at once."""
    gpus: int
    """Units of the pool's GPU resource per pod."""
    shared: bool = False
    """Whether all of them use the same GPUs."""
    adapters: int = 0
    """Adapters of its node's fast network that each pod has."""
    uses_host: bool
    """Whether they mount host paths, or use the host's IPC namespace."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """Volume -> the stack's claim behind it."""
    kind: str = ""
    """The kind of the entry in warnings, such as `service`; empty if all its pods wait in a queue,
    or only run on nodes of their own."""
    long_running: bool = False
    """Whether its pods run until they are deleted."""
    least: int = 0
    """The number of its pods that always run."""
    own_nodes: bool = False
    """Whether each pod has a node to itself."""
    default_disk: str | None = None
    """The disk that the platform grants each of them because they request none, a quantity; None
    if they request one, or may fill their node's."""
    doubtful_disk: str | None = None
    """The disk that each of them requests, if the platform may refuse so much."""
    together: bool = False
    """Whether either all pods start at the same time or none."""

    def gpus_of(self, pods: int) -> int:
        """The units of the pool's GPU resource that so many of its pods have together."""
        return (min(pods, 1) if self.shared else pods) * self.gpus
