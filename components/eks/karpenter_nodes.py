"""Declares Karpenter and the NodePools of an EKS cluster from its settings."""

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from ..cluster import Cluster
from ..lifecycle import ownership
from . import auto_nodes
from .cluster_args import EksClusterArgs
from .ec2_node_class import Site, cpu_nodes, gpu_nodes, system_nodes
from .existing_cluster import AnyEksCluster
from .karpenter import CLAIMS, Karpenter
from .karpenter_pool import EksKarpenterPool, Nodes
from .placement_group import placement_groups
from .settings import EksSettings


def declare_karpenter(
    settings: EksSettings, eks: AnyEksCluster, cluster: Cluster
) -> list[pulumi.Resource]:
    """Declares Karpenter, unless the cluster has an existing one, and the pools."""
    args, opts = settings.cluster, pulumi.ResourceOptions(parent=cluster.parent)
    before: list[pulumi.Resource] = list(eks.before_nodes)
    profile: aws.iam.InstanceProfile | None = None
    if eks.node_role is not None:
        profile = aws.iam.InstanceProfile(
            f"{args.name}-karpenter-nodes",
            role=eks.node_role.name,
            tags=ownership.aws_tags(),
            opts=pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(depends_on=eks.node_role.grants)
            ),
        )
        before.append(profile)
    if args.karpenter is not None and eks.node_role is not None:
        karpenter = Karpenter(
            "karpenter",
            args.karpenter,
            cluster=cluster,
            eks=eks,
            region=settings.region,
            key=args.disks_encryption_key,
            replicas=min(args.system_pool.min_nodes, 2) if args.system_pool else 2,
            gates=gates(settings, repair=args.karpenter.node_repair),
            opts=opts,
        )
        before += karpenter.ready
    site = Site(
        subnets=eks.subnets,
        security_groups=eks.security_groups,
        instance_profile=profile.name if profile else None,
        placement_groups=placement_groups(settings.pools, opts),
        role=getattr(args, "karpenter_node_role", None),
        tags=args.tags,
        key=args.disks_encryption_key,
    )

    def declared(nodes: Nodes) -> EksKarpenterPool:
        return EksKarpenterPool(
            nodes.name, nodes, cluster=cluster, depends_on=before, opts=cluster.component_options
        )

    others: list[Nodes | None] = []
    places = args.network.places
    if isinstance(args, EksClusterArgs):
        others.append(system_nodes(args.system_pool, places, site))
    others += [
        cpu_nodes(name, cpu, cpu.places(name) or places, site)
        for name, cpu in args.cpu_pools.items()
    ]
    gpus = [gpu_nodes(pool, site) for pool in settings.pools.values()]
    return [declared(nodes) for nodes in [*gpus, *others] if nodes is not None]


def declare_auto_mode(
    settings: EksSettings, eks: AnyEksCluster, cluster: Cluster
) -> list[pulumi.Resource]:
    """Declares the pools of a cluster whose nodes EKS Auto Mode launches."""
    args = settings.cluster
    assert eks.node_role is not None
    site = Site(
        subnets=eks.subnets,
        security_groups=eks.security_groups,
        instance_profile=None,
        role=eks.node_role.name,
        tags=args.tags,
        key=args.disks_encryption_key,
    )
    nodes = [auto_nodes.gpu_nodes(pool, site) for pool in settings.pools.values()]
    nodes += [
        auto_nodes.cpu_nodes(name, cpu, cpu.places(name) or args.network.places, site)
        for name, cpu in args.cpu_pools.items()
    ]
    pools: list[pulumi.Resource] = [
        EksKarpenterPool(
            node.name,
            node,
            cluster=cluster,
            depends_on=eks.before_nodes,
            opts=cluster.component_options,
        )
        for node in nodes
    ]
    if eks.control_plane is not None:
        # Without it, NetworkPolicies are accepted and not enforced; in an existing cluster, it
        # belongs to the owner. docs.aws.amazon.com/eks/latest/userguide/auto-net-pol.html
        pools.append(
            kubernetes.core.v1.ConfigMap(
                "network-policies",
                metadata={"name": "amazon-vpc-cni", "namespace": "kube-system"},
                data={"enable-network-policy-controller": "true"},
                opts=cluster.options(eks),
            )
        )
    return pools


def gates(settings: EksSettings, *, repair: bool) -> list[str]:
    """Feature gates of Karpenter that are off by default and that the pools need."""
    pools, cpu_pools = settings.pools.values(), settings.cluster.cpu_pools.values()
    needed = {
        "NodeOverlay": any(pool.pool.sharing for pool in pools),
        "NodeRepair": repair,
        # Otherwise, a faulty node in a full reservation stays (pkg/controllers/disruption/repair.go
        # of sigs.k8s.io/karpenter 1.15.0).
        "TerminateFirstRepair": repair,
        "StaticCapacity": any(pool.args.min_nodes for pool in pools)
        or any(pool.min_nodes for pool in cpu_pools),
        CLAIMS: any(pool.pool.device_class for pool in pools),
    }
    return [gate for gate, on in needed.items() if on]
