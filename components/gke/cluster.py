"""A GKE Standard cluster: private nodes, and one small autoscaled CPU pool for system pods."""

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp.container import NodePoolNodeConfigArgsDict

from ..catalog import gke as catalog
from ..cluster import ResolvedPool
from .cluster_args import GkeClusterArgs
from .cluster_autoscaling import cluster_autoscaling
from .control_plane import control_plane, control_plane_options, kubeconfig_of
from .cpu_pool import GkeCpuPool
from .gpu_networks import GkeGpuNetworks
from .network import GkeNetwork
from .node_identity import GkeNodeIdentity, node_config, patience, recycling_check, zones_check
from .pool_args import GkeGpuNodePoolArgs

_POOL_NAME = catalog.NODE_POOL_NAME_MAX - catalog.AUTO_NAME_SUFFIX - len("-system")
"""How much of the cluster's name, which may be as long as a pool's, the system pool's has."""


class GkeCluster(pulumi.ComponentResource):
    """A GKE Standard cluster, ready for GPU node pools."""

    cluster: gcp.container.Cluster
    id: pulumi.Output[str]
    """Its full name, `projects/...`."""
    identity: GkeNodeIdentity
    node_account: pulumi.Output[str]
    """The email of the service account that nodes use unless their pool names its own."""
    before_nodes: Sequence[pulumi.Resource]
    """Resources that must exist before a node starts, and must outlive it."""
    machine_labels: None = None
    """None, because machines have the labels of the cluster."""
    private_nodes: bool = True
    network: GkeNetwork
    gpu_networks: GkeGpuNetworks | None = None
    system_pool: gcp.container.NodePool
    system_nodes: Sequence[pulumi.Resource]
    kubeconfig: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        args: GkeClusterArgs,
        *,
        project: str,
        gpu_pools: Mapping[str, ResolvedPool[GkeGpuNodePoolArgs]],
        dcgm: bool = False,
        image_streaming: bool = False,
        addons: gcp.container.ClusterAddonsConfigArgsDict | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gke:Cluster", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.network = GkeNetwork(
            name, args.network, project=project, region=args.region, opts=child
        )
        fabrics = [pool.pool.fabric for pool in gpu_pools.values()]
        used = [len(fabric.networks or ()) for fabric in fabrics if fabric]
        if args.gpu_networks_cidr and (most := max(used, default=0)):
            self.gpu_networks = GkeGpuNetworks(
                name, most, cidr=args.gpu_networks_cidr, region=args.region, opts=child
            )
        self.identity = GkeNodeIdentity(
            name, project=project, image_streaming=image_streaming, opts=child
        )
        self.node_account = self.identity.email
        secure_nodes = node_config(self.identity.email, secure_boot=True)
        self.cluster = gcp.container.Cluster(
            name,
            **control_plane(args, project=project, network=self.network),
            node_locations=list(args.zones) or None,
            enable_shielded_nodes=True,
            addons_config=addons,
            # Needed by the network's flow logs, which otherwise miss traffic between pods of one
            # node.
            enable_intranode_visibility=args.network.flow_logs,
            datapath_provider="ADVANCED_DATAPATH",
            enable_multi_networking=True if args.gpu_networks_cidr else None,
            cluster_autoscaling=cluster_autoscaling(args, gpu_pools, self.identity.email),
            logging_config={"enable_components": ["SYSTEM_COMPONENTS", "WORKLOADS"]},
            monitoring_config={
                # Without DCGM in the list, GKE runs no second exporter in addition to the stack's
                # own.
                "enable_components": ["SYSTEM_COMPONENTS", *(["DCGM"] if dcgm else [])],
                "managed_prometheus": {"enabled": args.managed_prometheus},
            },
            # GKE creates a default pool with every cluster. It is removed at once, but while it
            # exists it must not run as the project's default account, which has far too many
            # permissions.
            remove_default_node_pool=True,
            initial_node_count=1,
            node_config={**secure_nodes, "machine_type": "e2-small", "disk_size_gb": 20},
            opts=control_plane_options(
                args,
                self,
                # The settings of the removed default pool no longer matter, and a difference in
                # them would replace the cluster.
                ignore_changes=["nodeConfig", "initialNodeCount", "nodePools"],
                hooks=zones_check(name),
                # Pools are deleted with the cluster, and their nodes use these until then.
                depends_on=self.gpu_networks.networks if self.gpu_networks else (),
            ),
        )
        self.id = self.cluster.id
        self.before_nodes = [*self.identity.grants, *self.network.egress]
        self.system_pool = self._system_pool(name, args, secure_nodes)
        self.system_nodes = [self.system_pool]
        for pool, cpu in args.cpu_pools.items():
            GkeCpuPool(
                pool,
                cpu,
                zones=args.node_zones,
                cluster=self.id,
                deleted_with=self.cluster,
                service_account=self.identity.email,
                depends_on=self.before_nodes,
                opts=child,
            )
        self.kubeconfig = kubeconfig_of(args, self.cluster)
        self.register_outputs({})

    def _system_pool(
        self, name: str, args: GkeClusterArgs, secure_nodes: NodePoolNodeConfigArgsDict
    ) -> gcp.container.NodePool:
        pool = args.system_pool
        return gcp.container.NodePool(
            f"{name[:_POOL_NAME].rstrip('-')}-system",
            cluster=self.cluster.id,
            # Per zone. The autoscaler respects the minimum, but does not scale up to it.
            initial_node_count=-(-pool.min_nodes // args.node_zones),
            autoscaling={
                "total_min_node_count": pool.min_nodes,
                "total_max_node_count": pool.max_nodes,
                "location_policy": "BALANCED",
            },
            ignore_node_count_changes=True,
            management={"auto_repair": True, "auto_upgrade": True},
            upgrade_settings={"max_surge": 1, "max_unavailable": 0},
            node_config={
                **secure_nodes,
                "machine_type": pool.machine_type,
                "disk_size_gb": pool.disk_size_gb,
                "disk_type": pool.boot_disk,
                "image_type": "COS_CONTAINERD",
                "spot": pool.spot,
            },
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=self.before_nodes,
                deleted_with=self.cluster,
                # The autoscaler controls the number of nodes.
                ignore_changes=["initialNodeCount"],
                custom_timeouts=patience(pool.max_nodes),
                hooks=recycling_check(
                    f"{name}-system", "cluster.systemPool", (pool.min_nodes, pool.max_nodes)
                ),
            ),
        )
