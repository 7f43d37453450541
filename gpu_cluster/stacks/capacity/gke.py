"""The quota usage of GPU node pools on GKE Standard, and the zones that they need."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from gpu_cluster.components.catalog.gke import machine_type, region_of
from gpu_cluster.components.cluster import ResolvedPool
from gpu_cluster.components.gke.cluster_args import GkeClusterArgs
from gpu_cluster.components.gke.existing_args import own_account
from gpu_cluster.components.gke.node_account import account_id
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.gke.settings import GkeSettings
from gpu_cluster.components.schema.outputs import text
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.capacity import (
    advice,
    choices,
    google_buckets,
    google_existing,
    google_grants,
    google_network,
)
from gpu_cluster.stacks.capacity.google import (
    KEYS,
    GoogleQuotas,
    Nodes,
    needs,
    network_needs,
    node_needs,
    one_node,
)
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.google_reservations import machine
from gpu_cluster.stacks.capacity.offers import Wanted
from gpu_cluster.stacks.capacity.questions import Questions
from gpu_cluster.stacks.capacity.reserved import Wanted as Reservation
from gpu_cluster.stacks.capacity.verdict import Finding
from gpu_cluster.stacks.images import pulled

__all__ = ["KEYS", "questions"]

Pools = Mapping[str, ResolvedPool[GkeGpuNodePoolArgs]]


def questions(settings: Settings[GkeSettings], endpoint: str | None) -> Questions:
    """Implements `stacks.capacity.questions.Capacity`."""
    own = settings.own
    region = region_of(own.cluster.location)
    quota_needs, notes = needs(own.pools, pool_gpus(own.pools), project=own.project, region=region)
    api = GoogleApi(endpoint)
    buckets, far = google_buckets.bucket_findings(
        settings.auxiliary.accounts, region=region, api=api
    )
    cloud, reserved = GoogleQuotas(own.project, region, api), reservations(own.pools)
    order = choices.lines(
        own.pools,
        reserved,
        cloud=cloud,
        cluster=own.cluster.name,
        need=partial(one_node, region=region),
    )
    asked = Questions(
        cloud=cloud,
        needs=[
            *quota_needs,
            *node_needs(nodes(own), project=own.project, region=region),
            *(
                network_needs(own.pools, cluster=own.cluster, project=own.project)
                if isinstance(own.cluster, GkeClusterArgs)
                else ()
            ),
        ],
        wanted=wanted(own.pools, region),
        reservations=reserved,
        machines=spot(own.pools),
        notes=[
            *notes,
            *order,
            *far,
            *advice.silent({name: pool.args.order for name, pool in own.pools.items()}),
        ],
        findings=buckets,
    )
    cluster, registry = own.cluster, settings.images.registry
    if not isinstance(cluster, GkeClusterArgs):

        def existing(owner: str) -> list[Finding]:
            nodes = account_id(cluster.name, owner)
            grants = (
                google_grants.registry_findings(registry, own.project, nodes, api)
                if own_account(cluster, own.pools)
                else []
            )
            simulated = endpoint is not None
            return [
                *google_existing.cluster_findings(api, settings, owner, simulated=simulated),
                *grants,
            ]

        return replace(
            asked, existing=existing, kubeconfig=lambda: google_existing.kubeconfig_of(api, own)
        )
    return replace(
        asked,
        wanted=[*system(cluster, region), *asked.wanted],
        findings=[
            *buckets,
            *google_grants.grant_findings(cluster, registry, project=own.project, api=api),
            *google_network.network_findings(
                cluster.network,
                project=own.project,
                region=region,
                nodes=own.most_nodes,
                images=pulled(settings),
                api=api,
            ),
        ],
    )


def nodes(own: GkeSettings) -> dict[str, Nodes]:
    """Pool -> its nodes at its maximum."""
    cluster = own.cluster
    cpu = {f"cluster.cpuPools.{name}": pool for name, pool in cluster.cpu_pools.items()}
    plain = {"systemPool": cluster.system_pool} if isinstance(cluster, GkeClusterArgs) else {}
    return {
        name: Nodes(
            machine=machine_type(pool.machine_type),
            way="spot" if pool.spot else "on-demand",
            disk=pool.boot_disk,
            gigabytes=pool.disk_size_gb,
            count=pool.max_nodes,
        )
        for name, pool in (plain | cpu).items()
    } | {
        name: Nodes(
            machine=last.machine,
            way=last.capacity_type,
            disk=last.boot_disk,
            gigabytes=last.disk_size_gb,
            ssd_gib=last.ssd_gib,
            count=pool.pool.bounds[1],
        )
        for name, pool in own.pools.items()
        for last in [pool.choices[-1].args]
    }


def pool_gpus(pools: Pools) -> dict[str, int]:
    """Pool -> physical GPUs at `maxNodes`."""
    return {name: pool.pool.gpus_per_node * pool.pool.bounds[1] for name, pool in pools.items()}


def reservations(pools: Pools) -> list[Reservation]:
    """The reservations that pools name. GKE looks for one in each of a node pool's zones; one of
    several choices is used in its own zone, and may have fewer machines than the pool."""
    return [
        Reservation(
            pool=name,
            reservation=text(choice.args.reservation),
            types=(machine(choice.args.machine_type, pool.pool.accelerator, choice.args.gpus),),
            places="zones",
            zones=tuple(choice.places),
            each_zone=not pool.args.fallback,
            nodes=0 if pool.args.fallback else pool.pool.bounds[1],
        )
        for name, pool in pools.items()
        for choice in pool.choices
        if choice.args.reservation is not None
    ]


def spot(pools: Pools) -> list[advice.Wanted]:
    """The machines of pools that buy Spot."""
    return [
        advice.Wanted(
            pool=name,
            way="spot",
            types=(choice.args.machine_type,),
            attached=None
            if choice.args.machine.accelerator is not None
            else (pool.pool.accelerator, choice.args.gpus),
            zones=tuple(choice.places),
            nodes=pool.pool.bounds[1],
        )
        for name, pool in pools.items()
        for choice in pool.choices
        if choice.args.capacity_type == "spot"
    ]


def system(cluster: GkeClusterArgs, region: str) -> list[Wanted]:
    """The machine of the system nodes, and the zones that must offer it."""
    zonal = cluster.location != region
    zones = (cluster.location,) if zonal else tuple(cluster.zones or ())
    machine = cluster.system_pool.machine_type
    return [Wanted(pool="system", types=(machine,), region=region, zones=zones)]


def wanted(pools: Pools, region: str) -> list[Wanted]:
    """The machine of each pool's nodes, and its zones.

    A machine type that includes GPUs determines the zones of these.
    """
    offers = (
        Wanted(
            pool=name,
            types=(choice.args.machine_type,)
            if choice.args.machine.accelerator is not None
            else (choice.args.machine_type, choice.pool.accelerator),
            region=region,
            zones=tuple(choice.places),
        )
        for name, pool in pools.items()
        for choice in pool.choices
    )
    return [*dict.fromkeys(offers)]
