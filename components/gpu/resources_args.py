"""CPU and memory of a pod, and whether a node of its pool has enough of them."""

from dataclasses import dataclass
from typing import Annotated

from ..cluster import GpuPool
from ..kube import quantity
from ..limits import QUANTITY, check_limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesArgs:
    """Quantities as Kubernetes writes them: `200m`, `256Mi`."""

    cpu: Annotated[str, QUANTITY] | None = None
    """A quantity, such as `500m` or `4`."""
    memory: Annotated[str, QUANTITY] | None = None
    """A quantity, such as `16Gi`."""

    def __post_init__(self) -> None:
        check_limits(self)

    def quantities(self) -> dict[str, str]:
        """The quantities that are set, for a container's `resources`."""
        amounts = {"cpu": self.cpu, "memory": self.memory}
        return {name: amount for name, amount in amounts.items() if amount is not None}


def check_room(requests: ResourcesArgs, limits: ResourcesArgs, pool: GpuPool) -> None:
    """Raises ValueError if a pod requests more CPU or memory than any node of `pool` has."""
    for resource, most, unit in (
        ("cpu", pool.cpu_millis, "m"),
        ("memory", pool.memory_mib, "Mi"),
    ):
        # A limit without a request is also the request.
        for key, resources in (("requests", requests), ("limits", limits)):
            asked: str | None = getattr(resources, resource)
            if asked is None:
                continue
            if most is not None and quantity.parse(asked) > quantity.parse(f"{most}{unit}"):
                raise ValueError(
                    f"{key}.{resource}: {asked} is more than a node of pool {pool.name} has for "
                    f"pods ({most}{unit}); request less, or give the pool larger nodes"
                )
            break
