"""What the rules know of a pool of nodes, regardless of what starts them."""

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
    """Whether it is known to carry GPUs."""
    labels: Any
    """Declared labels, a map."""
    taints: list[Any]
    """(key, value, effect in Kubernetes spelling) or `UNKNOWN`."""
    least: Any
    """Nodes that are always there."""
    most: Any
    """Nodes that there can be; None if nothing limits them."""
    price: NodePrice | None
    """Of one node; None if its shape is not known."""

    @property
    def name(self) -> str:
        """Its logical name: the pool's name in the config."""
        return self.resource.name
