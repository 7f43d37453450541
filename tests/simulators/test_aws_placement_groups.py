"""EC2's placement groups: what they refuse of node groups, of fleets, and of their deletion."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpu_cluster.rehearsal.simulators.aws.placement_groups import placement_refusal
from tests.simulators.aws_account import Account


def node_group(ml: Account, name: str, placement: str, **more: Any) -> None:
    """A node group whose template names this placement group."""
    data = {"Placement": {"GroupName": placement}}
    ml.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
    ml.group(name, launchTemplate={"name": name, "version": "1"}, **more)


def test_a_group_with_instances_cannot_be_deleted(ml: Account) -> None:
    """`state` is a filter that Karpenter uses."""
    made = ml.ec2.create_placement_group(GroupName="near", Strategy="cluster")["PlacementGroup"]
    available = [{"Name": "state", "Values": ["available"]}]
    (found,) = ml.ec2.describe_placement_groups(GroupNames=["near"], Filters=available)[
        "PlacementGroups"
    ]
    assert found["GroupId"] == made["GroupId"]
    node_group(ml, "one-zone", "near", subnets=ml.subnets[:1])
    ml.cloud.set_size("one-zone", 2)
    with pytest.raises(ClientError, match=r"InvalidPlacementGroup.InUse.*near is in use"):
        ml.ec2.delete_placement_group(GroupName="near")
    ml.cloud.set_size("one-zone", 0)
    ml.ec2.delete_placement_group(GroupName="near")


@pytest.mark.parametrize(
    ("placement", "subnets", "words"),
    [("gone", 1, "Placement Group 'gone' is unknown"), ("two", 2, "cannot span multiple Avail")],
)
def test_a_group_in_two_zones_and_one_that_is_unknown_start_no_node(
    ml: Account, placement: str, subnets: int, words: str
) -> None:
    """As Auto Scaling reports it: told when the group is created, even if it is at zero."""
    if placement == "two":
        ml.ec2.create_placement_group(GroupName="two", Strategy="cluster")
    node_group(ml, f"group-{placement}", placement, subnets=ml.subnets[:subnets])
    (issue,) = ml.described(f"group-{placement}")["health"]["issues"]
    assert words in issue["message"]


def test_cluster_groups_have_no_burstable_instances_and_stay_in_their_zone(ml: Account) -> None:
    """A spread group has neither rule."""
    for strategy in ("cluster", "spread"):
        ml.ec2.create_placement_group(GroupName=f"a-{strategy}", Strategy=strategy)
    near, far = ({"Placement": {"GroupName": f"a-{kind}"}} for kind in ("cluster", "spread"))
    known = ml.cloud.account
    zones = ["us-east-1a", "us-east-1b"]
    assert placement_refusal(known, near, ["p5.48xlarge"], zones[:1]) is None
    assert placement_refusal(known, far, ["t3.large"], zones) is None
    assert "t3.large" in str(placement_refusal(known, near, ["t3.large"], zones[:1]))
    node_group(ml, "first", "a-cluster", subnets=ml.subnets[:1])
    ml.cloud.set_size("first", 1)
    assert "us-east-1a, us-east-1b" in str(placement_refusal(known, near, ["g5.xlarge"], zones[1:]))
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        ml.ec2.create_placement_group(GroupName="b", Strategy="near")
