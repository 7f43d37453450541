"""The choice in a pool's order of fallback that a new node would use, as far as APIs tell.

Quotas and reservations are queried. Whether the cloud has a machine available is in `advice`, as
far as it tells.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpu_cluster.components.cluster import ResolvedPool
from gpu_cluster.components.schema.fallback import title
from gpu_cluster.components.schema.fallback import way as way_of
from gpu_cluster.stacks.capacity import reserved
from gpu_cluster.stacks.capacity.questions import Cloud
from gpu_cluster.stacks.capacity.verdict import Known, Need


def lines(
    pools: Mapping[str, ResolvedPool[Any]],
    reservations: Sequence[reserved.Wanted],
    *,
    cloud: Cloud,
    cluster: str,
    need: Callable[[ResolvedPool[Any], str], Need],
) -> Iterator[str]:
    """A line for each pool with an order: the first choice with capacity, and why. `need`: how much
    of a quota a node of the pool uses, by the way of buying it. A pool that is not in
    `reservations` belongs to GKE Autopilot."""
    by_pool = {reservation.pool: reservation for reservation in reservations}
    for name, pool in pools.items():
        if not pool.args.fallback:
            continue
        first = ""
        ways: dict[str, list[str]] = {}
        order = pool.args.fallback
        for entry, choice in zip(order, pool.fallback or [pool] * len(order), strict=True):
            if (way := way_of(entry)) not in ("reservation", "capacity-block"):
                room, words = _quota(cloud, need(choice, way))
            elif name in by_pool:
                room, words = _reserved(cloud.reserved(by_pool[name], cluster))
            else:
                room, words = None, "not looked up on Autopilot, where GKE chooses the machine"
            ways.setdefault(words, []).append(title(entry))
            # If an earlier choice may have capacity, it is not known whether a later one is used.
            if room is None:
                first = first or "it is not known which choice has room"
            elif room:
                first = first or f"the next node would use {title(entry)}"
        choices = "; ".join(f"{', '.join(those)}: {words}" for words, those in ways.items())
        yield (
            f"pool {name}: according to quotas and reservations, {first or 'no choice has room'} "
            f"({choices})"
        )


def _reserved(found: reserved.Reserved) -> tuple[bool | None, str]:
    """Whether it has capacity, None if that is not known, and why."""
    if found.word in ("wrong", "unknown"):
        return None if found.word == "unknown" else False, found.reason
    return found.free > 0, f"{found.free} machines of {found.wanted.reservation} are free"


def _quota(cloud: Cloud, need: Need) -> tuple[bool | None, str]:
    answer = cloud.answer(need)
    if isinstance(answer, Known):
        left = answer.limit - (answer.use or 0)
        return left >= need.units, f"{left:g} of {answer.limit:g} {need.quota} are left"
    return None, answer.reason
