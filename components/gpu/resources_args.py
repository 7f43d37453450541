"""CPU, memory and disk of a pod, and whether a node of its pool has enough of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from ..cluster import GpuPool
from ..kube import quantity
from ..schema.decode import camel
from ..schema.limits import QUANTITY
from ..schema.refusal import Refusal, refuse
from ..schema.rules import Checked

RESOURCES = {"cpu": "cpu", "memory": "memory", "ephemeral_storage": "ephemeral-storage"}
"""Field of `ResourcesArgs` -> the resource in a container's `resources`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesArgs(Checked):
    """Quantities as Kubernetes writes them: `200m`, `256Mi`."""

    cpu: Annotated[str, QUANTITY] | None = None
    """A quantity, such as `500m` or `4`."""
    memory: Annotated[str, QUANTITY] | None = None
    """A quantity, such as `16Gi`."""
    ephemeral_storage: Annotated[str, QUANTITY] | None = None
    """The node's disk that a pod uses for its logs, what its containers write outside of volumes,
    and volumes with `disk`: a quantity, such as `40Gi`."""

    def quantities(self) -> dict[str, str]:
        """The quantities that are set, for a container's `resources`."""
        amounts = {resource: getattr(self, field) for field, resource in RESOURCES.items()}
        return {name: amount for name, amount in amounts.items() if amount is not None}


def check_order(requests: ResourcesArgs, limits: ResourcesArgs) -> None:
    """Raises `Refusal` if a request is above its limit."""
    for field in RESOURCES:
        low, high, key = getattr(requests, field), getattr(limits, field), camel(field)
        if low and high and quantity.parse(low) > quantity.parse(high):
            raise refuse(("requests", key))(f"{low} is above limits.{key} {high}; lower it")


def impossible(gpus: int, pool: GpuPool, allowed: Sequence[int]) -> Refusal:
    """The refusal of a number of GPUs that no pod on `pool` can have."""
    reason = f"is not possible for a pod on pool {pool.name}"
    return refuse("gpus", gpus)(reason, allowed=allowed)


def too_many(nodes: int, pool: GpuPool) -> Iterator[Refusal]:
    """The refusal of more nodes at the same time than `pool` can have; nothing if they fit."""
    if pool.max_nodes is not None and nodes > pool.max_nodes:
        yield refuse("nodes", nodes)(
            f"is more than maxNodes of pool {pool.name} allows, at most {pool.max_nodes}",
            remedy="lower it, or raise maxNodes",
        )


def check_room(requests: ResourcesArgs, limits: ResourcesArgs, pool: GpuPool, gpus: int) -> None:
    """Raises `Refusal` if a pod with `gpus` GPUs requests more than any node of `pool` has."""
    for field, most in pool.room(gpus).items():
        # A limit without a request is also the request.
        for key, resources in (("requests", requests), ("limits", limits)):
            amount: str | None = getattr(resources, field)
            if amount is None:
                continue
            if quantity.parse(amount) > quantity.parse(most):
                larger = "request more GPUs" if pool.node_rooms else "give the pool larger nodes"
                raise refuse((key, camel(field)))(
                    f"{amount} is more than a node of pool {pool.name} has for pods ({most})",
                    remedy=f"request less, or {larger}",
                )
            break
