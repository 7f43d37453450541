"""Declares an EKS environment from its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pulumi
import pulumi_kubernetes as kubernetes

from ..catalog import kubernetes as names
from ..cluster import ClaimVolume, Cluster, Runs
from ..lifecycle.replacement import LastingSettings
from ..scalers import SCALERS
from ..schema.on_change import change_rules
from .autoscaler import ClusterAutoscaler
from .autoscaler_args import EksAutoscalerArgs
from .cluster import EksCluster
from .cluster_args import EksClusterArgs
from .efa import EfaDevicePlugin, security_group, with_group
from .existing_cluster import AnyEksCluster, EksExistingCluster
from .immutable import node_pools_kept
from .karpenter_nodes import declare_auto_mode, declare_karpenter
from .node_group import EksGpuNodeGroup, NodeGroupSite
from .placement_group import placement_groups
from .pod_access import EksPodAccess
from .pool_args import EksGpuNodeGroupArgs
from .settings import EksSettings
from .storage import EksDisks, EksStorage


def declare(settings: EksSettings, runs: Runs) -> Cluster:
    """Declares an EKS cluster, unless it is an existing one, with its GPU node groups, their
    autoscaler, and permissions for what `runs` on it."""
    args, provider, top = settings.cluster, settings.provider, runs.component_options
    scaler = SCALERS[args.scaler]
    assert scaler.disks is not None
    eks: AnyEksCluster
    if isinstance(args, EksClusterArgs):
        mounts = any(account.buckets for account in runs.accounts.values())
        eks = EksCluster(args.name, args, provider=provider, buckets=mounts, opts=top)
    else:
        eks = EksExistingCluster(args.name, args, provider=provider, opts=top)
    efa = [pool.pool for pool in settings.pools.values() if pool.args.efa]
    nodes = settings
    if efa:
        assert eks.vpc is not None, "checked when the pools are resolved"
        group = security_group(f"{args.name}-efa", eks.vpc, eks)
        nodes = replace(settings, pools=with_group(settings.pools, group))
    groups = _node_groups(nodes, eks.site, top) if scaler.node_groups and eks.site else []
    access = None
    if runs.accounts:
        access = EksPodAccess(
            "pod-access",
            runs.accounts,
            cluster_name=args.name,
            known_as=eks.name,
            control_plane=eks.control_plane,
            region=provider.region,
            opts=top,
        )
    volumes: Mapping[str, ClaimVolume] = {}
    if runs.claims:
        volumes = EksDisks(
            "disks", runs.claims, args=args, driver=scaler.disks, zones=eks.zones, opts=top
        ).volumes
    cluster = Cluster(
        name=args.name,
        platform="eks",
        provider=kubernetes.Provider(
            args.name,
            kubeconfig=eks.kubeconfig,
            context=args.name,
            # It depends on the cluster, so that replacing the cluster under its old name replaces
            # the provider and every object: the new cluster has none of them.
            cluster_identifier=eks.name.apply(lambda name: f"eks/{provider.region}/{name}"),
            # In an existing cluster, an object with one of this stack's names belongs to its owner.
            upsert_existing_objects=None if eks.control_plane else False,
            # The provider checks the cluster once, when it starts, and considers one that does not
            # answer, or does not accept anyone yet, unreachable from then on. An access entry and
            # the endpoint's name take seconds to work; the system nodes take minutes.
            # https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
            opts=pulumi.ResourceOptions(parent=runs.parent, depends_on=eks.reachable),
        ),
        kubeconfig=eks.kubeconfig,
        pools={name: pool.pool for name, pool in settings.pools.items()},
        ready=eks.ready,
        # Nodes with the user's own image have the kubelet of that image. Those that a controller in
        # the cluster starts have no version here; and Karpenter 1.15.0 starts one with GPUs to
        # claim also for a pod that requests them, waits forever for the resource, and never removes
        # the node.
        mapped=not any(
            pool.args.ami_id for pool in settings.pools.values() if pool.pool.device_class
        )
        and pulumi.Output.all(
            *(nodes.node_group.version for nodes in groups if nodes.pool.device_class)
        ).apply(names.maps_requests),
        granted=access.granted if access else {},
        buckets=settings.access.buckets,
        volumes=volumes,
        deleted_with=eks.control_plane,
        launches_nodes=scaler.in_cluster,
        parent=runs.parent,
    )
    launched: list[pulumi.Resource] = []
    if scaler.in_cluster:
        declare_pools = declare_auto_mode if scaler.serves_system else declare_karpenter
        launched += declare_pools(nodes, eks, cluster)
    _remember(settings, [eks, *groups, *launched], runs)
    if eks.control_plane or runs.claims:
        EksStorage(
            "storage",
            cluster=cluster,
            key=args.disks_encryption_key,
            default=eks.control_plane is not None,
            driver=scaler.disks,
            opts=cluster.component_options,
        )
    if efa:
        EfaDevicePlugin(
            "efa",
            cluster=cluster,
            pools=efa,
            existing=eks.control_plane is None,
            opts=cluster.component_options,
        )
    if args.autoscaler is not None and scaler.node_groups:
        ClusterAutoscaler(
            "cluster-autoscaler",
            _with_claims(args.autoscaler, args.version, settings),
            cluster=cluster,
            eks=eks,
            version=args.version,
            region=provider.region,
            orders=[
                pool.args.parts(name, args.scaler)
                for name, pool in settings.pools.items()
                if pool.args.fallback
            ],
            startup_taints=sorted(
                {
                    taint.key
                    for pool in settings.pools.values()
                    for taint in pool.args.startup_taints
                }
            ),
            opts=top,
        )
    # No object of the stack keeps a node once its pods are deleted, which is before its NodePool.
    return replace(cluster, ready=[*cluster.ready, *launched])


def _node_groups(
    settings: EksSettings, site: NodeGroupSite, opts: pulumi.ResourceOptions
) -> list[EksGpuNodeGroup]:
    site = replace(site, placement_groups=placement_groups(settings.pools, opts))
    return [
        EksGpuNodeGroup(group, choice, site, opts)
        for name, pool in settings.pools.items()
        for group, choice in zip(
            pool.args.parts(name, settings.cluster.scaler), pool.choices, strict=True
        )
    ]


def _remember(settings: EksSettings, after: Sequence[pulumi.Resource], runs: Runs) -> None:
    """Records the settings. Nodes of Karpenter and Auto Mode follow any change of their NodePool;
    only those of a NodePool that another `fallback` no longer has are deleted."""
    groups = SCALERS[settings.cluster.scaler].node_groups
    LastingSettings(
        settings.cluster,
        {name: pool.args for name, pool in settings.pools.items()},
        cluster=change_rules(type(settings.cluster)),
        pool=change_rules(EksGpuNodeGroupArgs) if groups else {"fallback": node_pools_kept},
        after=after,
        claims=runs.claims,
        opts=runs.component_options,
    )


def _with_claims(
    options: EksAutoscalerArgs, version: str, settings: EksSettings
) -> EksAutoscalerArgs:
    """The autoscaler's options with the flag that Kubernetes 1.34 needs for pods with claims; from
    1.35 on, it has only that value (config/flags/flags.go of 1.34.5 and 1.35.2)."""
    if version != "1.34" or not any(pool.pool.device_class for pool in settings.pools.values()):
        return options
    flags = {"enable-dynamic-resource-allocation": "true", **options.extra_flags}
    return replace(options, extra_flags=flags)
