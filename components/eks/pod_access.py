"""AWS permissions for pods through EKS Pod Identity, with a role for each service account."""

from collections.abc import Mapping, Sequence
from functools import partial

import pulumi
import pulumi_aws as aws

from ..access.service_accounts import ServiceAccountArgs
from ..schema.outputs import applied
from . import regions
from .effective import once_effective
from .iam import EksRole, Statement, document, pod_trust, role_name

READ = ("s3:GetObject",)
WRITE = ("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject")
"""Actions on objects: https://github.com/awslabs/mountpoint-s3/blob/main/doc/CONFIGURATION.md, IAM
permissions (read 2026-11-22)."""


class EksPodAccess(pulumi.ComponentResource):
    """The IAM roles of the stack's service accounts."""

    granted: Mapping[str, Sequence[pulumi.Resource]]

    def __init__(
        self,
        name: str,
        accounts: Mapping[str, ServiceAccountArgs],
        *,
        cluster_name: str,
        known_as: pulumi.Input[str],
        control_plane: aws.eks.Cluster | None,
        region: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`known_as`: the cluster's name once it exists. `control_plane`: None if existing."""
        super().__init__("gpu-cluster:eks:PodAccess", name, None, opts)
        granted: dict[str, Sequence[pulumi.Resource]] = {}
        effective = once_effective(f"{name}-effective")
        for account, args in accounts.items():
            role = EksRole(
                role_name(cluster_name, f"pods-{account}"),
                region=region,
                trust=pod_trust(cluster_name, namespace=args.namespace, service_account=account),
                policies=args.policies,
                inline=applied(partial(bucket_policy, args, region), *args.bucket_keys)
                if args.buckets
                else None,
                opts=pulumi.ResourceOptions(parent=self),
            )
            identity = aws.eks.PodIdentityAssociation(
                f"pods-{account}",
                cluster_name=known_as,
                namespace=args.namespace,
                service_account=account,
                role_arn=role.arn,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    depends_on=role.grants,
                    deleted_with=control_plane,
                    # Needed in an update that adds the account with its job, because nothing else
                    # takes time.
                    hooks=effective,
                ),
            )
            granted[account] = [identity, *role.grants]
        self.granted = granted
        self.register_outputs({})


def bucket_policy(account: ServiceAccountArgs, region: str, *keys: str) -> str:
    """The permissions that Mountpoint needs, restricted to these buckets and their keys."""
    buckets = account.buckets
    start = f"arn:{regions.partition(region)}:s3:::"
    statements: list[Statement] = [
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": [f"{start}{bucket}" for bucket in buckets],
        }
    ]
    for right, actions in (("read", READ), ("write", WRITE)):
        named = [f"{start}{bucket}/*" for bucket, given in buckets.items() if given == right]
        if named:
            statements.append({"Effect": "Allow", "Action": list(actions), "Resource": named})
    if keys:
        used = ["kms:Decrypt", *(["kms:GenerateDataKey"] if "write" in buckets.values() else [])]
        statements.append({"Effect": "Allow", "Action": used, "Resource": list(keys)})
    return document(*statements)
