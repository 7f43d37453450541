"""A GKE Autopilot cluster: nodes, driver and device plugin are GKE's."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

from components.cluster import Cluster
from components.gke.control_plane import (
    control_plane,
    control_plane_options,
    identifier_of,
    kubeconfig_of,
    warnings,
)
from components.gke.gpu_monitoring_args import GkeGpuMonitoringArgs
from components.gke.immutable import CONTROL_PLANE
from components.gke.network import GkeNetwork
from components.gke.node_identity import NODE_SCOPES, GkeNodeIdentity
from components.gke.training import training_warnings
from components.gke_autopilot.cluster_args import GkeAutopilotArgs, GkeAutopilotPoolArgs
from components.replacement import LastingSettings


class GkeAutopilotCluster(pulumi.ComponentResource):
    """A GKE Autopilot cluster in a network of its own."""

    cluster: gcp.container.Cluster
    network: GkeNetwork
    kubeconfig: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        args: GkeAutopilotArgs,
        *,
        project: str,
        dcgm: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gke:AutopilotCluster", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        for warning in warnings(args, project):
            pulumi.log.warn(warning, self)
        self.network = GkeNetwork(name, args.network, region=args.region, opts=child)
        # Autopilot streams images by itself.
        identity = GkeNodeIdentity(name, project=project, image_streaming=True, opts=child)
        self.cluster = gcp.container.Cluster(
            name,
            **control_plane(args, project=project, network=self.network),
            enable_autopilot=True,
            # The nodes that GKE provisions must not run as the project's default account either.
            cluster_autoscaling={
                "auto_provisioning_defaults": {
                    "service_account": identity.email,
                    "oauth_scopes": NODE_SCOPES,
                }
            },
            # Left out, GKE decides. There, its managed Prometheus cannot be turned off.
            monitoring_config={"enable_components": ["SYSTEM_COMPONENTS", "DCGM"]}
            if dcgm
            else None,
            opts=control_plane_options(args, self, depends_on=identity.grants),
        )
        self.kubeconfig = kubeconfig_of(args, self.cluster)
        self.register_outputs({})


def autopilot(
    args: GkeAutopilotArgs,
    pools: Mapping[str, GkeAutopilotPoolArgs],
    *,
    project: str,
    monitoring: GkeGpuMonitoringArgs | None = None,
    warnings: Sequence[str] = (),
    training_nodes: Mapping[str, int] = MappingProxyType({}),
) -> Cluster:
    """Declares a GKE Autopilot cluster; its GPU pools are what pods select."""
    gke = GkeAutopilotCluster(
        args.name, args, project=project, dcgm=bool(monitoring and monitoring.dcgm)
    )
    LastingSettings(args, {}, cluster=CONTROL_PLANE, pool={}, after=[gke])
    nodes = {name: pool.node_gpus for name, pool in pools.items()}
    for warning in [*warnings, *training_warnings(args, nodes, training_nodes)]:
        pulumi.log.warn(warning, gke)
    if monitoring:
        # The only user of a large module of the SDK.
        from components.gke.gpu_monitoring import GkeGpuMonitoring

        GkeGpuMonitoring("gpu-views", monitoring, cluster=args.name, location=args.location)
    return Cluster(
        name=args.name,
        platform="gke-autopilot",
        provider=kubernetes.Provider(
            args.name,
            kubeconfig=gke.kubeconfig,
            context=args.name,
            cluster_identifier=identifier_of(args, project, gke.cluster),
        ),
        kubeconfig=gke.kubeconfig,
        pools={name: pool.gpu_pool(name) for name, pool in pools.items()},
        ready=[gke.network.nat],
        deleted_with=gke.cluster,
    )
