"""EKS: every IAM policy of the stack allows the least that will do."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.components.eks_stack import declare
from tests.components.recording import Recording

# Actions that know no resources (AWS service authorization reference): `*` is all they take.
WITHOUT_RESOURCES = {
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeAutoScalingInstances",
    "autoscaling:DescribeLaunchConfigurations",
    "autoscaling:DescribeScalingActivities",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplateVersions",
    "ec2:GetInstanceTypesFromInstanceRequirements",
}


@pytest.fixture(scope="module")
def stack() -> Recording:
    return declare()


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def statements(stack: Recording) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every statement of every policy document that any resource of the stack holds."""
    for resource in stack.resources:
        yield from _in(f"{resource.type} {resource.name}", resource.inputs)


def _in(where: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, str) and '"Statement"' in value:
        for statement in json.loads(value)["Statement"]:
            yield where, statement
    elif isinstance(value, dict):
        for item in value.values():
            yield from _in(where, item)
    elif isinstance(value, list):
        for item in value:
            yield from _in(where, item)


def faults(statement: dict[str, Any]) -> list[str]:
    """What makes a statement more than least privilege."""
    found = []
    for action in _listed(statement["Action"]):
        if "*" in action:
            found.append(f"{action} allows more than one action")
    if "NotAction" in statement or "NotResource" in statement:
        found.append("everything but")
    if "Principal" in statement:
        if statement["Principal"] == "*" or "*" in json.dumps(statement["Principal"]):
            found.append("anybody may assume it")
        return found
    if "*" in _listed(statement["Resource"]):
        loose = set(_listed(statement["Action"])) - WITHOUT_RESOURCES
        found += [f"{action} on every resource" for action in sorted(loose)]
        if not statement.get("Condition"):
            found.append("every resource, without a condition")
    for resource in _listed(statement["Resource"]):
        parts = resource.split(":", 5)
        if resource != "*" and (len(parts) < 6 or parts[3] == "*" or parts[5] == "*"):
            found.append(f"{resource} is not narrow")
    return found


def test_every_policy_is_walked(stack: Recording) -> None:
    """The walk sees the five trust policies and the two inline policies of the stack."""
    seen = [where for where, _ in statements(stack)]
    assert sorted(set(seen)) == [
        "aws:iam/role:Role k8s-ml-autoscaler",
        "aws:iam/role:Role k8s-ml-aws-ebs-csi-driver",
        "aws:iam/role:Role k8s-ml-cluster",
        "aws:iam/role:Role k8s-ml-nodes",
        "aws:iam/role:Role k8s-ml-vpc-cni",
        "aws:iam/rolePolicy:RolePolicy k8s-ml-autoscaler",
        "aws:iam/rolePolicy:RolePolicy k8s-ml-cluster",
    ]


def test_no_statement_allows_more_than_it_must(stack: Recording) -> None:
    """No `*` among actions, and none among resources where the action knows any."""
    wrong = [(where, fault) for where, one in statements(stack) for fault in faults(one)]
    assert wrong == []


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ({"Action": "autoscaling:*", "Resource": "*"}, "autoscaling:* allows more"),
        ({"Action": "autoscaling:SetDesiredCapacity", "Resource": "*"}, "on every resource"),
        ({"Action": "ec2:DescribeImages", "Resource": "*"}, "without a condition"),
        ({"Action": "kms:Decrypt", "Resource": "arn:aws:kms:*:1:key/a"}, "is not narrow"),
        ({"Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}, "anybody"),
    ],
)
def test_the_walk_finds_what_is_wrong(statement: dict[str, Any], fault: str) -> None:
    """Each kind of excess is named."""
    assert any(fault in one for one in faults(statement))


def test_role_names_fit_iam_whatever_the_cluster_s() -> None:
    """With the automatic suffix of 8, a role's name stays within 64 characters."""
    from gpu_cluster.components.eks.iam import role_name

    assert role_name("k8s-ml", "nodes") == "k8s-ml-nodes"
    assert len(role_name("m" * 100, "autoscaler")) + 8 == 64
