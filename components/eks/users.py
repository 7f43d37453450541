"""Gives people access to an EKS cluster, without administration rights."""

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from . import regions
from .user_args import EksUserArgs, entries


def declare_users(
    name: str,
    users: Mapping[str, EksUserArgs],
    *,
    cluster_name: pulumi.Input[str],
    region: str,
    tags: Mapping[str, str] | None = None,
    opts: pulumi.ResourceOptions,
) -> None:
    """An access entry for each principal, and what EKS itself allows its groups. `tags`: those of
    the entries."""
    for arn, user in entries(users).items():
        entry = aws.eks.AccessEntry(
            f"{name}-{user.name}",
            cluster_name=cluster_name,
            principal_arn=arn,
            # Never empty: the provider does not remove the groups of an entry that no longer has
            # any.
            kubernetes_groups=user.groups,
            tags=tags,
            opts=opts,
        )
        for policy, namespaces in user.policies.items():
            aws.eks.AccessPolicyAssociation(
                f"{name}-{user.name}-{policy}",
                cluster_name=cluster_name,
                principal_arn=entry.principal_arn,
                policy_arn=regions.access_policy(region, policy),
                access_scope={"type": "namespace", "namespaces": namespaces}
                if namespaces
                else {"type": "cluster"},
                # A new scope replaces it under the same ID: the old one must be deleted first.
                opts=pulumi.ResourceOptions.merge(
                    opts, pulumi.ResourceOptions(delete_before_replace=True)
                ),
            )
