"""What GKE Standard and Autopilot environments cost."""

from components.catalog.node_prices import gke_node
from components.catalog.prices import HOURS_PER_MONTH, PRICES
from components.settings.model import AutopilotSettings, GkeSettings
from stacks.cost.bill import Bill, Item, Metered, Part, fixed
from stacks.cost.bill_parts import (
    always,
    bought_as,
    hourly,
    metered,
    monthly,
    node_pool,
    pod_gpu,
    pool_notes,
    price_of,
    region_notes,
)

NAT_ADDRESSES = 1
"""Of a Cloud NAT gateway: with 64 ports for each, one address serves 1,008 machines."""


def standard_bill(settings: GkeSettings) -> Bill:
    """A GKE Standard cluster's bill."""
    cluster, system = settings.cluster, settings.cluster.system_pool
    items = [
        node_pool(
            "system pool",
            gke_node(system.machine_type),
            f"{system.machine_type}, {system.disk_size_gb} GiB",
            [_disk("pd-balanced", system.disk_size_gb)],
            (system.min_nodes, system.max_nodes),
            "spot" if system.spot else "on-demand",
        )
    ]
    for name, pool in settings.pools.items():
        machine = pool.machine
        price = gke_node(pool.machine_type, pool.gpu_model.name, pool.gpus)
        extra = [_disk(pool.boot_disk, pool.disk_size_gb)]
        if price.without == "local SSD":
            extra.append(_local_ssd(machine.local_ssd_gib or 0))
        items.append(
            node_pool(
                name,
                price,
                f"{pool.machine_type}, {pool.gpus} {pool.gpu_model.name}, {pool.disk_size_gb} GiB",
                extra,
                (pool.min_nodes, pool.max_nodes),
                bought_as(pool.capacity_type),
                pool.gpu_pool(name),
            )
        )
    pools = settings.pools.values()
    least = system.min_nodes + sum(pool.min_nodes for pool in pools)
    most = system.max_nodes + sum(pool.max_nodes for pool in pools)
    zonal = cluster.region != cluster.location
    fee = _fee(f"GKE, {'zonal' if zonal else 'regional'}")
    return Bill(
        items=[fee, *items, *_cloud_nat(least, most)],
        metered=_by_use(prometheus=cluster.managed_prometheus, flow_logs=cluster.network.flow_logs),
        notes=[
            *_notes(cluster.region, free=zonal, key=cluster.secrets_encryption_key),
            *pool_notes(settings.pools),
        ],
    )


def autopilot_bill(settings: AutopilotSettings) -> Bill:
    """An Autopilot cluster's bill: its pods have no price here, and no number."""
    cluster = settings.cluster
    pods = [
        Item(
            name=name,
            what=f"pods with {pool.accelerator}, by what they request",
            parts=[Part(name="pods", on_demand=None, spot=None, source="")],
            idle=0,
            full=None,
            bought=bought_as(pool.capacity_type),
            pod_gpu=pod_gpu(pool.gpu_pool(name)),
        )
        for name, pool in settings.pools.items()
    ]
    return Bill(
        items=[_fee("GKE Autopilot"), *pods, *_cloud_nat(None, None)],
        metered=_by_use(prometheus=True, flow_logs=cluster.network.flow_logs),
        notes=[
            *_notes(cluster.region, free=True, key=cluster.secrets_encryption_key),
            "Autopilot bills pods by what they request; its prices are not known here, and nothing "
            "bounds how many there are",
        ],
    )


def _fee(what: str) -> Item:
    return always("control plane", what, hourly("fee", price_of("gcp", "gke-cluster")))


def _cloud_nat(idle: float | None, full: float | None) -> list[Item]:
    """The gateway counts machines up to a most; it has an address while a machine uses it."""
    per_machine, most = price_of("gcp", "cloud-nat-per-vm"), price_of("gcp", "cloud-nat-most")
    bound = most.dollars / per_machine.dollars
    counts = [None if count is None else min(count, bound) for count in (idle, full)]
    return [
        Item(
            name="NAT",
            what="per machine",
            parts=[hourly("gateway", per_machine)],
            idle=counts[0],
            full=counts[1],
        ),
        Item(
            name="NAT address",
            what="one",
            parts=[hourly("address", price_of("gcp", "external-ipv4"))],
            idle=NAT_ADDRESSES,
            full=NAT_ADDRESSES,
        ),
    ]


def _by_use(*, prometheus: bool, flow_logs: bool) -> list[Metered]:
    return [
        metered("traffic through NAT", price_of("gcp", "cloud-nat-data")),
        Metered(name="logs", dollars=None, unit="GiB"),
        Metered(name="traffic to the internet and between zones", dollars=None, unit="GiB"),
        *([Metered(name="Managed Prometheus", dollars=None, unit="sample")] if prometheus else []),
        *([Metered(name="VPC flow logs", dollars=None, unit="GiB")] if flow_logs else []),
    ]


def _notes(region: str, *, free: bool, key: str | None) -> list[str]:
    """`free`: the free tier may cover this kind of cluster."""
    notes = region_notes("gcp", region)
    if free:
        credit = price_of("gcp", "gke-free-tier").dollars
        notes.append(
            f"the free tier, ${credit:.2f} a month and billing account, may pay the control plane"
        )
    if key:
        notes.append("the Cloud KMS key of Kubernetes secrets is yours, and not counted")
    return notes


def _disk(disk_type: str, gib: int) -> Part:
    price = PRICES.get(("gcp", disk_type))
    if price is None:
        return fixed("disk", None, "")
    return monthly("disk", price, gib)


def _local_ssd(gib: int) -> Part:
    on_demand, spot = price_of("gcp", "local-ssd"), price_of("gcp", "local-ssd-spot")
    return Part(
        name="local SSD",
        on_demand=gib * on_demand.dollars / HOURS_PER_MONTH,
        spot=gib * spot.dollars / HOURS_PER_MONTH,
        source=on_demand.source,
        uncertain=on_demand.uncertain,
    )
