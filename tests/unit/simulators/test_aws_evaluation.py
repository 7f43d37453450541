"""Whether IAM policy documents allow what an action asks."""

from typing import Any

import pytest

from gpu_cluster.rehearsal.simulators.aws.evaluation import (
    UnsimulatedConditionError,
    allowed,
    trusts,
)

ASG = "arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:1-2:autoScalingGroupName/eks-g"
SCALE = "autoscaling:SetDesiredCapacity"


def statement(action: Any = SCALE, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


@pytest.mark.parametrize(
    ("policy", "verdict"),
    [
        (statement(), True),
        (statement("autoscaling:Set*"), True),
        (statement("AUTOSCALING:setdesiredcapacity"), True),
        (statement("autoscaling:Describe*"), False),
        (statement(["ec2:*", SCALE]), True),
        (statement(resource="arn:aws:autoscaling:us-east-1:*:autoScalingGroup:*"), True),
        (statement(resource="arn:aws:autoscaling:eu-west-1:*:autoScalingGroup:*"), False),
        (statement(resource="ARN:*"), False),
        ({"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}, True),
        ({"Effect": "Allow", "NotAction": "autoscaling:*", "Resource": "*"}, False),
        ({"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:autoscaling:*"}, False),
    ],
)
def test_actions_and_resources_match_with_wildcards(policy: dict[str, Any], verdict: bool) -> None:
    """Actions match without their case, resources with it."""
    assert allowed([document(policy)], SCALE, ASG) is verdict


def test_a_deny_wins() -> None:
    """An explicit Deny in any document beats every Allow, whatever their order."""
    deny = statement() | {"Effect": "Deny"}
    assert not allowed([document(deny), document(statement())], SCALE, ASG)
    assert not allowed([document(statement()), document(deny)], SCALE, ASG)


@pytest.mark.parametrize(
    ("operator", "value", "verdict"),
    [
        ("StringEquals", "owned", True),
        ("StringEquals", ["shared", "owned"], True),
        ("StringEquals", "shared", False),
        ("StringNotEquals", "shared", True),
        ("StringEqualsIgnoreCase", "OWNED", True),
        ("StringLike", "own*", True),
        ("StringNotLike", "own*", False),
        ("ForAnyValue:StringEquals", ["owned"], True),
        ("Null", "false", True),
        ("Null", "true", False),
    ],
)
def test_conditions_look_at_the_groups_tags(operator: str, value: Any, verdict: bool) -> None:
    """A condition on the group's tag holds or does not, by its operator."""
    condition = {operator: {"aws:ResourceTag/k8s.io/cluster-autoscaler/ml": value}}
    context = {"aws:ResourceTag/k8s.io/cluster-autoscaler/ml": "owned"}
    assert allowed([document(statement(Condition=condition))], SCALE, ASG, context) is verdict


@pytest.mark.parametrize(
    ("operator", "verdict"),
    [
        ("StringEquals", False),
        ("StringEqualsIfExists", True),
        ("StringNotEquals", True),
        ("ForAnyValue:StringEquals", False),
    ],
)
def test_a_tag_that_is_not_there_fails_the_condition(operator: str, verdict: bool) -> None:
    """Without the key a condition fails, unless it is negated or says IfExists."""
    condition = {operator: {"aws:ResourceTag/team": "ml"}}
    assert allowed([document(statement(Condition=condition))], SCALE, ASG, {}) is verdict


def test_conditions_take_variables() -> None:
    """A value may be another key of the request."""
    condition = {
        "StringEquals": {"aws:ResourceTag/cluster": "${aws:PrincipalTag/eks-cluster-name}"}
    }
    context = {"aws:ResourceTag/cluster": "ml", "aws:PrincipalTag/eks-cluster-name": "ml"}
    policy = [document(statement(Condition=condition))]
    assert allowed(policy, SCALE, ASG, context)
    assert not allowed(policy, SCALE, ASG, context | {"aws:ResourceTag/cluster": "other"})


def test_a_condition_that_is_not_played_is_no_silent_yes() -> None:
    """An operator that is not evaluated is an error that names it."""
    condition = {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}
    with pytest.raises(UnsimulatedConditionError, match="IpAddress"):
        allowed([document(statement(Condition=condition))], SCALE, ASG)


def test_a_trust_policy_names_service_actions_and_conditions() -> None:
    """Pod Identity needs AssumeRole and TagSession, and the tags that the policy asks for."""
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": "pods.eks.amazonaws.com"},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
        "Condition": {"StringEquals": {"aws:RequestTag/kubernetes-namespace": "kube-system"}},
    }
    both = ("sts:AssumeRole", "sts:TagSession")
    tags = {"aws:RequestTag/kubernetes-namespace": "kube-system"}
    pods = "pods.eks.amazonaws.com"
    assert trusts(document(trust), pods, *both, context=tags)
    assert not trusts(document(trust), pods, *both, context=dict.fromkeys(tags, "default"))
    assert not trusts(document(trust), "ec2.amazonaws.com", *both, context=tags)
    assert not trusts(document(trust | {"Action": both[0]}), pods, *both, context=tags)
