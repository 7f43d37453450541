"""An existing GKE cluster as the stack's pools need it."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_gcp as gcp

from ..access import data_source
from ..cluster import POOL_LABEL, ResolvedPool, Runs
from ..lifecycle import ownership
from ..lifecycle.prefix import unique
from .cpu_pool import GkeCpuPool
from .existing_args import (
    FoundCluster,
    GkeExistingClusterArgs,
    doubts,
    gcloud,
    no_dns,
    own_account,
    unfit,
)
from .kubeconfig import kubeconfig
from .node_identity import GkeNodeIdentity


class GkeExistingCluster(pulumi.ComponentResource):
    """The service account that nodes need to join an existing GKE cluster, unless all pools name
    their own. The cluster is looked up unless the settings say how to reach it."""

    cluster: None = None
    """The cluster is not a resource of this stack."""
    id: pulumi.Output[str]
    """The full name, `projects/...`; an output, known once the cluster was found suitable."""
    node_account: pulumi.Input[str]
    """The email of the service account that nodes use; empty if every pool names its own."""
    before_nodes: Sequence[pulumi.Resource]
    """Resources that must exist before a node starts, and must outlive it."""
    machine_labels: Mapping[str, str]
    gpu_networks: None = None
    """The stack creates no networks for clusters of others."""
    system_nodes: Sequence[pulumi.Resource] = ()
    kubeconfig: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        args: GkeExistingClusterArgs,
        *,
        project: str,
        pools: Mapping[str, ResolvedPool[Any]],
        runs: Runs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gke:ExistingCluster", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        (stack,) = ownership.google_labels().values()
        self.node_account, self.before_nodes = "", ()
        if own_account(args, pools):
            identity = GkeNodeIdentity(
                name,
                project=project,
                image_streaming=any(pool.args.image_streaming for pool in pools.values()),
                stack=unique(f"{pulumi.get_project()}/{pulumi.get_stack()}"),
                opts=child,
            )
            self.node_account, self.before_nodes = identity.email, identity.grants
        self.machine_labels = {**args.labels, **ownership.google_labels()}
        self._existing: pulumi.Output[gcp.container.GetClusterResult] | None = None
        reached: pulumi.Output[tuple[str, str | None]]
        if args.endpoint is not None:
            reached = pulumi.Output.all(args.endpoint, args.certificate_authority).apply(tuple)
        else:
            existing = data_source.ask_data_source(
                gcp.container.get_cluster_output(
                    name=args.existing,
                    location=args.location,
                    project=project,
                    opts=pulumi.InvokeOutputOptions(parent=self),
                ),
                "cluster.existing",
                f"give the name of a cluster in {args.location} of {project} that you may read",
            )

            def fitting(cluster: gcp.container.GetClusterResult) -> tuple[str, str | None]:
                found = found_in(cluster)
                refusals = unfit(args, pools, runs, found, project=project, stack=stack)
                if lines := [f"gpu-cluster:{refused}" for refused in refusals]:
                    raise pulumi.RunError("\n".join(lines))
                for line in doubts(args, pools, found):
                    pulumi.log.warn(f"gpu-cluster:{line}")
                if not _private(cluster):
                    pulumi.log.warn(
                        f"gpu-cluster:cluster.existing: {args.existing} gives nodes public "
                        "addresses by default, so each node of this stack has one, which costs; "
                        f"for private ones ask its owner to run {gcloud('update', args, project)} "
                        "--enable-private-nodes, which is the default of new node pools"
                    )
                return _endpoint(args, cluster, project)

            reached = existing.apply(fitting)
            self._existing = existing
        self.id = reached.apply(lambda _: args.path_in(project))
        self.kubeconfig = reached.apply(
            lambda known: kubeconfig(name=args.existing, endpoint=known[0], ca_certificate=known[1])
        )
        for pool, cpu in args.cpu_pools.items():
            GkeCpuPool(
                pool,
                cpu,
                zones=1,
                cluster=self.id,
                service_account=self.node_account,
                depends_on=self.before_nodes,
                machine_labels=self.machine_labels,
                opts=child,
            )
        self.register_outputs({})

    @property
    def private_nodes(self) -> pulumi.Input[bool]:
        """Whether nodes get no public addresses; true if the cluster is not looked up."""
        return True if self._existing is None else self._existing.apply(_private)


def found_in(cluster: gcp.container.GetClusterResult) -> FoundCluster:
    """The properties of a cluster, from the provider's data source."""
    monitoring = _first(cluster.monitoring_configs)
    prometheus = _first(monitoring.managed_prometheuses) if monitoring else None
    scaling = _first(cluster.cluster_autoscalings)
    addons = _first(cluster.addons_configs)
    drivers = {
        "gcsFuseCsiDriverConfig": addons and addons.gcs_fuse_csi_driver_configs,
        "gcpFilestoreCsiDriverConfig": addons and addons.gcp_filestore_csi_driver_configs,
        "gcePersistentDiskCsiDriverConfig": addons
        and addons.gce_persistent_disk_csi_driver_configs,
    }
    confidential = _first(cluster.confidential_nodes)
    identity = _first(cluster.workload_identity_configs)
    return FoundCluster(
        version=cluster.master_version,
        autopilot=cluster.enable_autopilot,
        confidential=bool(confidential and confidential.enabled),
        workload_pool=identity.workload_pool if identity else "",
        drivers=frozenset(name for name, rows in drivers.items() if rows and rows[0].enabled),
        dcgm=bool(monitoring and "DCGM" in monitoring.enable_components),
        multi_networking=bool(cluster.enable_multi_networking),
        managed_prometheus=bool(prometheus and prometheus.enabled),
        network=cluster.network,
        pools=[
            (pool.name, labels.get(POOL_LABEL), machines.get(ownership.GOOGLE_LABEL))
            for pool in cluster.node_pools
            for config in pool.node_configs
            for labels, machines in [(config.labels or {}, config.resource_labels or {})]
        ],
        limits={limit.resource_type: limit.maximum for limit in scaling.resource_limits}
        if scaling and scaling.enabled
        else {},
    )


def _first(rows: Sequence[Any] | None) -> Any:
    """The block's only element, or None: the data source returns each block as a list."""
    return rows[0] if rows else None


def _private(cluster: gcp.container.GetClusterResult) -> bool:
    """Whether nodes get no public addresses by default. Unknown in a cluster without the block."""
    private = _first(cluster.private_cluster_configs)
    return not private or bool(private.enable_private_nodes)


def _endpoint(
    args: GkeExistingClusterArgs, cluster: gcp.container.GetClusterResult, project: str
) -> tuple[str, str | None]:
    """Host and certificate authority of the control plane; the authority is None if it is a public
    one. Raises RunError, even in a preview, if the endpoint is disabled."""
    endpoints = _first(cluster.control_plane_endpoints_configs)
    by_address = _first(endpoints.ip_endpoints_configs) if endpoints else None
    if not args.dns_endpoint and (by_address is None or by_address.enabled):
        return cluster.endpoint, cluster.master_auths[0].cluster_ca_certificate
    dns = _first(endpoints.dns_endpoint_configs) if endpoints else None
    if dns is None or not dns.allow_external_traffic:
        raise pulumi.RunError(f"gpu-cluster:cluster.{no_dns(args, project)}")
    return dns.endpoint, None
