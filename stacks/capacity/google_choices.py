"""Which choice of a pool's order of fallback a node would come from now, as far as the API tells.

Quotas and reservations are asked for. Whether Compute Engine has a machine, no API says.
"""

from collections.abc import Iterator, Mapping

from components.catalog import gke as catalog
from components.cluster import ResolvedPool
from components.gke.pool_args import GkeGpuNodePoolArgs
from stacks.capacity import reserved
from stacks.capacity.google import GoogleQuotas, metric_of
from stacks.capacity.verdict import Known, Need, Unknown


def lines(
    pools: Mapping[str, ResolvedPool[GkeGpuNodePoolArgs]],
    reservations: list[reserved.Wanted],
    *,
    cloud: GoogleQuotas,
    cluster: str,
    region: str,
) -> Iterator[str]:
    """A line for each pool with an order, with the first choice that has room and why."""
    wanted = {one.pool: one for one in reservations}
    for name, pool in pools.items():
        if not pool.args.fallback:
            continue
        taken, said = "", []
        for way in pool.args.fallback:
            room, words = (
                _reserved(cloud.reserved(wanted[name], cluster))
                if way == "reservation"
                else _quota(cloud, pool, name, way, region)
            )
            said.append(f"{way}: {words}")
            if room and not taken:
                taken = way
        first = f"the next node would be {taken}" if taken else "no choice has room"
        yield (
            f"pool {name}: as far as quotas and reservations tell, {first} ({'; '.join(said)}); "
            "whether machines are free, no API says"
        )


def _reserved(found: reserved.Reserved) -> tuple[bool, str]:
    if isinstance(found.held, Unknown):
        return False, found.held.reason
    free = sum(held.free for held in found.held if not held.refusal)
    return free > 0, f"{free} machines of {found.wanted.reservation} are free"


def _quota(
    cloud: GoogleQuotas, pool: ResolvedPool[GkeGpuNodePoolArgs], name: str, way: str, region: str
) -> tuple[bool, str]:
    metric = metric_of(catalog.ACCELERATORS[pool.pool.accelerator], way)
    need = Need(
        quota=metric, scope=region, unit="GPUs", pools={name: pool.pool.gpus_per_node}, link=""
    )
    answer = cloud.answer(need)
    if isinstance(answer, Known):
        left = answer.limit - (answer.use or 0)
        return left >= need.units, f"{left:g} of {answer.limit:g} {metric} are left"
    return False, answer.reason
