"""Lines of a bill from the catalog's prices, for all clouds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_cluster.components.access.service_accounts import ServiceAccountArgs
from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.catalog.prices import HOURS_PER_MONTH, NodePrice, Price
from gpu_cluster.components.cluster import GpuPool
from gpu_cluster.components.gpu.volume_args import VolumeClaimArgs
from gpu_cluster.components.kube import quantity
from gpu_cluster.components.schema.fallback import title, way
from gpu_cluster.stacks.cost.bill import Bought, Item, Metered, Part, PodGpu, fixed


def node_pool(
    name: str,
    price: NodePrice,
    what: str,
    extra: Sequence[Part],
    nodes: tuple[int, int],
    bought: Bought,
    pool: GpuPool | None = None,
) -> Item:
    """A pool of `nodes`, minimum and maximum; `extra`: parts of a node besides its machine."""
    machine = Part(
        name="machine",
        on_demand=price.on_demand,
        spot=price.spot,
        source=price.source,
        uncertain=price.uncertain,
    )
    return Item(
        name=name,
        what=what,
        parts=[machine, *extra],
        idle=nodes[0],
        full=nodes[1],
        bought=bought,
        pod_gpu=pod_gpu(pool) if pool else None,
    )


def pod_gpu(pool: GpuPool) -> PodGpu:
    """A pod's GPU, according to the pool's sharing."""
    what, sharing = pool.accelerator, pool.sharing
    if sharing and sharing.partition:
        what = f"{sharing.partition} of {what}"
    if sharing and sharing.replicas > 1:
        what = f"1/{sharing.replicas} of {what}"
    return PodGpu(what=what, per_piece=pool.allocatable)


def gpu_pool(item: Item, capacity: str) -> list[Item]:
    """A GPU pool's lines. A reservation is billed whether it is used or not: its machines at their
    maximum, but not its disks, which are created and deleted with the nodes."""
    if capacity not in ("reservation", "capacity-block"):
        return [item]
    machine, *disks = item.parts
    return [
        replace(item, parts=[machine], idle=item.full, reserved=True),
        Item(
            name=f"{item.name} disks",
            what="of the running nodes",
            parts=disks,
            idle=item.idle,
            full=item.full,
        ),
    ]


def unused_reservation(item: Item, capacity: str) -> Item:
    """The line for the machines that a pool reserves and its nodes do not use: none when full, and
    an unknown number when idle."""
    return replace(
        item,
        name=f"{item.name} reservation",
        what="reserved and not used",
        parts=item.parts[:1],
        idle=None,
        full=0,
        bought=bought_as(capacity),
        pod_gpu=None,
        reserved=True,
    )


def bought_as(capacity: str) -> Bought:
    """The meaning of a pool's `capacityType` on the bill: reserved machines cost the on-demand
    price."""
    if capacity == "spot":
        return "spot"
    return "on-demand" if capacity in ("on-demand", "reservation") else "other"


_NOTES = {
    "reservation": "its nodes are billed at the on-demand price from the moment they are "
    "reserved, whether used or not, so that idle costs as much as full. maxNodes "
    "are counted; commitments and savings plans are not",
    "capacity-block": "a Capacity Block is paid for when it is bought, whether used or not, at a "
    "price that is unknown",
    "flex-start": "capacityType flex-start has its own price, which is unknown",
}
"""`capacityType` -> its note on the bill."""
_UNUSED = (
    "what its reservation holds is billed at the on-demand price from the moment it is reserved, "
    "whether used or not; how many machines those are is not known here, so that idle costs at "
    "least what is shown"
)


def pool_notes(pools: Mapping[str, Any]) -> list[str]:
    """A note for each pool that is bought in another way than on demand or as Spot."""
    return [
        f"pool {name}: {_NOTES[pool.capacity_type]}"
        for name, pool in pools.items()
        if pool.capacity_type in _NOTES
    ]


def choice_notes(
    name: str,
    order: Sequence[Any],
    counted: str,
    prices_of: Sequence[NodePrice],
    *,
    unused: bool = False,
) -> list[str]:
    """A note with the price of each choice of a pool's order of fallback; none without an order.
    `unused`: whether the bill has its reservation as `unused_reservation`."""
    if not order:
        return []
    texts = []
    for entry, price in zip(order, prices_of, strict=True):
        dollars = price.spot if way(entry) == "spot" else price.on_demand
        known = way(entry) in ("spot", "on-demand", "reservation") and dollars is not None
        texts.append(f"{title(entry)} {f'${dollars:.4f}' if known else 'not known here'}")
    prices = ", ".join(texts)
    notes = {**_NOTES, "reservation": _UNUSED} if unused else _NOTES
    reserved = [
        f"pool {name}: {notes[bought]}"
        for bought in dict.fromkeys(map(way, order))
        if bought in ("reservation", "capacity-block")
    ]
    return [f"pool {name}: counted as {counted}; price of a machine per hour: {prices}", *reserved]


def other_region(cloud: str, region: str) -> str:
    """A note if the prices are those of another region; else empty."""
    priced = CLOUDS[cloud].price_region
    return "" if region == priced else f"prices are those of {priced}; prices in {region} differ"


def always(name: str, what: str, *parts: Part, count: int = 1) -> Item:
    """As many units idle as full."""
    return Item(name=name, what=what, parts=parts, idle=count, full=count)


def hourly(name: str, price: Price) -> Part:
    """A part that is billed by the hour."""
    return fixed(name, price.dollars, price.source, uncertain=price.uncertain)


def monthly(name: str, price: Price, amount: float) -> Part:
    """A part with this many GB, or keys, that is billed by the month."""
    dollars = amount * price.dollars / HOURS_PER_MONTH
    return fixed(name, dollars, price.source, uncertain=price.uncertain)


def metered(name: str, price: Price) -> Metered:
    """Usage at a known price."""
    return Metered(name=name, dollars=price.dollars, unit=price.per, source=price.source)


def claims(
    given: Mapping[str, VolumeClaimArgs],
    volume: Callable[[str | None, float], tuple[Price | None, float]],
) -> list[Item]:
    """The volumes of the stack's own claims. `volume`: storage class, None for the default, and GiB
    -> the price, None for a class that the user created, and the GiB that are billed."""
    items = []
    for name, claim in given.items():
        price, gib = volume(claim.storage_class, float(quantity.parse(claim.size) / 2**30))
        what = ", ".join(word for word in (claim.size, claim.storage_class) if word is not None)
        part = monthly("volume", price, gib) if price else fixed("volume", None, "")
        items.append(always(f"claim {name}", what, part))
    return items


def bucket_notes(accounts: Mapping[str, ServiceAccountArgs]) -> list[str]:
    """A note if pods use buckets, which are billed by stored data and requests."""
    names = sorted({bucket for account in accounts.values() for bucket in account.buckets})
    if not names:
        return []
    return [f"buckets are not part of this stack and are not counted: {', '.join(names)}"]
