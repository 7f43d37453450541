"""Capacity Reservations and Capacity Blocks of the simulated AWS through boto3: who reads them, and
which node groups get instances out of them, in AWS's words."""

import itertools
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpu_cluster.rehearsal.simulators.aws.eks import subnets
from gpu_cluster.rehearsal.simulators.cloud import RefusedError
from gpu_cluster.rehearsal.simulators.reservations import Reservation
from gpu_cluster.rehearsal.simulators.stock import Stock, Stocks
from tests.simulators.aws_account import Account, account

pytestmark = pytest.mark.usefixtures("emptied")

GROUP = "arn:aws:resource-groups:us-east-1:123456789012:group/gpus"
NUMBERS = itertools.count()
NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
T4, P5 = ({"type": kind, "zone": "us-east-1a"} for kind in ("g4dn.xlarge", "p5.48xlarge"))
BLOCK = {**P5, "count": 1, "block": True}
ALL = (
    Reservation(name="cr-00000001", count=2, used=1, **T4),
    Reservation(name="cr-00000002", count=1, group=GROUP, **T4),
    Reservation(name="cr-00000003", count=1, group=GROUP, type="g4dn.xlarge", zone="us-east-1b"),
    Reservation(name="cr-00000004", start=NOW - DAY, end=NOW + DAY, **BLOCK),
    Reservation(name="cr-00000005", start=NOW + DAY, end=NOW + 2 * DAY, **BLOCK),
    Reservation(name="cr-00000006", start=NOW - 2 * DAY, end=NOW - DAY, **BLOCK),
)
SIZES = {"minSize": 0, "maxSize": 30, "desiredSize": 0}
FULL = "ReservationCapacityExceeded - The requested reservation does not have sufficient compatible"


@pytest.fixture(scope="module")
def ml() -> Iterator[Account]:
    with account(ALL) as made:
        made.cluster()
        yield made


def group(ml: Account, name: str, target: str, **changes: Any) -> None:
    """A node group whose nodes come out of this reservation alone."""
    template = f"template-{next(NUMBERS)}"
    kind = "ResourceGroupArn" if target.startswith("arn:") else "Id"
    block = changes.pop("block", False)
    data: dict[str, Any] = {
        "CapacityReservationSpecification": {
            "CapacityReservationTarget": {f"CapacityReservation{kind}": target},
            **({} if block else {"CapacityReservationPreference": changes.pop(
                "preference", "capacity-reservations-only")}),
        },
    }  # fmt: skip
    if block:
        data |= {"InstanceType": "p5.48xlarge",
                 "InstanceMarketOptions": {"MarketType": "capacity-block"}}  # fmt: skip
        changes |= {"capacityType": "CAPACITY_BLOCK"}
    elif data["CapacityReservationSpecification"]["CapacityReservationPreference"] is None:
        del data["CapacityReservationSpecification"]["CapacityReservationPreference"]
    ml.ec2.create_launch_template(LaunchTemplateName=template,
                                  LaunchTemplateData=data)  # fmt: skip
    given = {
        "clusterName": "ml",
        "nodegroupName": name,
        "nodeRole": "arn:aws:iam::123456789012:role/nodes",
        "subnets": ml.subnets[:1],
        "scalingConfig": {"minSize": 0, "maxSize": 5, "desiredSize": 0},
        "launchTemplate": {"name": template, "version": "1"},
        **({} if block else {"instanceTypes": ["g4dn.xlarge"]}),
    }
    ml.eks.create_nodegroup(**(given | changes))


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["CapacityReservationId"][-1] for row in rows]


def test_reservations_are_described_as_ec2_does(ml: Account) -> None:
    """With zone, type, what is free, window and state."""
    ask = ml.ec2.describe_capacity_reservations
    rows = ask()["CapacityReservations"]
    assert [(row["State"], row["AvailableInstanceCount"]) for row in rows] == [
        ("active", 1), ("active", 1), ("active", 1), ("active", 1), ("scheduled", 0),
        ("expired", 0),
    ]  # fmt: skip
    assert rows[0]["AvailabilityZoneId"] == "use1-az6"
    assert "EndDate" not in rows[0]
    assert rows[3]["EndDate"] == NOW + DAY
    assert [row["ReservationType"] for row in rows[2:4]] == ["default", "capacity-block"]
    filters = [{"Name": "reservation-type", "Values": ["capacity-block"]}]
    assert ids(ask(Filters=filters)["CapacityReservations"]) == ["4", "5", "6"]
    with pytest.raises(ClientError, match=r"InvalidCapacityReservationId.NotFound"):
        ask(CapacityReservationIds=["cr-0000000f"])


def test_a_resource_group_lists_its_reservations(ml: Account) -> None:
    """Resource Groups knows them by ARN."""
    groups = ml.resource_groups
    found = groups.list_group_resources(Group=GROUP)["ResourceIdentifiers"]
    assert [each["ResourceArn"].rpartition("/")[2] for each in found] == [
        "cr-00000002", "cr-00000003",
    ]  # fmt: skip
    with pytest.raises(ClientError, match="NotFoundException"):
        groups.list_group_resources(Group=f"{GROUP}-2")


def test_nodes_come_out_of_the_reservation_and_nowhere_else(ml: Account) -> None:
    """One of the two is somebody else's; what a node takes, nobody else gets."""
    group(ml, "one", "cr-00000001")
    ml.cloud.set_size("one", 1)
    with pytest.raises(RefusedError, match=FULL):
        ml.cloud.set_size("one", 2)
    (row,) = ml.ec2.describe_capacity_reservations(CapacityReservationIds=["cr-00000001"])[
        "CapacityReservations"
    ]
    assert row["AvailableInstanceCount"] == 0


def test_the_quota_is_no_matter_for_what_is_reserved(ml: Account) -> None:
    """It was counted when it was reserved."""
    ml.faults.quota["G_VT"] = 0
    group(ml, "one", "cr-00000001")
    ml.cloud.set_size("one", 1)


@pytest.mark.parametrize(
    ("name", "changes", "lifecycle"),
    [
        ("bought", {}, None),
        ("reserved", {"target": "cr-00000001"}, None),
        ("spot", {"capacityType": "SPOT"}, "spot"),
        ("block", {"target": "cr-00000004", "block": True}, "capacity-block"),
    ],
)
def test_an_instance_says_how_it_was_bought(
    ml: Account, name: str, changes: dict[str, Any], lifecycle: str | None
) -> None:
    """By one of the words that EC2's model has, or by none."""
    (group if "target" in changes else Account.group)(ml, name, **changes)
    ml.cloud.set_size(name, 1)
    filters = [{"Name": "tag:eks:nodegroup-name", "Values": [name]}]
    (reservation,) = ml.ec2.describe_instances(Filters=filters)["Reservations"]
    (instance,) = reservation["Instances"]
    assert instance.get("InstanceLifecycle") == lifecycle
    shape = ml.ec2.meta.service_model.shape_for("InstanceLifecycleType")
    assert lifecycle is None or lifecycle in shape.enum


@pytest.mark.parametrize(
    ("target", "changes"),
    [
        ("cr-00000003", {}),  # in another zone
        ("cr-00000001", {"instanceTypes": ["g4dn.2xlarge"]}),
        ("cr-00000004", {"instanceTypes": ["p5.48xlarge"]}),  # a block is no such reservation
        ("cr-00000006", {"block": True}),  # it is over
        ("cr-00000001", {"block": True}),  # it is no block
    ],
)
def test_what_does_not_fit_the_reservation_does_not_start(
    ml: Account, target: str, changes: dict[str, Any]
) -> None:
    """EKS makes the group; its first node fails."""
    group(ml, "wrong", target, **changes)
    with pytest.raises(RefusedError, match=FULL):
        ml.cloud.set_size("wrong", 1)


def test_a_block_has_nodes_between_its_start_and_its_end(ml: Account) -> None:
    """Before, EC2 says that it is not active yet."""
    group(ml, "now", "cr-00000004", block=True)
    ml.cloud.set_size("now", 1)
    group(ml, "later", "cr-00000005", block=True)
    words = "PendingActivation - Your Capacity Block reservation cr-00000005 is not active yet. "
    with pytest.raises(RefusedError, match=words):
        ml.cloud.set_size("later", 1)


def test_a_reservation_that_is_not_there(ml: Account) -> None:
    """EC2 knows it when an instance is to start."""
    group(ml, "lost", "cr-0000000f")
    with pytest.raises(RefusedError, match=r"InvalidCapacityReservationId.NotFound .*0000000f"):
        ml.cloud.set_size("lost", 1)


@pytest.mark.parametrize(("preference", "most"), [("capacity-reservations-only", 2), (None, 5)])
def test_a_group_reaches_as_far_as_its_reservations(
    ml: Account, preference: str | None, most: int
) -> None:
    """Beyond them instances run on demand, unless the launch template says otherwise."""
    group(ml, "both", GROUP, preference=preference, subnets=ml.subnets)
    ml.cloud.set_size("both", most)
    if preference:
        with pytest.raises(RefusedError, match=FULL):
            ml.cloud.set_size("both", most + 1)


def test_what_is_sold_out_does_not_start_and_what_is_reserved_does(ml: Account) -> None:
    """Auto Scaling records a failure, which Cluster Autoscaler reads; a reservation is EC2's word
    that the instance is there."""
    ml.group("spot", capacityType="SPOT", subnets=ml.subnets[:1])
    group(ml, "one", "cr-00000001")
    ml.faults.no_capacity.append("g4dn.xlarge/us-east-1a/*")
    with pytest.raises(RefusedError, match=r"InsufficientInstanceCapacity - There is no Spot"):
        ml.cloud.set_size("spot", 1)
    ml.cloud.set_size("one", 1)
    name = ml.described("spot")["resources"]["autoScalingGroups"][0]["name"]
    ml.autoscaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=1)
    found = ml.autoscaling.describe_scaling_activities(AutoScalingGroupName=name)
    assert found["Activities"][0]["StatusCode"] == "Failed"
    ml.group("wide", capacityType="SPOT")  # in another zone too
    ml.cloud.set_size("wide", 1)


@pytest.mark.parametrize(("pods", "most"), [("{}", 3), ('{"env":{"WARM_IP_TARGET":"1"}}', 27)])
def test_a_full_subnet_starts_no_node(
    ml: Account, pods: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A g4dn.xlarge has the 10 addresses of its first interface, of 27 in a /27; one if the
    vpc-cni is told how many to keep."""
    (subnet,) = subnets(ml.cloud.account, ml.subnets[:1])
    monkeypatch.setattr(subnet, "cidr_block", "10.0.0.0/27")
    addons = ml.cloud.account.clusters["ml"].addons
    monkeypatch.setitem(addons, "vpc-cni", {"configurationValues": pods})
    ml.group("small", subnets=ml.subnets[:1], scalingConfig=SIZES)
    with pytest.raises(RefusedError, match=r"InsufficientFreeAddressesInSubnet - There are"):
        ml.cloud.set_size("small", most + 1)
    ml.cloud.set_size("small", most)


def test_a_stock_has_only_so_many_until_it_returns(
    ml: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests for more are refused until some time after the last refusal."""
    back = threading.Event()
    row = Stock(
        machine_type="g4dn.xlarge", zone="us-east-1a", capacity_type="spot", nodes=1, returns=0.3
    )
    monkeypatch.setattr(ml.cloud.account, "stock", Stocks([row]))
    ml.cloud.account.stock.on_return(back.set)
    ml.group("spot", capacityType="SPOT", subnets=ml.subnets[:1])
    ml.cloud.set_size("spot", 1)
    assert not ml.cloud.account.stock.restocking
    with pytest.raises(RefusedError, match="InsufficientInstanceCapacity"):
        ml.cloud.set_size("spot", 2)
    assert back.wait(10)
    ml.cloud.set_size("spot", 2)
