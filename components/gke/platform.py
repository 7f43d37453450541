"""GKE Standard, from settings to the waist."""

import pulumi_kubernetes as kubernetes

from ..cluster import Cluster, Runs
from ..on_change import change_rules
from ..replacement import LastingSettings
from .cluster import GkeCluster
from .cluster_args import GkeClusterArgs
from .control_plane import identifier_of
from .gpu_monitoring_args import monitoring_of
from .immutable import POOL
from .node_pool import GkeGpuNodePool
from .pod_access import GkePodAccess, addons
from .pool_args import GkeGpuNodePoolArgs
from .settings import GkeSettings
from .storage import declare_storage


def declare(settings: GkeSettings, runs: Runs) -> Cluster:
    """Declares a GKE Standard cluster with its GPU node pools."""
    args, monitoring = settings.cluster, monitoring_of(runs)
    pools = {name: pool.args for name, pool in settings.pools.items()}
    gke = GkeCluster(
        args.name,
        args,
        project=settings.project,
        dcgm=bool(monitoring and monitoring.dcgm),
        image_streaming=any(pool.image_streaming for pool in pools.values()),
        addons=addons(runs),
        opts=runs.component_options,
    )
    # The GPU taint is declared, so no GPU pool has to wait for the CPU pool to get it from GKE.
    gpu_pools = [
        GkeGpuNodePool(
            name,
            pool,
            cluster=gke.cluster,
            service_account=gke.identity.email,
            depends_on=[*gke.identity.grants, *gke.network.egress],
            opts=runs.component_options,
        )
        for name, pool in settings.pools.items()
    ]
    LastingSettings(
        args,
        pools,
        cluster=change_rules(GkeClusterArgs),
        pool={**change_rules(GkeGpuNodePoolArgs), **POOL},
        after=[gke, *gpu_pools],
        claims=runs.claims,
        opts=runs.component_options,
    )
    if monitoring:
        # The only user of a large module of the SDK.
        from .gpu_monitoring import GkeGpuMonitoring

        GkeGpuMonitoring(
            "gpu-views",
            monitoring,
            cluster=args.name,
            location=args.location,
            opts=runs.component_options,
        )
    access = None
    if runs.accounts:
        access = GkePodAccess(
            "pod-access",
            runs.accounts,
            project=settings.project,
            cluster=gke.cluster,
            cluster_path=f"projects/{settings.project}/locations/{args.location}/clusters/{args.name}",
            opts=runs.component_options,
        )
    cluster = Cluster(
        name=args.name,
        platform="gke",
        provider=kubernetes.Provider(
            args.name,
            kubeconfig=gke.kubeconfig,
            context=args.name,
            cluster_identifier=identifier_of(args, settings.project, gke.cluster),
            opts=runs.component_options,
        ),
        kubeconfig=gke.kubeconfig,
        pools={gpu_pool.pool.name: gpu_pool.pool for gpu_pool in gpu_pools},
        managed_prometheus=settings.metrics.managed_prometheus,
        system_nodes=[gke.system_pool],
        granted=access.granted if access else {},
        buckets=settings.access.buckets,
        deleted_with=gke.cluster,
        parent=runs.parent,
    )
    declare_storage(
        runs,
        args=args.network,
        network=gke.network.network,
        project=settings.project,
        cluster=cluster,
    )
    return cluster
