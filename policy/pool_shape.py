"""A pool of nodes as the rules see it, whatever starts its nodes."""

from dataclasses import dataclass
from typing import Any

from components.catalog.node_prices import NodePrice
from policy.reading import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A GKE node pool, an EKS node group, a NodePool of Karpenter or a ComputeClass of GKE; any
    value may be `UNKNOWN`."""

    resource: Resource
    gpu: bool
    """Whether it is known to have GPUs."""
    labels: Any
    """Declared labels, a map."""
    taints: list[Any]
    """(key, value, effect in Kubernetes spelling) or `UNKNOWN`."""
    least: Any
    """Minimum number of nodes."""
    most: Any
    """Maximum number of nodes; None if there is no limit."""
    warm: tuple[int, int] = (0, 0)
    """Instances of its warm pool while it has the minimum, and the maximum, of its nodes."""
    price: NodePrice | None
    """The price of one node; None if its shape is not known."""

    @property
    def name(self) -> str:
        """Its logical name: the pool's name in the config."""
        return self.resource.name
