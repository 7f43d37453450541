"""EKS, from settings to the waist."""

from collections.abc import Mapping

import pulumi
import pulumi_kubernetes as kubernetes

from ..cluster import ClaimVolume, Cluster, Runs
from ..on_change import change_rules
from ..replacement import LastingSettings
from .autoscaler import ClusterAutoscaler
from .cluster import EksCluster
from .cluster_args import EksClusterArgs
from .node_group import EksGpuNodeGroup
from .pod_access import EksPodAccess
from .pool_args import EksGpuNodeGroupArgs
from .settings import EksSettings
from .storage import EksDisks, EksStorage


def declare(settings: EksSettings, runs: Runs) -> Cluster:
    """Declares an EKS cluster with its GPU node groups, their autoscaler, and rights for what
    `runs` there."""
    args, provider, top = settings.cluster, settings.provider, runs.component_options
    mounts = any(account.buckets for account in runs.accounts.values())
    eks = EksCluster(args.name, args, provider=provider, buckets=mounts, opts=top)
    gpu_pools = [
        EksGpuNodeGroup(
            name,
            pool,
            cluster=eks.cluster,
            version=args.version,
            service_cidr=args.service_cidr,
            subnets=[eks.network.private_subnets[place] for place in pool.places],
            node_role=eks.node_role.arn,
            tags=args.tags,
            key=args.disks_encryption_key,
            depends_on=eks.before_nodes,
            opts=top,
        )
        for name, pool in settings.pools.items()
    ]
    pools = {name: pool.args for name, pool in settings.pools.items()}
    LastingSettings(
        args,
        pools,
        cluster=change_rules(EksClusterArgs),
        pool=change_rules(EksGpuNodeGroupArgs),
        after=[eks, *gpu_pools],
        claims=runs.claims,
        opts=top,
    )
    access = None
    if runs.accounts:
        access = EksPodAccess(
            "pod-access",
            runs.accounts,
            cluster=eks.cluster,
            cluster_name=args.name,
            region=provider.region,
            opts=top,
        )
    volumes: Mapping[str, ClaimVolume] = {}
    if runs.claims:
        volumes = EksDisks(
            "disks", runs.claims, args=args, zones=eks.network.zones, opts=top
        ).volumes
    cluster = Cluster(
        name=args.name,
        platform="eks",
        provider=kubernetes.Provider(
            args.name,
            kubeconfig=eks.kubeconfig,
            context=args.name,
            # It depends on the cluster, so that one that is replaced under its old name replaces
            # the provider and with it every object: the new cluster has none of them.
            cluster_identifier=eks.cluster.name.apply(lambda name: f"eks/{provider.region}/{name}"),
            # It looks at the cluster once, when it starts, and takes one that does not answer, or
            # knows nobody yet, for unreachable until it ends. An access entry takes seconds to
            # work, and so does the endpoint's name; the system nodes take minutes.
            # https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
            opts=pulumi.ResourceOptions(parent=runs.parent, depends_on=eks.ready),
        ),
        kubeconfig=eks.kubeconfig,
        pools={gpu_pool.pool.name: gpu_pool.pool for gpu_pool in gpu_pools},
        ready=eks.ready,
        granted=access.granted if access else {},
        buckets=settings.access.buckets,
        volumes=volumes,
        deleted_with=eks.cluster,
        parent=runs.parent,
    )
    EksStorage("storage", cluster=cluster, key=args.disks_encryption_key, opts=top)
    ClusterAutoscaler(
        "cluster-autoscaler",
        args,
        cluster=cluster,
        control_plane=eks.cluster,
        region=provider.region,
        startup_taints=sorted(
            {taint.key for pool in pools.values() for taint in pool.startup_taints}
        ),
        opts=top,
    )
    return cluster
