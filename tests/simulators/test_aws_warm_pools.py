"""Warm pools of node groups on the simulated AWS through boto3: which instances wait, which of them
become nodes, what counts against a quota, and what is left."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpu_cluster.rehearsal.simulators.cloud import RefusedError
from gpu_cluster.rehearsal.simulators.stock import Stock, Stocks
from tests.simulators.aws_account import Account

pytestmark = pytest.mark.usefixtures("emptied")

STOPPED = {"enabled": True, "maxGroupPreparedCapacity": 2}
SIZES = {"minSize": 0, "maxSize": 3, "desiredSize": 0}
TRAIN = {"clusterName": "ml", "nodegroupName": "train-gpu"}


def group(ml: Account, warm: dict[str, Any] | None = None, **changes: Any) -> str:
    """The name of the Auto Scaling group of a new node group with this warm pool."""
    row = ml.group(
        "train-gpu",
        scalingConfig=SIZES,
        warmPoolConfig=warm or STOPPED,
        **changes,
    )
    return str(row["resources"]["autoScalingGroups"][0]["name"])


def warm(ml: Account, asg: str) -> dict[str, str]:
    """Instance -> its state, of those that wait."""
    rows = ml.autoscaling.describe_warm_pool(AutoScalingGroupName=asg)["Instances"]
    return {row["InstanceId"]: row["LifecycleState"] for row in rows}


def nodes(ml: Account, asg: str) -> list[str]:
    (row,) = ml.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[asg])[
        "AutoScalingGroups"
    ]
    return [instance["InstanceId"] for instance in row["Instances"]]


def resize(ml: Account, asg: str, wanted: int) -> None:
    ml.autoscaling.set_desired_capacity(AutoScalingGroupName=asg, DesiredCapacity=wanted)


def states(ml: Account, ids: list[str]) -> list[str]:
    found = ml.ec2.describe_instances(InstanceIds=ids)["Reservations"]
    return [instance["State"]["Name"] for row in found for instance in row["Instances"]]


def test_nodes_come_out_of_the_warm_pool_first(ml: Account) -> None:
    """The oldest first; beyond the prepared ones they are launched, and no other one waits."""
    asg = group(ml)
    waiting = warm(ml, asg)
    assert [*waiting.values()] == ["Warmed:Stopped"] * 2
    assert states(ml, [*waiting]) == ["stopped"] * 2
    ml.cloud.set_size("train-gpu", 1)
    assert nodes(ml, asg) == [*waiting][:1]
    assert [*warm(ml, asg)] == [*waiting][1:]
    ml.cloud.set_size("train-gpu", 3)
    assert nodes(ml, asg)[:2] == [*waiting]
    assert len(nodes(ml, asg)) == 3
    assert warm(ml, asg) == {}
    assert states(ml, nodes(ml, asg)) == ["running"] * 3
    (shown,) = ml.cloud.node_groups()
    assert (shown.warm, shown.warm_starts) == (0, 2)
    said = ml.autoscaling.describe_scaling_activities(AutoScalingGroupName=asg)["Activities"]
    assert [row["Description"].rpartition(":")[0] for row in said] == [
        "Launching a new EC2 instance",
        *["Launching a new EC2 instance from warm pool"] * 2,
        *["Launching a new EC2 instance into warm pool"] * 2,
    ]


def test_the_warm_pool_fills_again_when_nodes_leave(ml: Account) -> None:
    """Cluster Autoscaler terminates a node, which comes back to the pool by no policy."""
    asg = group(ml, STOPPED | {"reuseOnScaleIn": True})
    before = {*warm(ml, asg)}
    ml.cloud.set_size("train-gpu", 2)
    ml.cloud.set_size("train-gpu", 0)
    assert nodes(ml, asg) == []
    assert len(warm(ml, asg)) == 2
    assert not before & {*warm(ml, asg)}
    assert states(ml, [*before]) == ["terminated"] * 2


@pytest.mark.parametrize("reuse", [False, True])
def test_auto_scaling_reuses_what_it_removes_itself(ml: Account, reuse: bool) -> None:
    """As the policy says; either way as many wait as before."""
    asg = group(ml, STOPPED | {"reuseOnScaleIn": reuse})
    before = {*warm(ml, asg)}
    resize(ml, asg, 2)
    resize(ml, asg, 0)
    assert ({*warm(ml, asg)} == before) is reuse
    assert [*warm(ml, asg).values()] == ["Warmed:Stopped"] * 2


def test_a_warm_pool_changes_without_its_nodes(ml: Account) -> None:
    """Size at once, state for those that come later; what is not given stays."""
    asg = group(ml)
    resize(ml, asg, 1)
    node, waiting = nodes(ml, asg), [*warm(ml, asg)]
    change = ml.eks.update_nodegroup_config
    change(**TRAIN, warmPoolConfig={"minSize": 2, "poolState": "RUNNING"})
    assert [*warm(ml, asg).values()] == ["Warmed:Stopped", "Warmed:Running"]
    assert [*warm(ml, asg)][:1] == waiting
    assert ml.described("train-gpu")["warmPoolConfig"] == {
        "enabled": True,
        "minSize": 2,
        "maxGroupPreparedCapacity": 2,
        "poolState": "RUNNING",
        "reuseOnScaleIn": False,
    }
    change(**TRAIN, labels={"addOrUpdateLabels": {"a": "b"}})
    assert len(warm(ml, asg)) == 2
    change(**TRAIN, warmPoolConfig={"enabled": False})
    assert "warmPoolConfig" not in ml.described("train-gpu")
    assert warm(ml, asg) == {}
    assert nodes(ml, asg) == node


def test_nothing_is_left_of_a_warm_pool(ml: Account) -> None:
    """Deleting the node group, or only its warm pool, terminates the stopped instances."""
    before = set(ml.cloud.list_resources())
    asg = group(ml)
    resize(ml, asg, 1)
    assert [line.partition(" ")[0] for line in ml.cloud.list_resources()].count("instance") == 2
    ml.eks.delete_nodegroup(**TRAIN)
    assert set(ml.cloud.list_resources()) <= before


@pytest.mark.parametrize(("state", "others"), [("STOPPED", 2), ("RUNNING", 1)])
def test_stopped_instances_count_against_no_quota(ml: Account, state: str, others: int) -> None:
    """Running ones do: 12 vCPUs are three instances, and what waits is filled as far as they go."""
    ml.faults.quota["G_VT"] = 12
    asg = group(ml, STOPPED | {"poolState": state})
    ml.group("other")
    ml.cloud.set_size("other", others)
    resize(ml, asg, 1)
    if state == "RUNNING":
        with pytest.raises(RefusedError, match="VcpuLimitExceeded"):
            ml.cloud.set_size("other", 2)
    assert len(nodes(ml, asg)) == 1
    assert [*warm(ml, asg).values()] == [f"Warmed:{state.title()}"]


def test_a_stopped_instance_holds_no_machine(ml: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """EC2 may have none left when it is to start."""
    stock = Stocks([Stock(machine_type="g4dn.xlarge", nodes=1)])
    monkeypatch.setattr(ml.cloud.account, "stock", stock)
    group(ml, STOPPED | {"maxGroupPreparedCapacity": 1})
    ml.group("other")
    ml.cloud.set_size("other", 1)
    with pytest.raises(RefusedError, match="InsufficientInstanceCapacity"):
        ml.cloud.set_size("train-gpu", 1)


def test_other_warm_instances_boot_when_nodes_are_recycled(ml: Account) -> None:
    """Those that wait have booted the old version of the launch template."""
    disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 200}}
    own, data = {"LaunchTemplateName": "own"}, {"BlockDeviceMappings": [disk]}
    ml.ec2.create_launch_template(**own, LaunchTemplateData=data)
    ml.ec2.create_launch_template_version(**own, LaunchTemplateData=data)
    asg = group(ml, launchTemplate={"name": "own", "version": "1"})
    before = {*warm(ml, asg)}
    ml.eks.update_nodegroup_version(**TRAIN, launchTemplate={"name": "own", "version": "2"})
    assert len(warm(ml, asg)) == 2
    assert not before & {*warm(ml, asg)}
    ml.ec2.delete_launch_template(**own)


@pytest.mark.parametrize(
    ("changes", "warm_pool", "says"),
    [
        ({"capacityType": "SPOT"}, {}, "that requests Spot Instances"),
        ({"amiType": "BOTTLEROCKET_x86_64_NVIDIA"}, {"reuseOnScaleIn": True}, "Bottlerocket"),
        ({}, {"poolState": "HIBERNATED"}, "not configured for hibernation"),
        ({}, {"poolState": "Stopped"}, "poolState 'Stopped' is not STOPPED"),
    ],
)
def test_eks_refuses_warm_pools_that_it_cannot_have(
    ml: Account, changes: dict[str, Any], warm_pool: dict[str, Any], says: str
) -> None:
    """Nothing is created."""
    with pytest.raises(ClientError, match=says):
        group(ml, STOPPED | warm_pool, **changes)
    assert ml.eks.list_nodegroups(clusterName="ml")["nodegroups"] == []
