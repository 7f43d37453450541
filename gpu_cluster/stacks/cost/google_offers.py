"""Machines of Google Cloud that carry a GPU (`stacks.cost.gpu_offers.Offers`)."""

from collections.abc import Iterator

from gpu_cluster.components.catalog import gke
from gpu_cluster.components.catalog.gke_shapes import n1_attach_limit
from gpu_cluster.components.catalog.google_prices import gke_node
from gpu_cluster.stacks.cost.gpu_offers import Offer

ABOUT = "Zones and quotas, read on 2026-11-21, from skypilot-catalog and Google's documentation"
CARRIERS = ("n1-standard-4", "n1-standard-8", "n1-standard-16", "n1-standard-32")


def offers(place: str | None = None) -> Iterator[Offer]:
    """Google Cloud's offers, in a region or zone or anywhere."""
    for card in gke.ACCELERATORS.values():
        if card.retired:
            continue
        rows = [row for row in gke.MACHINE_TYPES.values() if row.accelerator == card.name]
        shapes = [(row, int(row.gpus)) for row in rows if not (row.left_out or row.uncertain)]
        if card.machine_family == "n1":
            shapes = [(_n1(card.name, count), count) for count in card.counts]
        for machine, count in shapes:
            every = card.zones if machine.zones is None else machine.zones
            zones = tuple(
                sorted(zone for zone in every if place in (None, zone, gke.region_of(zone)))
            )
            if not zones and not (card.zones_partial and place):
                continue
            price = gke_node(machine.name, card.name, count)
            sold = machine.provisioning
            yield Offer(
                cloud="google", gpu=card.model, gpus=count, machine=machine.name,
                accelerator=card.name, vcpu=machine.vcpu, memory_gib=machine.memory_gib,
                zones=zones or None, more_zones=card.zones_partial,
                on_demand=price.on_demand if "on-demand" in sold else None,
                spot=price.spot if "spot" in sold else None,
                price_source=price.source, uncertain=price.uncertain,
                quota=card.quota_metric, spot_quota=card.quota_metric_preemptible,
                sold=sold, autopilot=count in card.autopilot_counts,
            )  # fmt: skip


def _n1(accelerator: str, count: int) -> gke.MachineType:
    """An N1 machine that can have this many of an accelerator."""
    size = CARRIERS[min(count.bit_length() - 1, len(CARRIERS) - 1)]
    machine, limit = gke.machine_type(size), n1_attach_limit(accelerator, count)
    assert machine is not None
    assert limit is None or machine.vcpu <= limit[0]
    return machine


def place(name: str) -> str | None:
    """The region or zone, rightly spelt."""
    known = gke.is_zone(name) or gke.is_region(name)
    return (gke.meant_location(name) or name) if known else None
