"""A pool of nodes as the rules see it, whatever starts its nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.components.catalog.prices import NodePrice
from gpu_cluster.components.kube import quantity
from gpu_cluster.components.kube.taints import from_cloud
from gpu_cluster.policy.reading import UNKNOWN, Resource, get, number

Software = tuple[list[str], list[str]]
"""The providers of the pool's driver, and those of its device plugin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A node pool or group of a cloud, a NodePool of Karpenter or a ComputeClass of GKE; any value
    may be `UNKNOWN`."""

    resource: Resource
    gpu: bool
    """Whether it is known to have GPUs."""
    labels: Any
    """Declared labels, a map."""
    added: Mapping[str, Any] = field(default_factory=dict)
    """Labels that the cloud adds to its nodes."""
    taints: list[Any]
    """(key, value, effect in Kubernetes spelling) or `UNKNOWN`."""
    least: Any
    """Minimum number of nodes."""
    most: Any
    """Maximum number of nodes; None if there is no limit."""
    size: str = ""
    """The input with its number of nodes, if an autoscaler changes that."""
    limit: str
    """The setting that limits its nodes."""
    shared: Any = None
    """Identifies the limit that it shares with other pools; None if the limit is its own."""
    warm: tuple[int, int] = (0, 0)
    """Instances of its warm pool while it has the minimum, and the maximum, of its nodes."""
    price: NodePrice | None
    """The price of one node; None if its shape is not known."""

    @property
    def name(self) -> str:
        """Its logical name: the pool's name in the config."""
        return self.resource.name

    @property
    def known_labels(self) -> Mapping[str, Any] | None:
        """The labels of its nodes, if the declaration contains them; else None."""
        return None if self.labels is None else {**self.labels, **self.added}


def taint_of(taint: Any, *, cloud: bool = True) -> Any:
    """As `Pool.taints` has it, from a resource of the `cloud` or from a Kubernetes object."""
    if taint is UNKNOWN:
        return UNKNOWN
    effect = get(taint, "effect")
    return (get(taint, "key"), get(taint, "value"), from_cloud(effect) if cloud else effect)


def fitting(limits: Mapping[str, Any], shape: Mapping[str, float]) -> Any:
    """How many nodes of a shape these limits of resources allow; None if there is no limit."""
    counts = []
    for resource, amount in shape.items():
        limit = limits.get(resource)
        if limit is UNKNOWN:
            return UNKNOWN
        most = quantity.or_none(limit)
        if most is not None and amount >= 1:
            counts.append(int(float(most) // amount))
    return min(counts, default=None)


def dearest(shapes: Sequence[tuple[Any, NodePrice]]) -> tuple[Any, NodePrice | None]:
    """The choice that can cost the most; one without a limit or a price decides."""
    for nodes, price in shapes:
        if number(nodes) is None or price.most is None:
            return nodes, price
    most = max(shapes, key=lambda shape: shape[0] * (shape[1].most or 0), default=None)
    return (UNKNOWN, None) if most is None else most
