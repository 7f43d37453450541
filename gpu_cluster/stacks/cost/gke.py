"""The cost of a GKE Standard environment."""

from datetime import date

from gpu_cluster.components.catalog.gke_volumes import volume_class
from gpu_cluster.components.catalog.google_prices import PRICES, gke_node
from gpu_cluster.components.gke.cluster_args import GkeClusterArgs, GkeSystemPoolArgs
from gpu_cluster.components.gke.cpu_pool_args import GkeCpuPoolArgs
from gpu_cluster.components.gke.settings import GkeSettings
from gpu_cluster.components.schema.fallback import title
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.cost.bill import Bill, Item, Metered
from gpu_cluster.stacks.cost.bill_parts import (
    bought_as,
    bucket_notes,
    choice_notes,
    claims,
    gpu_pool,
    node_pool,
    other_region,
    pool_notes,
)
from gpu_cluster.stacks.cost.google import by_use, cloud_nat, disk, fee, google_notes, volume


def bill(settings: Settings[GkeSettings], today: date) -> Bill:
    """The bill of a GKE Standard cluster, or of what a stack adds to an existing one."""
    cluster = settings.own.cluster
    pools = {name: pool.args for name, pool in settings.own.pools.items()}
    items = [_without_gpus(name, cpu) for name, cpu in cluster.cpu_pools.items()]
    choices: list[str] = []
    for name, ordered in pools.items():
        pool = ordered.dearest
        price = gke_node(pool.machine_type, pool.gpu_model.name, pool.gpus)
        extra = [disk(kind, gib) for kind, gib in pool.disks.items()]
        if price.without == "local SSD":
            extra.append(disk("local-ssd", pool.machine.local_ssd_gib or 0))
        item = node_pool(
            name,
            price,
            f"{pool.machine_type}, {pool.gpus} {pool.gpu_model.name}, {pool.disk_size_gb} GiB",
            extra,
            settings.pools[name].pool.bounds,
            bought_as(pool.capacity_type),
            settings.pools[name].pool,
        )
        items += gpu_pool(item, pool.capacity_type)
        prices = [
            gke_node(choice.machine_type, choice.gpu_model.name, choice.gpus)
            for choice in ordered.choices
        ]
        counted = title(ordered.fallback[ordered.choices.index(pool)]) if ordered.fallback else ""
        choices += choice_notes(name, ordered.fallback, counted, prices)
    bounds = [resolved.pool.bounds for resolved in settings.pools.values()]
    bounds += [(cpu.min_nodes, cpu.max_nodes) for cpu in cluster.cpu_pools.values()]
    alerts = settings.monitoring is not None
    volumes = claims(settings.auxiliary.claims, volume)
    metered: list[Metered] = []
    if isinstance(cluster, GkeClusterArgs):
        before, after, notes = _cluster(cluster, bounds)
        items = [*before, *items, *after]
        metered = by_use(cluster.network, prometheus=cluster.managed_prometheus, alerts=alerts)
    else:
        notes = [
            f"the cluster {cluster.name}, its other nodes and its internet access are billed to "
            "their owner",
            "nodes are public or private as the cluster's default says; each public one has an "
            f"address for ${PRICES['external-ipv4'].dollars:g} an hour, which is not in the sums",
        ]
        metered = by_use(None, prometheus=alerts, alerts=alerts)
    return Bill(
        other_region=other_region("google", cluster.region),
        items=[*items, *volumes],
        metered=metered,
        notes=[
            *notes,
            *_hyperdisk_notes(settings),
            *choices,
            *pool_notes(pools),
            *bucket_notes(settings.auxiliary.accounts),
        ],
    )


def _without_gpus(name: str, pool: GkeSystemPoolArgs | GkeCpuPoolArgs) -> Item:
    return node_pool(
        name,
        gke_node(pool.machine_type),
        f"{pool.machine_type}, {pool.disk_size_gb} GiB",
        [disk(pool.boot_disk, pool.disk_size_gb)],
        (pool.min_nodes, pool.max_nodes),
        "spot" if pool.spot else "on-demand",
    )


def _hyperdisk_notes(settings: Settings[GkeSettings]) -> list[str]:
    """What the price of Hyperdisk Balanced does not include, if the stack has any."""
    cluster = settings.own.cluster
    kinds = {pool.args.boot_disk for pool in settings.own.pools.values()}
    kinds |= {pool.boot_disk for pool in cluster.cpu_pools.values()}
    if isinstance(cluster, GkeClusterArgs):
        kinds.add(cluster.system_pool.boot_disk)
    for claim in settings.auxiliary.claims.values():
        row = volume_class(claim.storage_class)
        kinds |= {row.kind} if row else set()
    if "hyperdisk-balanced" not in kinds:
        return []
    return [
        "hyperdisk-balanced is counted by its size, with 3,000 IOPS and 140 MiB/s; Compute Engine "
        "provisions more by default for larger disks, which is not in the sums"
    ]


def _cluster(
    args: GkeClusterArgs, bounds: list[tuple[int, int]]
) -> tuple[list[Item], list[Item], list[str]]:
    """The lines before and after the pools, and notes, for a cluster that the stack creates.
    `bounds`: minimum and maximum number of nodes of each of its pools."""
    system = args.system_pool
    zonal = args.region != args.location
    before = [
        fee(f"GKE, {'zonal' if zonal else 'regional'}"),
        _without_gpus("system pool", system),
    ]
    least = system.min_nodes + sum(pool_bounds[0] for pool_bounds in bounds)
    most = system.max_nodes + sum(pool_bounds[1] for pool_bounds in bounds)
    return before, cloud_nat(args.network, least, most), google_notes(args, free=zonal)
