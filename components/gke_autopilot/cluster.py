"""A GKE Autopilot cluster, whose nodes, driver and device plugin GKE manages."""

import pulumi
import pulumi_gcp as gcp

from ..gke.control_plane import control_plane, control_plane_options, kubeconfig_of
from ..gke.network import GkeNetwork
from ..gke.node_identity import NODE_SCOPES, GkeNodeIdentity
from .cluster_args import GkeAutopilotArgs


class GkeAutopilotCluster(pulumi.ComponentResource):
    """A GKE Autopilot cluster in its own network."""

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
        self.network = GkeNetwork(
            name, args.network, project=project, region=args.region, opts=child
        )
        # Autopilot always streams images.
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
            # If it is omitted, GKE decides. On Autopilot, its managed Prometheus cannot be turned
            # off.
            monitoring_config={"enable_components": ["SYSTEM_COMPONENTS", "DCGM"]}
            if dcgm
            else None,
            opts=control_plane_options(args, self, depends_on=identity.grants),
        )
        self.kubeconfig = kubeconfig_of(args, self.cluster)
        self.register_outputs({})
