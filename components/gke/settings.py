"""The settings of a GKE Standard environment."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network

from ..access.service_accounts import Access
from ..cluster import Metrics, ResolvedPool, Runs, check_pool_names, resolved
from ..scalers import SCALERS
from ..schema.decode import NAMESPACE, at
from ..schema.refusal import Refusals, known_only, refuse
from .classes import check_names
from .cluster_args import GPU_NETWORKS, GkeClusterArgs
from .existing_args import AnyGkeClusterArgs
from .network_args import RESERVED_ADDRESSES
from .node_account import account_id, registry_warnings
from .pool_args import GkeGpuNodePoolArgs
from .sign_in import identity_warnings, project_id
from .volumes import access
from .warnings import warnings

CLUSTER, POOL = GkeClusterArgs, GkeGpuNodePoolArgs
account = project_id


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeSettings:
    """A GKE Standard cluster, created by the stack or existing, and its GPU node pools."""

    project: str
    """Google Cloud project ID, from `gcp:project`."""
    cluster: AnyGkeClusterArgs
    pools: Mapping[str, ResolvedPool[GkeGpuNodePoolArgs]]
    foreign: Sequence[str] = ()
    """Warnings about different identities in cloud and cluster, each starting with its key."""

    def warnings(self, runs: Runs) -> list[str]:
        """The warnings of every preview."""
        nodes = {name: pool.args.node_gpus for name, pool in self.pools.items()}
        pools = [line for pool in self.pools.values() for line in pool.warnings]
        kept = [name for name, pool in self.pools.items() if {*pool.args.order} == {"flex-start"}]
        return [
            *self.foreign,
            *(f"cluster.{line}" for line in self.check_room()),
            *pools,
            *warnings(
                self.cluster,
                self.project,
                nodes,
                runs,
                kept,
                {name: pool.places for name, pool in self.pools.items()},
                [name for name, pool in self.pools.items() if pool.args.gpu_direct],
            ),
        ]

    @property
    def most_nodes(self) -> int:
        """The maximum number of nodes of all pools of the stack together."""
        cluster = self.cluster
        system = cluster.system_pool.max_nodes if isinstance(cluster, GkeClusterArgs) else 0
        cpu = sum(pool.max_nodes for pool in cluster.cpu_pools.values())
        return system + cpu + sum(pool.pool.bounds[1] for pool in self.pools.values())

    def check_room(self) -> list[str]:
        """Warnings about the size of the network that the stack creates; raises `Refusal` if the
        pools cannot run in it."""
        if not isinstance(self.cluster, GkeClusterArgs):
            return []
        fabrics = [(pool.pool.fabric, pool.pool.bounds[1]) for pool in self.pools.values()]
        most = sum(nodes for fabric, nodes in fabrics if fabric and fabric.networks)
        if cidr := self.cluster.gpu_networks_cidr:
            # Pools of both kinds share the first networks.
            room = IPv4Network(cidr).num_addresses // len(GPU_NETWORKS) - RESERVED_ADDRESSES
            if most > room:
                raise refuse("gpuNetworksCidr", cidr)(
                    f"has {room} addresses for nodes in each of its {len(GPU_NETWORKS)} networks, "
                    f"and pools with gpuDirect have up to {most} nodes together",
                    remedy="use a larger range, or lower their maxNodes",
                )
        fewest = self.cluster.system_pool.min_nodes
        fewest += sum(max(pool.pool.bounds[0], 1) for pool in self.pools.values())
        return self.cluster.network.check_room(fewest, self.most_nodes)

    @property
    def metrics(self) -> Metrics:
        """The stack's own exporter, or GKE's, for Google's Managed Prometheus."""
        if not isinstance(self.cluster, GkeClusterArgs):
            # A new cluster collects them by default, and the exporter would be a second collector.
            return Metrics(sources=("managed", "exporter"), managed_prometheus=True)
        collects = self.cluster.managed_prometheus
        return Metrics(
            sources=("exporter", "managed"),
            managed_prometheus=True,
            needs=""
            if collects
            else "cluster.managedPrometheus, which collects the metrics; set that to true",
        )

    @property
    def access(self) -> Access:
        """Roles in the project, Cloud Storage buckets, and classes for disks and Filestore."""
        cluster = self.cluster
        group = cluster.security_group if isinstance(cluster, GkeClusterArgs) else ""
        missing = "needs cluster.dataCache, with the size of the cache; set it"
        no_cache = missing if cluster.data_cache is None else ""
        return access(cluster.network, security_group=group, no_cache=no_cache)


def resolve(
    config: Mapping[str, str],
    cluster: AnyGkeClusterArgs,
    pools: Mapping[str, GkeGpuNodePoolArgs],
    refusals: Refusals,
) -> GkeSettings:
    """Resolves the settings, as `SettingsModule.resolve` says."""
    path = f"{NAMESPACE}:cluster"
    refusals.run(
        lambda: at(path, cluster.network.check_in, project_id(config)),
        lambda: check_pool_names(cluster.cpu_pools, pools),
        lambda: check_names(pools) if SCALERS[cluster.scaler].in_cluster else None,
    )
    settings = known_only(GkeSettings, cluster=cluster, pools=resolved(pools, refusals, cluster))
    with refusals:
        project = project_id(config)
        # In an existing cluster, the ID contains a hash of the stack, which is not known here.
        account = account_id(cluster.name) if isinstance(cluster, GkeClusterArgs) else "NODES"
        foreign = [
            *identity_warnings(config, os.environ),
            *registry_warnings(config, project, account),
        ]
        settings = replace(settings, project=project, foreign=foreign)
    refusals.run(lambda: at(path, settings.check_room))
    return settings
