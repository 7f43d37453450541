"""A type that moto lacks is a subclass of some twenty lines; this one has all that EC2's can do."""

from typing import ClassVar

import pytest

from gpu_cluster.rehearsal.simulators.aws import api
from gpu_cluster.rehearsal.simulators.aws.account import Account as Simulated
from gpu_cluster.rehearsal.simulators.aws.collection import Ec2Collection
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.aws.rows import Row
from tests.simulators.aws_account import Account

RACK = {"GroupName": "rack", "State": "available", "Strategy": "cluster", "GroupId": "pg-0000000a"}
TAGS = [{"Key": "team", "Value": "ml"}]


class _PlacementGroups(Ec2Collection):
    noun = member = "PlacementGroup"
    key, identity, prefix = "GroupName", "GroupId", ("placement-group", "pg")
    exists = "InvalidPlacementGroup.Duplicate", "The placement group '{GroupName}' already exists."
    unknown = "InvalidPlacementGroup.Unknown", "The Placement Group '{GroupName}' is unknown."
    filters: ClassVar = {"strategy": "Strategy"}

    def new(self, account: Simulated, params: api.Params) -> Row:
        name, strategy = params["GroupName"], params.get("Strategy", "cluster")
        number = f"pg-{len(self.rows(account, params)) + 10:08x}"
        return {"GroupName": name, "State": "available", "Strategy": strategy, "GroupId": number}

    def refuse_deletion(self, account: Simulated, row: Row) -> None:
        if row["Strategy"] == "spread":
            raise Refusal("InvalidPlacementGroup.InUse", f"{row['GroupName']} is in use")


def groups(ml: Account, **given: object) -> list[Row]:
    """The placement groups that a request describes."""
    return [*ml.ec2.describe_placement_groups(**given)["PlacementGroups"]]


def test_a_type_of_twenty_lines_is_created_described_tagged_and_deleted(
    ml: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any type of EC2, with the leak check seeing it until it is gone."""
    others = {key: run for key, run in api._OPERATIONS.items() if "Placement" not in key[1]}
    monkeypatch.setattr(api, "_OPERATIONS", others)
    _PlacementGroups().serve()
    clean = ml.cloud.list_resources()
    spec = [{"ResourceType": "placement-group", "Tags": TAGS}]
    made = ml.ec2.create_placement_group(GroupName="rack", TagSpecifications=spec)
    assert made["PlacementGroup"] == RACK | {"Tags": TAGS}
    with pytest.raises(ml.ec2.exceptions.ClientError, match=r"Duplicate.*'rack' already exists"):
        ml.ec2.create_placement_group(GroupName="rack")
    ml.ec2.create_placement_group(GroupName="far", Strategy="spread")
    ml.ec2.create_tags(Resources=["pg-0000000a"], Tags=[{"Key": "team", "Value": "hpc"}])
    retagged = RACK | {"Tags": [{"Key": "team", "Value": "hpc"}]}
    assert groups(ml, GroupNames=["rack"]) == groups(ml, GroupIds=["pg-0000000a"]) == [retagged]
    assert groups(ml, Filters=[{"Name": "strategy", "Values": ["cluster"]}]) == [retagged]
    assert [row["GroupName"] for row in groups(ml)] == ["rack", "far"]
    ml.ec2.delete_tags(Resources=["pg-0000000a"], Tags=[{"Key": "team"}])
    assert groups(ml, GroupNames=["rack"]) == [RACK | {"Tags": []}]
    ml.ec2.create_tags(Resources=["pg-0000000a"], Tags=TAGS)
    assert {*ml.cloud.list_resources()} - {*clean} == {"placement-group pg-0000000a"}
    ml.ec2.delete_placement_group(GroupName="rack")
    assert ml.cloud.list_resources() == clean
    with pytest.raises(ml.ec2.exceptions.ClientError, match=r"Unknown.*'rack' is unknown"):
        groups(ml, GroupNames=["rack"])
    with pytest.raises(ml.ec2.exceptions.ClientError, match="Unknown"):
        ml.ec2.delete_placement_group(GroupName="rack")
    with pytest.raises(ml.ec2.exceptions.ClientError, match="does not simulate the filter state"):
        groups(ml, Filters=[{"Name": "state", "Values": ["available"]}])
    with pytest.raises(ml.ec2.exceptions.ClientError, match="InUse"):
        ml.ec2.delete_placement_group(GroupName="far")
