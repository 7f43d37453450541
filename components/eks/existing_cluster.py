"""An existing EKS cluster as the stack's GPU pools need it."""

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_aws as aws

from ..access import data_source
from ..lifecycle import ownership
from ..scalers import SCALERS
from . import regions
from .cluster import EksCluster
from .cluster_roles import node_role
from .cpu_pool import EksCpuPool
from .existing_args import EksExistingClusterArgs, unfit
from .iam import EksRole, role_name
from .kubeconfig import kubeconfig
from .network_args import subnet_at
from .node_group import NodeGroupSite
from .provider_args import AwsProviderArgs
from .users import declare_users


class EksExistingCluster(pulumi.ComponentResource):
    """The resources that nodes need to join an existing EKS cluster, a role and an access entry
    for it, and the pools without GPUs. All are deleted with the stack."""

    control_plane: None = None
    """The cluster is not a resource of this stack."""
    name: pulumi.Output[str]
    """The cluster's name; an output that is known once the cluster has been found suitable."""
    subnets: Mapping[str, pulumi.Input[str]]
    zones: Mapping[str, pulumi.Input[str]]
    node_role: EksRole | None
    """The role of the stack's nodes; None if the cluster's owner provides it."""
    vpc: pulumi.Output[str] | None = None
    """The ID of its VPC; None if the cluster is not read."""
    security_groups: Sequence[pulumi.Input[str]]
    """The security groups of its nodes, by default the one that EKS created with the cluster; empty
    if that is not read."""
    before_nodes: list[pulumi.Resource]
    """Resources that must exist before a node starts, and must outlive it."""
    ready: Sequence[pulumi.Resource] = ()
    reachable: Sequence[pulumi.Resource] = ()
    kubeconfig: pulumi.Output[str]
    site: NodeGroupSite | None
    """What its node groups have in common, if they are the stack's."""

    def __init__(
        self,
        name: str,
        args: EksExistingClusterArgs,
        *,
        provider: AwsProviderArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:eks:ExistingCluster", name, None, opts)
        self.subnets = {place: subnet_at(place) for place in args.network.places}
        self.zones = {}
        self.security_groups = args.network.security_group_ids
        reached: pulumi.Output[tuple[str, str]]
        if args.endpoint is not None and args.certificate_authority is not None:
            reached = pulumi.Output.all(args.endpoint, args.certificate_authority).apply(tuple)
        else:
            existing = data_source.ask_data_source(
                aws.eks.get_cluster_output(
                    name=args.existing, opts=pulumi.InvokeOutputOptions(parent=self)
                ),
                "cluster.existing",
                f"give the name of an EKS cluster in {provider.region} that you may read",
            )
            reached = existing.apply(lambda cluster: _fitting(args, cluster, provider.region))
            self.vpc = existing.vpc_config.vpc_id
            if not self.security_groups:
                self.security_groups = [existing.vpc_config.cluster_security_group_id]
        self.name = reached.apply(lambda _: args.existing)
        self.kubeconfig = reached.apply(
            lambda known: kubeconfig(
                args.existing, provider, endpoint=known[0], ca_certificate=known[1]
            )
        )
        self.node_role, self.before_nodes = None, []
        if args.karpenter_node_role is None:
            self._role(name, args, provider)
        self.site = None
        if self.node_role is not None and SCALERS[args.scaler].node_groups:
            self.site = NodeGroupSite(
                args=args,
                cluster=self.name,
                control_plane=None,
                subnets=self.subnets,
                security_groups=self.security_groups,
                node_role=self.node_role.arn,
                depends_on=self.before_nodes,
            )
            for pool, cpu in args.cpu_pools.items():
                EksCpuPool(pool, cpu, self.site, pulumi.ResourceOptions(parent=self))
        declare_users(
            name,
            args.users,
            cluster_name=self.name,
            region=provider.region,
            # By which the stack's own are told from those of the cluster's owner.
            tags=ownership.aws_tags(),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})

    def _role(self, name: str, args: EksExistingClusterArgs, provider: AwsProviderArgs) -> None:
        child, auto = pulumi.ResourceOptions(parent=self), SCALERS[args.scaler].serves_system
        self.node_role = node_role(
            role_name(name, "gpu-nodes"), args, region=provider.region, opts=child
        )
        # EKS would create one with the first node group; this one is deleted with the stack.
        entry = aws.eks.AccessEntry(
            f"{name}-gpu-nodes",
            cluster_name=self.name,
            principal_arn=self.node_role.arn,
            type="EC2" if auto else "EC2_LINUX",
            opts=child,
        )
        self.before_nodes = [*self.node_role.grants, entry]
        if auto:
            self.before_nodes.append(
                aws.eks.AccessPolicyAssociation(
                    f"{name}-gpu-nodes",
                    cluster_name=self.name,
                    principal_arn=entry.principal_arn,
                    policy_arn=regions.access_policy(provider.region, "AmazonEKSAutoNodePolicy"),
                    access_scope={"type": "cluster"},
                    opts=child,
                )
            )


def _fitting(
    args: EksExistingClusterArgs, cluster: aws.eks.GetClusterResult, region: str
) -> tuple[str, str]:
    """Endpoint and certificate authority; raises RunError, even in a preview, if GPU pools cannot
    be added to the cluster."""
    mode = cluster.access_configs[0].authentication_mode
    family = cluster.kubernetes_network_configs[0].ip_family
    auto = any(compute.enabled for compute in cluster.compute_configs or ())
    if refused := unfit(args, region, cluster.status, cluster.version, mode, family, auto):
        raise pulumi.RunError(f"gpu-cluster:cluster.{refused}")
    return cluster.endpoint, cluster.certificate_authorities[0].data


AnyEksCluster = EksCluster | EksExistingCluster
