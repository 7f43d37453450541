"""Rules on the node pools of all clouds: taint, minimum, size."""

from collections.abc import Iterator, Sequence

from gpu_cluster.policy.ceiling import kept_running, kept_warm
from gpu_cluster.policy.clouds import pool_of
from gpu_cluster.policy.pool import Pool
from gpu_cluster.policy.reading import UNKNOWN, Resource, is_one_of, number


def taint(resource: Resource, *, key: str) -> Iterator[str]:
    """A GPU pool is tainted, so that pods without a GPU are not scheduled on it."""
    pool = _gpu_pool(resource)
    if pool is None or any(taint is UNKNOWN or UNKNOWN in taint for taint in pool.taints):
        return
    if not any(
        name == key and effect in ("NoSchedule", "NoExecute") for name, _, effect in pool.taints
    ):
        yield (
            f"GPU pool {pool.name} has no taint {key} with effect NoSchedule, so pods that use no "
            "GPU may fill its nodes; declare the taint on the pool"
        )


def minimum(resource: Resource, *, stacks: Sequence[str]) -> Iterator[str]:
    """A GPU pool costs nothing while it is not used."""
    pool = _gpu_pool(resource)
    if pool is None or is_one_of(resource.stack, stacks):
        return
    least = number(pool.least)
    if least:
        yield kept_running(pool.name, least, resource.stack, stacks)
    if pool.warm[0]:
        yield kept_warm(pool.name, pool.warm[0], resource.stack, stacks)


def size(resource: Resource) -> Iterator[str]:
    """The autoscaler's node counts are not reverted by an update."""
    pool = pool_of(resource)
    if pool is None or not pool.size:
        return
    least, most = number(pool.least), number(pool.most)
    if least is None or most is None or least == most:
        return
    covering = (pool.size, pool.size.partition(".")[0])
    if not any(path in covering for path in resource.ignore_changes):
        yield (
            f"pool {pool.name} is autoscaled from {least:g} to {most:g} nodes and does not ignore "
            f"changes of {pool.size}, so an update reverts the autoscaler's count; ignore it"
        )


def _gpu_pool(resource: Resource) -> Pool | None:
    pool = pool_of(resource)
    return pool if pool is not None and pool.gpu else None
