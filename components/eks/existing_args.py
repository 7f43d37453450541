"""The settings of an existing EKS cluster."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, ClassVar

from annotated_types import Len, MaxLen, MinLen

from ..access.service_accounts import KMS_ARN, policy_name
from ..catalog import eks as catalog
from ..scalers import SCALERS
from ..schema.effect import Sent
from ..schema.limits import BASE64, DNS_LABEL, UNIQUE, Example, Hint, matching
from ..schema.on_change import OnChange
from ..schema.outputs import MaybeOutput, keyed
from ..schema.refusal import Keys, Refusal, Refusals, collected, raised, refuse, spelled
from ..schema.rules import Checked, never, rule
from .autoscaler_args import EksAutoscalerArgs
from .cluster_args import (
    NAME,
    SSM,
    TAG_KEY,
    TAG_VALUE,
    VERSION,
    EksClusterArgs,
    NodePolicies,
    check_keys,
    check_options,
    check_partition,
    check_support,
    supported,
)
from .cpu_pool_args import CpuPools, check_pools, replaced
from .karpenter_args import EksKarpenterArgs, Scaler, check_tags
from .network_args import SubnetId, places_of
from .node_args import SecurityGroupId
from .user_args import EksUserArgs, check_principals, principals

_ENDPOINT = matching(
    "the URL of a control plane such as https://0123ABCD.gr7.us-east-1.eks.amazonaws.com",
    re.compile(r"https://[A-Za-z0-9.-]+(?::[0-9]{1,5})?"),
)
_ROLE_NAME = matching(
    "the name of an IAM role",
    re.compile(r"[\w+=,.@-]{1,64}"),
    hint=lambda value: (
        f"give the name, without {value.rpartition('/')[0]}/" if value.startswith("arn:") else None
    ),
)
_OWN_ROLE = never(karpenter_node_role=True)(
    "is for a role that the stack creates, and the nodes have {karpenter_node_role}; ask its owner "
    "to attach the policy, and drop it"
)
_TAG_POLICY = "https://docs.aws.amazon.com/eks/latest/userguide/auto-learn-iam.html#tag-prop"


@dataclass(frozen=True, slots=True, kw_only=True)
class EksExistingNetworkArgs(Checked):
    """The network in which the stack's nodes are started."""

    subnet_ids: Annotated[
        Sequence[SubnetId],
        MinLen(1),
        Hint("name the private subnets in which GPU nodes start"),
        UNIQUE,
        OnChange("node pools"),
        Sent("NodeGroup subnetIds"),
        Example("[subnet-0123456789abcdef0]"),
    ]
    """Private subnets of the cluster's VPC with access to the internet; a pool can use some."""
    security_group_ids: Annotated[
        Sequence[SecurityGroupId],
        Len(0, catalog.MAX_SECURITY_GROUPS),
        UNIQUE,
        Sent("LaunchTemplate vpcSecurityGroupIds[]"),
    ] = ()
    """The security groups of the stack's nodes; by default, the one that EKS created with the
    cluster. If the other nodes have their own group, as with terraform-aws-eks, name that one:
    otherwise pods do not reach the cluster's DNS. A change recycles the nodes of every pool."""
    cni_policy: Annotated[bool, Sent("RolePolicyAttachment")] = True
    """Whether the nodes' role has `AmazonEKS_CNI_Policy`: needed unless the addon vpc-cni
    has its own role; `gpu-cluster capacity` shows whether it has."""

    zones: ClassVar[Sequence[str]] = ()
    """Always empty: nodes are placed by subnet."""

    @property
    def places(self) -> tuple[str, ...]:
        """The subnets in which nodes can be."""
        return places_of("cluster.network.subnetIds", self.subnet_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class EksExistingClusterArgs(Checked):
    """An existing EKS cluster: the stack creates, changes and deletes nothing of the cluster
    itself, its addons or its other node groups."""

    existing: Annotated[str, NAME, OnChange("node pools"), Sent("NodeGroup clusterName")]
    """The name of the cluster in EKS."""
    version: Annotated[str, VERSION, Sent("NodeGroup version"), Example('"1.35"')]
    """The cluster's Kubernetes minor version, which the stack's nodes get. After the cluster has
    been upgraded, raise it, and the nodes follow."""
    network: Annotated[EksExistingNetworkArgs, Example("{subnetIds: [subnet-0123456789abcdef0]}")]
    """The subnets and security groups of the stack's nodes."""
    cpu_pools: Annotated[CpuPools, OnChange(replaced)] = field(default_factory=dict)
    """Pools without GPUs, by name: for data loading, Ray heads or gateways. Your own pods select
    one by the label `gpu-cluster/pool`; those of the stack run in GPU pools."""
    node_policies: Annotated[NodePolicies, _OWN_ROLE] = ()
    """ARNs of additional IAM policies for the nodes of the stack's pools, for what the machine
    itself does: pods get theirs through `serviceAccounts`."""
    ssm: Annotated[SSM, _OWN_ROLE] = False
    """Whether AWS Systems Manager can access the nodes of the stack's pools
    (`AmazonSSMManagedInstanceCore`): a shell on a node without a key or an open port, for every
    identity that IAM allows to start a session."""
    users: Mapping[Annotated[str, DNS_LABEL], EksUserArgs] = field(default_factory=dict)
    """IAM roles and users to which the stack gives access to the cluster: Kubernetes group -> its
    members. EKS has one access entry for each: those that have one must ask the cluster's owner."""
    endpoint: Annotated[Annotated[MaybeOutput, _ENDPOINT] | None, Sent("Provider kubeconfig")] = (
        None
    )
    """The URL of the control plane; if omitted together with `certificateAuthority`, every preview
    looks up both in AWS by the cluster's name, and refuses a cluster that is not suitable."""
    certificate_authority: Annotated[
        Annotated[MaybeOutput, BASE64] | None, Sent("Provider kubeconfig")
    ] = None
    """The certificate authority of the control plane in base64, as `aws eks describe-cluster` shows
    it in `certificateAuthority.data`."""
    scaler: Annotated[Scaler, OnChange("node pools"), Sent("NodeGroup", "NodePool")] = (
        "cluster-autoscaler"
    )
    """What starts and removes the nodes of GPU pools: `cluster-autoscaler` in node groups;
    `karpenter` with NodePools, for which it uses whatever type, zone and capacity EC2 has; or
    `auto-mode`, Karpenter as a service of EKS. The reference lists the pool settings of each."""
    karpenter: Annotated[EksKarpenterArgs | None, Sent("Deployment")] = None
    """If set with scaler `karpenter`, even without options (`{}`), the stack installs Karpenter; by
    default, the NodePools are for the cluster's existing Karpenter."""
    karpenter_node_role: Annotated[
        Annotated[MaybeOutput, _ROLE_NAME] | None, Sent("EC2NodeClass spec.role")
    ] = None
    """The name of the IAM role that the cluster's existing Karpenter may give to nodes, and that
    has access to the cluster."""
    autoscaler: Annotated[
        EksAutoscalerArgs | None, Sent("PodSpec containers[].args[]", "Deployment")
    ] = None
    """If set, even without options (`{}`), the stack installs Cluster Autoscaler; by default, the
    cluster's existing autoscaler scales the pools, which it finds by the tags that EKS sets."""
    disks_encryption_key: Annotated[
        Annotated[MaybeOutput, KMS_ARN] | None,
        Sent("LaunchTemplate blockDeviceMappings[].ebs.kmsKeyId"),
    ] = None
    """The ARN of a KMS key that encrypts the disks of nodes and of claims; by default, the
    account's default key for EBS. The key's policy must allow the identity that starts the nodes to
    use it: `AWSServiceRoleForAutoScaling`, with scaler `auto-mode` the cluster's role, with
    `karpenter` the role of Karpenter's controller. A change recycles the nodes of every pool."""
    tags: Annotated[
        Mapping[Annotated[str, TAG_KEY], Annotated[str, TAG_VALUE]],
        MaxLen(catalog.MAX_TAGS),
        Sent("LaunchTemplate tagSpecifications[].tags"),
    ] = field(default_factory=dict)
    """Tags of the pools' instances and volumes, for billing. A change recycles their nodes."""

    service_cidr: ClassVar[str] = ""
    """Always empty: only custom images need it, and these are refused here."""
    system_pool: ClassVar[None] = None
    system_nodes: ClassVar[None] = None
    """Always None: the nodes on which the cluster's own pods run do not belong to the stack."""
    admins: ClassVar[Sequence[str]] = ()
    """Always empty: the cluster's owner decides who administers it."""

    def possible(self, key: str) -> Sequence[str] | None:
        return supported(date.today(), self.autoscaler) if key == "version" else None

    @rule
    def _check_parts(self) -> Iterator[Refusal]:
        yield from raised(lambda: check_principals(self.users))
        yield from raised(lambda: check_tags(self.tags, self.scaler))
        check_pools(self.cpu_pools, self.network.places, self.scaler, self.tags)

    @rule
    def _check_endpoint(self) -> None:
        if (self.endpoint is None) != (self.certificate_authority is None):
            raise refuse("endpoint" if self.endpoint is None else "certificateAuthority")(
                "endpoint and certificateAuthority belong together",
                remedy="give both, or drop both to have them read from the cluster",
            )

    @rule
    def _check_options(self) -> None:
        given = {key: getattr(self, key) is not None for key in ("autoscaler", "karpenter")}
        check_options(self.scaler, **given)

    @rule
    def _check_groups(self) -> None:
        unread = self.endpoint is not None and not self.network.security_group_ids
        if SCALERS[self.scaler].in_cluster and unread:
            raise refuse(("network", "securityGroupIds"))(
                f"{self.scaler} names the security groups of its nodes",
                remedy="name them, or drop endpoint to have the cluster's own security group read",
            )

    @rule
    def _check_node_role(self) -> None:
        others = SCALERS[self.scaler].launches and self.karpenter is None
        if others != (self.karpenter_node_role is not None):
            raise refuse("karpenterNodeRole")(
                "is missing, and scaler karpenter without the key karpenter uses the cluster's own "
                "Karpenter; name the role of that Karpenter's nodes, or set karpenter: {} to "
                "install one"
                if others
                else "is only for a Karpenter that the cluster already has; drop it"
            )

    @rule
    def _check_cni(self) -> Iterator[Refusal]:
        key, without = "network.cniPolicy", not self.network.cni_policy
        if without and SCALERS[self.scaler].serves_system:
            yield refuse(key)(
                "has no effect with scaler auto-mode, whose nodes need no policy for the addresses "
                "of pods; drop the key"
            )
        if without and (role := self.karpenter_node_role) is not None:
            yield refuse(key)(_OWN_ROLE.reason.format(karpenter_node_role=spelled(role)))

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self.existing

    def warnings(self, today: date) -> list[str]:
        """Warnings about settings that need a permission only the cluster's owner can grant; the
        cluster's support period is the owner's concern."""
        if not SCALERS[self.scaler].serves_system or not self.tags:
            return []
        return [
            f"tags: the role of {self.name} needs the policy of {_TAG_POLICY}, without which Auto "
            "Mode starts no node with tags; ask its owner whether it has it, or drop the key"
        ]

    def check_in(self, region: str) -> None:
        """Raises `Refusal` if the settings name something in another region."""
        refusals = Refusals()
        refusals.run(
            lambda: check_keys({"disksEncryptionKey": self.disks_encryption_key}, region),
            lambda: check_partition(principals(self.users), region),
        )
        refusals.check()

    def check_support(self, today: date) -> None:
        """Raises `Refusal` if EKS no longer supports the version."""
        check_support(self.version, today, self.autoscaler)


AnyEksClusterArgs = EksClusterArgs | EksExistingClusterArgs


def controller(args: AnyEksClusterArgs) -> EksAutoscalerArgs | EksKarpenterArgs | None:
    """The options of the scaler that the stack runs; None if AWS or the cluster's owner does."""
    options = {"autoscaler": args.autoscaler, "karpenter": args.karpenter}
    return options.get(SCALERS[args.scaler].options)


_NODE_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
"""Policies for joining the cluster and pulling images; the CNI has its own permissions."""
_AUTO_NODE_POLICIES = ("AmazonEKSWorkerNodeMinimalPolicy", "AmazonEC2ContainerRegistryPullOnly")
"""Policies of Auto Mode's nodes; AWS runs the parts that need more permissions outside them."""
_POLICIES, _MOST_POLICIES = 10, 25
"""Managed policies of a role: by default, and the most that AWS raises the quota to
(IAM/latest/UserGuide/reference_iam-quotas.html, in several public copies, read 2026-11-28)."""
_CNI_POLICY = "AmazonEKS_CNI_Policy"
"""Policy of the nodes, only if the CNI has no role of its own, which is terraform-aws-eks's default
(modules/eks-managed-node-group/main.tf, bef29c4)."""


def own_policies(args: AnyEksClusterArgs) -> list[str]:
    """Names of the AWS managed policies that the stack attaches to the role of the nodes."""
    if SCALERS[args.scaler].serves_system:
        return [*_AUTO_NODE_POLICIES]
    cni = isinstance(args, EksExistingClusterArgs) and args.network.cni_policy
    ssm = ["AmazonSSMManagedInstanceCore"] if args.ssm else []
    return [*_NODE_POLICIES, *([_CNI_POLICY] if cni else []), *ssm]


@collected
def check_policies(args: AnyEksClusterArgs, region: str) -> Iterator[Refusal]:
    """Raises `Refusal` for a policy of the nodes that is in another partition than the region, or
    has the name of another one, from which the name of its attachment is derived."""
    names = own_policies(args)
    arns: dict[Keys, MaybeOutput] = {
        ("nodePolicies", key): arn for key, arn in keyed(args.node_policies)
    }
    yield from raised(check_partition, arns.items(), region)
    for path, arn in arns.items():
        names.append(policy_name(path[-1], arn))
        if names[-1] in names[:-1]:
            yield refuse(path, arn)(
                "has the name of another policy that the stack attaches to the nodes' role",
                remedy="drop it, or create your own policy again under another name",
            )
    if len(names) > _MOST_POLICIES:
        raise refuse("nodePolicies")(
            f"are {len(names)} policies with those of this stack; allowed: {_MOST_POLICIES}",
            remedy="combine several in one of your own",
        )


def policy_warnings(args: AnyEksClusterArgs) -> Iterator[str]:
    """A line if the role of the nodes has more policies than AWS allows by default."""
    number = len(own_policies(args)) + len(args.node_policies)
    if args.node_policies and number > _POLICIES:
        yield (
            f"cluster.nodePolicies: the role of the nodes has {number} policies, including this "
            f"stack's, and a role at most {_POLICIES} unless AWS has raised the quota L-0DA4ABF3; "
            "ask for it, or combine several in one of your own"
        )


def unfit(
    args: EksExistingClusterArgs, region: str, status: str, version: str, mode: str,
    ip_family: str, auto_mode: bool,
) -> Refusal | None:  # fmt: skip
    """Why GPU pools cannot be added to a cluster of the region with these properties, as EKS
    reports them; None if they can."""
    name = args.existing
    if status not in ("ACTIVE", "UPDATING"):
        reason = f"{name} is {status} in EKS; wait until it is ACTIVE, or name another"
        return refuse("existing")(reason)
    if version != args.version:
        return refuse("version")(
            f"{args.version!r} is not the version of {name}, which runs Kubernetes "
            f'{version}; set it to "{version}"'
        )
    if mode == "CONFIG_MAP":
        return refuse("existing")(
            f"{name} has authentication mode CONFIG_MAP and accepts no access entry for the GPU "
            f"nodes; ask its owner to run aws eks update-cluster-config --name {name} --region "
            f"{region} --access-config authenticationMode=API_AND_CONFIG_MAP, which keeps aws-auth"
        )
    if SCALERS[args.scaler].serves_system and not auto_mode:
        return refuse("scaler")(
            f"{name} does not have Auto Mode on; ask its owner to turn it on, or set "
            "cluster-autoscaler or karpenter"
        )
    if ip_family == "ipv6" and args.network.cni_policy:
        # https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html
        return refuse("network.cniPolicy")(
            f"{name} has pods with IPv6 addresses, for which AWS has no policy; "
            "set it to false, and have its owner give the addon vpc-cni its own role"
        )
    return None
