"""The cost of an EKS environment."""

from collections.abc import Iterator, Mapping
from datetime import date

from gpu_cluster.components.catalog import eks
from gpu_cluster.components.catalog.aws_prices import PRICES, eks_node
from gpu_cluster.components.catalog.prices import Price
from gpu_cluster.components.eks.cluster_args import EksClusterArgs, EksSystemPoolArgs
from gpu_cluster.components.eks.cpu_pool_args import EksCpuPoolArgs
from gpu_cluster.components.eks.karpenter_args import Scaler
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.eks.reservation import is_reserved
from gpu_cluster.components.eks.settings import EksSettings
from gpu_cluster.components.eks.warm_pool_args import EksWarmPoolArgs
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.cost.bill import Bill, Item, Metered, Part
from gpu_cluster.stacks.cost.bill_parts import (
    always,
    bought_as,
    bucket_notes,
    choice_notes,
    claims,
    gpu_pool,
    hourly,
    metered,
    monthly,
    node_pool,
    other_region,
    pool_notes,
    unused_reservation,
)


def _volume(storage_class: str | None, gib: float) -> tuple[Price | None, float]:
    """The default class is this stack's, with gp3."""
    return PRICES["ebs-gp3"] if storage_class is None else None, gib


def _gpu_disk(pool: EksGpuNodeGroupArgs) -> list[Part]:
    """The volume, and its throughput and IOPS beyond those included in every gp3 volume."""
    throughput = pool.disk_throughput - eks.GP3_THROUGHPUT[0]
    iops = pool.disk_iops - eks.GP3_IOPS[0]
    return [
        monthly("disk", PRICES["ebs-gp3"], pool.disk_size_gb),
        *(
            [monthly("disk throughput", PRICES["ebs-gp3-throughput"], throughput)]
            if throughput
            else []
        ),
        *([monthly("disk operations", PRICES["ebs-gp3-iops"], iops)] if iops else []),
    ]


def _warm_pool(
    item: Item, pool: EksGpuNodeGroupArgs, warm: EksWarmPoolArgs, *, reserved: bool
) -> Item:
    """The instances that wait while the pool `item` has its least nodes, and its most: those that
    are stopped, and those whose machine is reserved and paid for already, cost their disks only."""
    disks_only = warm.pool_state == "stopped" or reserved
    return Item(
        name=f"{item.name} warm pool",
        what=f"{warm.pool_state} instances, {pool.disk_size_gb} GiB",
        parts=_gpu_disk(pool) if disks_only else item.parts,
        idle=warm.instances(pool.min_nodes),
        full=warm.instances(pool.max_nodes),
    )


def bill(settings: Settings[EksSettings], today: date) -> Bill:
    """The bill. `today` decides whether the Kubernetes version is in extended support."""
    cluster = settings.own.cluster
    pools = {name: pool.args for name, pool in settings.own.pools.items()}
    items = [_without_gpus(name, cpu) for name, cpu in cluster.cpu_pools.items()]
    choices: list[str] = []
    for name, pool in pools.items():
        parts, last = pool.parts(name, cluster.scaler), pool.purchases[-1]
        unused = len(parts) == 1 and bool(pool.fallback) and pool.reservation is not None
        # Each node group or NodePool may reach maxNodes; a single one costs most with the last
        # choice.
        for part, choice in zip(parts, pool.choices[-len(parts) :], strict=True):
            bought = choice.capacity_type
            item = node_pool(
                part,
                eks_node(choice.instance_types),
                f"{' or '.join(choice.instance_types)}, {pool.disk_size_gb} GiB",
                _gpu_disk(pool),
                (pool.min_nodes, pool.max_nodes),
                bought_as(bought),
                settings.pools[name].pool,
            )
            items += gpu_pool(item, bought)
            if pool.warm_pool is not None:
                items.append(_warm_pool(item, pool, pool.warm_pool, reserved=is_reserved(bought)))
            if unused:
                items.append(unused_reservation(item, pool.purchases[0]))
        counted = "all of its choices, each with up to maxNodes nodes" if len(parts) > 1 else last
        prices = [eks_node(choice.instance_types) for choice in pool.choices]
        choices += choice_notes(name, pool.fallback, counted, prices, unused=unused)
    notes = [
        "Spot prices on AWS change hourly and differ by zone, so they are unknown",
        *pool_notes(pools),
        *choices,
    ]
    notes += [
        f"pool {name}: an instance that enters the warm pool boots first, and runs for those "
        "minutes at the price of a node, which is not counted"
        for name, pool in pools.items()
        if pool.warm_pool is not None and pool.warm_pool.pool_state == "stopped"
    ]
    notes += _on_nvme(pools, cluster.scaler)
    if SCALERS[cluster.scaler].fee:
        notes.append(
            "EKS Auto Mode adds a fee for each instance that it starts, by type, to the price of "
            "the instance; neither the fee nor its nodes for system pods are counted"
        )
    logs = []
    if isinstance(cluster, EksClusterArgs):
        before, after, more = _cluster(cluster, settings.own.region, today)
        items, notes = [*before, *items, *after], [*notes, *more]
        logs = [metered("control plane logs", PRICES["cloudwatch-logs"])]
        if cluster.network.interface_endpoints:
            data = PRICES["vpc-endpoint-data"]
            logs.append(metered("traffic through interface endpoints", data))
    else:
        notes.append(f"the cluster {cluster.name} and its other nodes are billed to their owner")
    volumes = claims(settings.auxiliary.claims, _volume)
    notes += bucket_notes(settings.auxiliary.accounts)
    return Bill(
        other_region=other_region("aws", settings.own.region),
        items=[*items, *volumes],
        metered=[
            metered("disks of other PersistentVolumeClaims", PRICES["ebs-gp3"]),
            metered("traffic through NAT", PRICES["nat-gateway-data"]),
            *(
                [metered("snapshots copied to starting nodes", PRICES["ebs-initialization"])]
                if any(pool.disk_initialization_rate for pool in pools.values())
                else []
            ),
            *logs,
            Metered(name="traffic to the internet and between zones", dollars=None, unit="GB"),
        ],
        notes=notes,
    )


def _without_gpus(name: str, pool: EksSystemPoolArgs | EksCpuPoolArgs) -> Item:
    return node_pool(
        name,
        eks_node(pool.instance_types),
        f"{' or '.join(pool.instance_types)}, {pool.disk_size_gb} GiB",
        [monthly("disk", PRICES["ebs-gp3"], pool.disk_size_gb)],
        (pool.min_nodes, pool.max_nodes),
        "spot" if pool.spot else "on-demand",
    )


def _on_nvme(pools: Mapping[str, EksGpuNodeGroupArgs], scaler: Scaler) -> Iterator[str]:
    """https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html, read 2026-11-24."""
    for name, pool in pools.items():
        if pool.local_disks(scaler):
            yield (
                f"pool {name}: where the NVMe disks of a node are larger than diskSizeGb, Auto "
                "Mode uses them and gives the node a volume of 20 GiB; counted is diskSizeGb"
            )


def _cluster(
    args: EksClusterArgs, region: str, today: date
) -> tuple[list[Item], list[Item], list[str]]:
    """The lines before and after the pools, and notes, for a cluster that the stack creates."""
    system, support = args.system_nodes, eks.support(args.version, today)
    fee = PRICES["eks-cluster-extended-support" if support == "extended" else "eks-cluster"]
    before = [always("control plane", f"Kubernetes {args.version}", hourly("fee", fee))]
    if system is not None:
        before.append(_without_gpus("system pool", system))
    network, after, notes = args.network, list[Item](), list[str]()
    gateways = 0 if network.subnet_ids else 1 if network.nat == "single" else len(network.zones)
    if gateways:
        parts = [hourly("gateway", PRICES["nat-gateway"]), hourly("address", PRICES["public-ipv4"])]
        after.append(always("NAT", "gateway and address", *parts, count=gateways))
    if network.interface_endpoints:
        endpoints = len(eks.interface_endpoints(region)) * len(network.zones)
        part = hourly("endpoint", PRICES["vpc-endpoint"])
        what = "one per service and zone"
        after.append(always("interface endpoints", what, part, count=endpoints))
    if args.secrets_encryption_key is None:
        key = PRICES["kms-key"]
        after.append(always("KMS key", "of Kubernetes secrets", monthly("key", key, 1)))
    if not gateways:
        notes.append(
            "internet access of an existing VPC is not part of this stack, and not counted"
        )
    if support == "extended":
        notes.append("Kubernetes is in extended support: the control plane costs six times as much")
    if support is None:
        notes.append(
            f"it is not known until when Kubernetes {args.version} has standard support; after "
            "that the control plane costs six times as much"
        )
    return before, after, notes
