"""Declares a GKE Standard environment from its settings."""

from collections.abc import Sequence
from dataclasses import replace

import pulumi
import pulumi_kubernetes as kubernetes

from ..catalog import kubernetes as names
from ..cluster import Cluster, Runs
from ..lifecycle.replacement import LastingSettings
from ..scalers import SCALERS
from ..schema.on_change import change_rules
from .class_spec import class_spec
from .cluster import GkeCluster
from .cluster_args import GPU_NETWORKS, GkeClusterArgs
from .compute_class import GkeComputeClass
from .control_plane import declare_monitoring, identifier_of
from .existing_args import GkeExistingClusterArgs
from .existing_cluster import GkeExistingCluster
from .gpu_networks import GkePodNetworks, Interface, node_networks, read_interfaces
from .immutable import POOL
from .nccl_plugin import NcclPlugin
from .node_pool import GkeGpuNodePool
from .pod_access import addons, declare_access
from .pool_args import GkeGpuNodePoolArgs
from .settings import GkeSettings
from .storage import declare_storage


def declare(settings: GkeSettings, runs: Runs) -> Cluster:
    """Declares a GKE Standard cluster, unless it is an existing one, with its GPU node pools."""
    args = settings.cluster
    pools = {name: pool.args for name, pool in settings.pools.items()}
    path = f"projects/{settings.project}/locations/{args.location}/clusters/{args.name}"
    identifier: pulumi.Input[str] = f"//container.googleapis.com/{path}"
    network: pulumi.Input[str]
    gke: GkeCluster | GkeExistingCluster
    if isinstance(args, GkeClusterArgs):
        gke = GkeCluster(
            args.name,
            args,
            project=settings.project,
            gpu_pools=settings.pools,
            dcgm=runs.metrics == "managed",
            image_streaming=any(pool.image_streaming for pool in pools.values()),
            addons=addons(runs),
            opts=runs.component_options,
        )
        network = gke.network.network
        identifier = identifier_of(args, settings.project, gke.cluster)
    else:
        gke = GkeExistingCluster(
            args.name,
            args,
            project=settings.project,
            pools=settings.pools,
            runs=runs,
            opts=runs.component_options,
        )
        network = args.network.network_in(settings.project)
    in_classes = SCALERS[args.scaler].in_cluster
    provider = kubernetes.Provider(
        args.name,
        kubeconfig=gke.kubeconfig,
        context=args.name,
        cluster_identifier=identifier,
        # In an existing cluster, an object with one of this stack's names belongs to its owner.
        upsert_existing_objects=None if gke.cluster else False,
        opts=runs.component_options,
    )
    directs = sorted({pool.gpu_direct for pool in pools.values() if pool.gpu_direct})
    interfaces: Sequence[Interface] = gke.gpu_networks.interfaces if gke.gpu_networks else ()
    over_tcp = any(direct != "rdma" for direct in directs)
    owners_plugin = getattr(args, "nccl_plugin", "stack") == "owner"
    if isinstance(args, GkeExistingClusterArgs) and over_tcp:
        interfaces = read_interfaces(args.gpu_networks, provider=provider, parent=gke)
    # The GPU taint is declared, so GPU pools need not wait for the CPU pool to get it from GKE.
    gpu_pools = [
        GkeGpuNodePool(
            name,
            pool,
            cluster=gke.id,
            service_account=gke.node_account,
            network=node_networks(pool.args.gpu_direct, interfaces, gke.private_nodes),
            depends_on=gke.before_nodes,
            deleted_with=gke.cluster,
            machine_labels=gke.machine_labels,
            opts=runs.component_options,
        )
        for name, pool in ({} if in_classes else settings.pools).items()
    ]
    LastingSettings(
        args,
        pools,
        cluster=change_rules(type(args)),
        # A class changes in place, and existing nodes keep their settings.
        pool={} if in_classes else {**change_rules(GkeGpuNodePoolArgs), **POOL},
        after=[gke, *gpu_pools],
        claims=runs.claims,
        opts=runs.component_options,
    )
    declare_monitoring(args, runs)
    granted = declare_access(runs, project=settings.project, cluster=gke.cluster, cluster_path=path)
    cluster = Cluster(
        name=args.name,
        platform="gke",
        provider=provider,
        kubeconfig=gke.kubeconfig,
        pools={name: pool.pool for name, pool in settings.pools.items()},
        managed_prometheus=settings.metrics.managed_prometheus,
        system_nodes=gke.system_nodes,
        # GKE upgrades nodes long after the control plane, and what the state has of them may be
        # older still, never newer.
        mapped=pulumi.Output.all(
            *(nodes.node_pool.version for nodes in gpu_pools if nodes.pool.device_class)
        ).apply(names.maps_requests),
        granted=granted,
        buckets=settings.access.buckets,
        deleted_with=gke.cluster,
        parent=runs.parent,
    )
    if in_classes:
        classes = [
            GkeComputeClass(
                name,
                class_spec(pool, pool.args.service_account or gke.node_account),
                cluster=cluster,
                depends_on=gke.before_nodes,
                opts=runs.component_options,
            )
            for name, pool in settings.pools.items()
        ]
        # GKE creates nodes for a pod that selects a class only once the class exists.
        cluster = replace(cluster, ready=[component.compute_class for component in classes])
    for direct in () if owners_plugin else directs:
        NcclPlugin(direct, direct, cluster=cluster, opts=cluster.component_options)
    if over_tcp and not owners_plugin:
        own = interfaces if gke.gpu_networks else ()
        networks = GkePodNetworks(
            "gpu-networks",
            GPU_NETWORKS[: len(own)],
            own,
            cluster=cluster,
            opts=cluster.component_options,
        )
        # GKE refuses pods that name a network before it exists.
        cluster = replace(cluster, ready=[*cluster.ready, networks])
    declare_storage(
        runs,
        args=args.network,
        network=network,
        project=settings.project,
        cluster=cluster,
        cache=args.data_cache.parameters if args.data_cache else None,
    )
    return cluster
