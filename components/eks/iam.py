"""IAM roles of an EKS cluster: who may assume each, with the least permissions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from ..access.service_accounts import policy_name
from ..lifecycle import ownership
from ..schema.outputs import MaybeOutput, Named, keyed
from . import regions

Statement = Mapping[str, Any]


class EksRole(pulumi.ComponentResource):
    """A role with its policies."""

    arn: pulumi.Output[str]
    name: pulumi.Output[str]
    grants: list[pulumi.Resource]
    """Resources that must exist before the role is used, and must outlive its use: without them, a
    node group cannot delete its network interfaces."""

    def __init__(
        self,
        name: str,
        *,
        region: str,
        trust: Statement,
        managed: Sequence[str] = (),
        policies: Named[MaybeOutput] = (),
        inline: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`managed`: names of AWS managed policies, after their path, such as
        `AmazonEBSCSIDriverPolicyV2`; `policies`: ARNs; `inline`: a policy document."""
        super().__init__("gpu-cluster:eks:Role", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        role = aws.iam.Role(
            name, assume_role_policy=document(trust), tags=ownership.aws_tags(), opts=child
        )
        self.arn, self.name = role.arn, role.name
        arns: list[tuple[str | int, MaybeOutput]]
        arns = [(0, regions.managed_policy(region, policy)) for policy in managed]
        self.grants = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy_name(key, arn)}", role=role.name, policy_arn=arn, opts=child
            )
            for key, arn in [*arns, *keyed(policies)]
        ]
        if inline is not None:
            self.grants.append(aws.iam.RolePolicy(name, role=role.name, policy=inline, opts=child))
        self.register_outputs({})


def role_name(cluster: str, use: str) -> str:
    """A role's name in this stack; with the automatic suffix, IAM allows 64 characters."""
    return f"{cluster[: 55 - len(use)]}-{use}"


def document(*statements: Statement) -> str:
    """A policy document with these statements."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def service_trust(service: str, *more: str) -> Statement:
    """Lets an AWS service, such as `eks.amazonaws.com`, assume the role; `more`: actions."""
    return {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": ["sts:AssumeRole", *more] if more else "sts:AssumeRole",
    }


def pod_trust(cluster: str, *, namespace: str, service_account: str) -> Statement:
    """Lets the pods of one service account of one cluster assume the role through Pod Identity.

    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
    """
    return {
        **service_trust("pods.eks.amazonaws.com", "sts:TagSession"),
        "Condition": {
            "StringEquals": {
                "aws:RequestTag/eks-cluster-name": cluster,
                "aws:RequestTag/kubernetes-namespace": namespace,
                "aws:RequestTag/kubernetes-service-account": service_account,
            }
        },
    }
