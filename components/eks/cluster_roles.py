"""The IAM roles that an EKS cluster needs before it exists: its own, its nodes' and its addons'."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from ..catalog.eks_addons import Addon
from ..scalers import SCALERS
from ..schema.outputs import applied
from .cluster_args import EksClusterArgs
from .existing_args import AnyEksClusterArgs, own_policies
from .iam import EksRole, Statement, document, pod_trust, role_name, service_trust

AUTO_MODE_POLICIES = (
    "AmazonEKSComputePolicy", "AmazonEKSBlockStoragePolicyV2", "AmazonEKSLoadBalancingPolicy",
    "AmazonEKSNetworkingPolicy",
)  # fmt: skip
"""Further policies of the cluster, with which EKS launches nodes and what they need. V2's
predecessor allows snapshots of every volume of the account (both read 2026-11-28)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRoles:
    """All roles of a cluster, with their permissions."""

    cluster: EksRole
    nodes: EksRole
    addons: Mapping[str, EksRole]
    """Name of an addon -> the role of its service account."""


def cluster_roles(
    name: str,
    args: EksClusterArgs,
    addons: Sequence[Addon],
    *,
    region: str,
    secrets_key: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> ClusterRoles:
    """Declares the roles. `secrets_key`: the ARN of the key that encrypts Kubernetes secrets."""
    auto = SCALERS[args.scaler].serves_system
    return ClusterRoles(
        cluster=EksRole(
            role_name(name, "cluster"),
            region=region,
            # EKS tags the sessions of Auto Mode with the cluster's name.
            trust=service_trust("eks.amazonaws.com", "sts:TagSession")
            if auto
            else service_trust("eks.amazonaws.com"),
            managed=["AmazonEKSClusterPolicy", *(AUTO_MODE_POLICIES if auto else [])],
            inline=pulumi.Output.all(secrets_key, args.disks_encryption_key).apply(
                lambda keys: document(
                    _use_of_key(keys[0]), *(_auto_mode(args, keys[1]) if auto else ())
                )
            ),
            opts=opts,
        ),
        nodes=node_role(role_name(name, "nodes"), args, region=region, opts=opts),
        addons={
            addon.name: EksRole(
                role_name(name, addon.name),
                region=region,
                trust=pod_trust(
                    args.name, namespace="kube-system", service_account=addon.service_account
                ),
                managed=[addon.policy],
                inline=applied(
                    lambda key: document(*_use_of_disks_key(key)), args.disks_encryption_key
                )
                if addon.disks and args.disks_encryption_key
                else None,
                opts=opts,
            )
            for addon in addons
            if addon.policy is not None and addon.service_account is not None
        },
    )


def node_role(
    name: str, args: AnyEksClusterArgs, *, region: str, opts: pulumi.ResourceOptions
) -> EksRole:
    """The role of the stack's nodes."""
    return EksRole(
        name,
        region=region,
        trust=service_trust("ec2.amazonaws.com"),
        managed=own_policies(args),
        policies=args.node_policies,
        opts=opts,
    )


def grants_of(addon: Addon, roles: Mapping[str, EksRole]) -> Sequence[pulumi.Resource]:
    """Resources that must exist before the addon uses its role; empty if it has none."""
    role = roles.get(addon.name)
    return role.grants if role else ()


def _use_of_key(arn: str) -> Statement:
    return {
        "Effect": "Allow",
        "Action": ["kms:Encrypt", "kms:Decrypt", "kms:ListGrants", "kms:DescribeKey"],
        "Resource": arn,
    }


def _auto_mode(args: EksClusterArgs, disks_key: str | None) -> Sequence[Statement]:
    """Permissions that AWS's policies lack: setting the user's tags on what Auto Mode launches, and
    using the key of its disks.
    https://docs.aws.amazon.com/eks/latest/userguide/auto-learn-iam.html#tag-prop"""
    own = {"aws:RequestTag/eks:eks-cluster-name": "${aws:PrincipalTag/eks:eks-cluster-name}"}
    named = {
        "aws:RequestTag/eks:kubernetes-node-class-name": "*",
        "aws:RequestTag/eks:kubernetes-node-pool-name": "*",
    }
    tagging: Sequence[Statement] = [
        {
            "Effect": "Allow",
            "Action": ["ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateLaunchTemplate"],
            "Resource": "*",
            "Condition": {"StringEquals": own, "StringLike": named},
        },
        {
            "Effect": "Allow",
            "Action": "ec2:CreateNetworkInterface",
            "Resource": "*",
            "Condition": {
                "StringEquals": own,
                "StringLike": {"aws:RequestTag/eks:kubernetes-cni-node-name": "*"},
            },
        },
    ]
    return [
        *(tagging if args.tags else ()),
        *(_use_of_disks_key(disks_key) if disks_key else ()),
    ]


def _use_of_disks_key(arn: str) -> Sequence[Statement]:
    """https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html, "encryption"."""
    return (
        {
            "Effect": "Allow",
            "Action": ["kms:CreateGrant", "kms:ListGrants", "kms:RevokeGrant"],
            "Resource": arn,
            "Condition": {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        },
        {
            "Effect": "Allow",
            "Action": [
                "kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*",
                "kms:DescribeKey",
            ],
            "Resource": arn,
        },
    )  # fmt: skip
