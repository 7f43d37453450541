"""GKE Standard, from settings to the waist."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pulumi
import pulumi_kubernetes as kubernetes

from components.cluster import Cluster
from components.gke.cluster import GkeCluster
from components.gke.cluster_args import GkeClusterArgs
from components.gke.control_plane import identifier_of
from components.gke.gpu_monitoring_args import GkeGpuMonitoringArgs
from components.gke.immutable import CLUSTER, POOL
from components.gke.node_pool import GkeGpuNodePool
from components.gke.pool_args import GkeGpuNodePoolArgs
from components.gke.training import training_warnings
from components.replacement import LastingSettings


def standard(
    args: GkeClusterArgs,
    pools: Mapping[str, GkeGpuNodePoolArgs],
    *,
    project: str,
    monitoring: GkeGpuMonitoringArgs | None = None,
    warnings: Sequence[str] = (),
    training_nodes: Mapping[str, int] = MappingProxyType({}),
) -> Cluster:
    """Declares a GKE Standard cluster with its GPU node pools."""
    gke = GkeCluster(
        args.name,
        args,
        project=project,
        dcgm=bool(monitoring and monitoring.dcgm),
        image_streaming=any(pool.image_streaming for pool in pools.values()),
    )
    nodes = {name: pool.node_gpus for name, pool in pools.items()}
    for warning in [*warnings, *training_warnings(args, nodes, training_nodes)]:
        pulumi.log.warn(warning, gke)
    # The GPU taint is declared, so no GPU pool has to wait for the CPU pool to get it from GKE.
    gpu_pools = [
        GkeGpuNodePool(
            name,
            pool,
            cluster=gke.cluster,
            location=args.location,
            service_account=gke.identity.email,
            depends_on=[*gke.identity.grants, gke.network.nat],
        )
        for name, pool in pools.items()
    ]
    LastingSettings(args, pools, cluster=CLUSTER, pool=POOL, after=[gke, *gpu_pools])
    if monitoring:
        # The only user of a large module of the SDK.
        from components.gke.gpu_monitoring import GkeGpuMonitoring

        GkeGpuMonitoring("gpu-views", monitoring, cluster=args.name, location=args.location)
    return Cluster(
        name=args.name,
        platform="gke",
        provider=kubernetes.Provider(
            args.name,
            kubeconfig=gke.kubeconfig,
            context=args.name,
            cluster_identifier=identifier_of(args, project, gke.cluster),
        ),
        kubeconfig=gke.kubeconfig,
        pools={gpu_pool.pool.name: gpu_pool.pool for gpu_pool in gpu_pools},
        system_nodes=[gke.system_pool],
        deleted_with=gke.cluster,
    )
