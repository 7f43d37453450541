"""Auto Scaling groups: those of managed node groups, which moto names but does not create, and the
requests of any client for them.

A changed desired capacity starts and ends instances in the group's subnets, one at a time, within
the vCPU quotas; the rehearsal's nodes follow.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from gpu_cluster.rehearsal.simulators.aws import warm_pools
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, page, rule
from gpu_cluster.rehearsal.simulators.aws.eks import (
    asg_of,
    group_tags,
    running,
    subnets,
    warm_instances,
)
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.aws.reservations import place_of_next, why_not_launched
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster, Group

_KIND = "auto-scaling-group"
_MOST_TAGS = 50
_LIFECYCLES = {"SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}
"""A node group's `capacityType` -> `InstanceLifecycle` of its instances, which EC2 omits for
on-demand instances (botocore 1.44.5, ec2 2016-11-15, InstanceLifecycleType; read on 2026-11-24)."""
_IMAGE = "ami-0eks0000000000000"
"""EKS's own image, used if no launch template names one."""


def install(account: Account) -> Callable[[], None]:
    """Makes moto's groups start and end instances, until the returned function is called."""
    from moto.autoscaling.models import FakeAutoScalingGroup

    originals = {
        name: getattr(FakeAutoScalingGroup, name)
        for name in ("set_desired_capacity", "replace_autoscaling_group_instances")
    }

    def set_desired_capacity(group: Any, wanted: int | None) -> None:
        group.desired_capacity = group.min_size if wanted is None else wanted
        settle(account, group)

    def replace_autoscaling_group_instances(group: Any, count: int, tags: dict[str, str]) -> None:
        settle(account, group)

    for method in (set_desired_capacity, replace_autoscaling_group_instances):
        setattr(FakeAutoScalingGroup, method.__name__, method)

    def restore() -> None:
        for name, original in originals.items():
            setattr(FakeAutoScalingGroup, name, original)

    return restore


def make_group(
    account: Account, cluster: Cluster, row: Mapping[str, Any], data: Mapping[str, Any]
) -> tuple[str, str]:
    """Creates a node group's Auto Scaling group, at zero, with EKS's tags; returns its name and
    that of its launch template. `data`: those of the given launch template.

    Its security groups replace EKS's own:
    https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    """
    name, identity = row["nodegroupName"], str(uuid.uuid4())
    template, scaling = f"eks-{identity}", f"eks-{name}-{identity}"
    ec2, autoscaling = account.client("ec2"), account.client("autoscaling")
    ec2.create_launch_template(
        LaunchTemplateName=template,
        LaunchTemplateData={
            "ImageId": _IMAGE,
            "InstanceType": row["instanceTypes"][0],
            "SecurityGroupIds": data.get("SecurityGroupIds") or [cluster.security_group],
        },
    )
    tags = {
        "eks:cluster-name": row["clusterName"],
        "eks:nodegroup-name": name,
        f"kubernetes.io/cluster/{row['clusterName']}": "owned",
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"k8s.io/cluster-autoscaler/{row['clusterName']}": "owned",
    }
    autoscaling.create_auto_scaling_group(
        AutoScalingGroupName=scaling,
        MinSize=row["scalingConfig"]["minSize"],
        MaxSize=row["scalingConfig"]["maxSize"],
        DesiredCapacity=0,
        LaunchTemplate={"LaunchTemplateName": template, "Version": "1"},
        VPCZoneIdentifier=",".join(row["subnets"]),
        Tags=[
            {
                "ResourceId": scaling,
                "ResourceType": _KIND,
                "Key": key,
                "Value": value,
                "PropagateAtLaunch": True,
            }
            for key, value in tags.items()
        ],
    )
    cluster.grew = time.monotonic()
    return scaling, template


def drop_group(account: Account, group: Group) -> None:
    """Deletes the group with its tags, its instances, warm ones too, and its launch template."""
    warm_pools.configure(account, asg_of(account, group.scaling_group), None)
    account.backend("autoscaling").delete_auto_scaling_group(group.scaling_group)
    account.backend("ec2").delete_launch_template(group.template, None)


def resize(account: Account, group: Group, nodes: int) -> None:
    """Sets a node group's desired capacity to `nodes`."""
    asg_of(account, group.scaling_group).set_desired_capacity(nodes)


def set_elastic(account: Account, group: Group, nodes: int) -> None:
    """Changes the number of instances of the rehearsal's autoscaler to `nodes`."""
    asg = asg_of(account, group.scaling_group)
    own = [state for state in asg.instance_states if state.instance.id in group.elastic]
    while len(own) > nodes:
        _end(account, asg, own.pop())
    ids = {state.instance.id for state in asg.instance_states}
    asg.set_desired_capacity(len(ids) + nodes - len(own))
    group.elastic |= {machine.id for machine in running(account, group) if machine.id not in ids}


def surge(account: Account, group: Group, nodes: int) -> None:
    """Starts this many more instances than the group's size, also above its maximum."""
    asg = asg_of(account, group.scaling_group)
    group.surging, asg.max_size = nodes, asg.max_size + nodes
    asg.set_desired_capacity(len(asg.instance_states) + nodes)


def end_surge(account: Account, group: Group, instances: Iterable[str]) -> None:
    """Ends as many of these as the group still has above its size."""
    asg = asg_of(account, group.scaling_group)
    ids = {state.instance.id for state in asg.instance_states}
    for instance in [identity for identity in instances if identity in ids][: group.surging]:
        asg.max_size -= 1
        group.surging -= 1
        end_instance(account, group, instance)


def end_instance(account: Account, group: Group, instance: str) -> None:
    """Ends one instance of a node group without replacing it."""
    asg = asg_of(account, group.scaling_group)
    _end(account, asg, next(row for row in asg.instance_states if row.instance.id == instance))
    asg.set_desired_capacity(len(asg.instance_states))


def settle(account: Account, asg: Any) -> None:
    """Starts and ends instances until the desired capacity is reached or a quota is exhausted; warm
    instances enter the group before others are launched, and then the warm pool is filled."""
    owner = next((g for g in account.groups.values() if g.scaling_group == asg.name), None)
    elastic, wanted = owner.elastic if owner else set(), asg.desired_capacity or 0
    while len(asg.instance_states) > wanted:
        # The rehearsal's autoscaler ends its own instances.
        ending = max(asg.instance_states, key=lambda s: s.instance.id not in elastic)
        if warm_pools.reuses(asg):
            asg.instance_states.remove(ending)
            warm_pools.enter(account, asg, ending.instance)
        else:
            _end(account, asg, ending)
    while len(asg.instance_states) < wanted:
        if owner and (reason := why_not_launched(account, owner, len(asg.instance_states) + 1)):
            _note(asg, "Launching a new EC2 instance", failed=reason)
            return
        instance, where = warm_pools.leave(account, asg), " from warm pool"
        if instance is None:
            instance, where = _launch(account, asg, owner), ""
        asg.instance_states.append(_in_service(asg, instance))
        _note(asg, f"Launching a new EC2 instance{where}: {instance.id}")
    _fill(account, asg, owner)


def _fill(account: Account, asg: Any, owner: Group | None) -> None:
    """Launches into the warm pool what it lacks, and terminates what it has beyond its size."""
    size = warm_pools.wanted(asg)
    warm_pools.trim(account, asg, partial(_note, asg), size)
    while len(warm := warm_instances(asg)) < size:
        nodes = len(asg.instance_states) + sum(instance.state == "running" for instance in warm) + 1
        if owner and (reason := why_not_launched(account, owner, nodes)):
            _note(asg, "Launching a new EC2 instance into warm pool", failed=reason)
            return
        instance = _launch(account, asg, owner)
        warm_pools.enter(account, asg, instance)
        _note(asg, f"Launching a new EC2 instance into warm pool: {instance.id}")


def _end(account: Account, asg: Any, ending: Any) -> None:
    asg.instance_states = [state for state in asg.instance_states if state is not ending]
    account.backend("ec2").terminate_instances([ending.instance.id])
    _note(asg, f"Terminating EC2 instance: {ending.instance.id}")


def _in_service(asg: Any, instance: Any) -> Any:
    from moto.autoscaling.models import InstanceState

    protected = asg.new_instances_protected_from_scale_in
    return InstanceState(instance, protected_from_scale_in=protected)


def _launch(account: Account, asg: Any, owner: Group | None) -> Any:
    """A new instance of the group, which the caller puts into service or into the warm pool."""
    from moto.autoscaling.models import ASG_NAME_TAG

    reserved = place_of_next(account, owner) if owner else None
    # In the first subnet, whose zone is the label of the rehearsal's nodes.
    place = (asg.vpc_zone_identifier or "").split(",")[0]
    template = asg.ec2_launch_template
    (subnet,) = subnets(account, [place]) if place else (None,)
    reservation = account.backend("ec2").run_instances(
        asg.image_id,
        1,
        asg.user_data,
        [] if template else asg.security_groups,
        instance_type=asg.instance_type,
        tags={"instance": {ASG_NAME_TAG: asg.name, **asg.get_propagated_tags()}},
        placement=subnet.availability_zone if subnet else asg.availability_zones[0],
        launch_config=asg.launch_config,
        launch_template={"LaunchTemplateId": template.id} if template else None,
        is_instance_type_default=False,
        associate_public_ip=None,
        subnet_id=place or None,
    )
    (instance,) = reservation.instances
    instance.autoscaling_group = asg
    instance.capacity_reservation_id = reserved
    instance.instance_lifecycle = _LIFECYCLES.get(owner.row["capacityType"]) if owner else None
    for interface in instance.nics.values():
        interface.delete_on_termination = True
    return instance


def _note(asg: Any, what: str, *, failed: str = "") -> None:
    """Records an activity for `DescribeScalingActivities`."""
    at = datetime.now(UTC)
    vars(asg).setdefault("activities", []).insert(0, {
        "ActivityId": str(uuid.uuid4()),
        "AutoScalingGroupName": asg.name,
        "Description": what,
        "Cause": f"At {at:%Y-%m-%dT%H:%M:%SZ} the desired capacity is {asg.desired_capacity}.",
        "StartTime": at,
        "EndTime": at,
        "StatusCode": "Failed" if failed else "Successful",
        **({"StatusMessage": failed} if failed else {}),
        "Progress": 100,
        "Details": "{}",
        "AutoScalingGroupARN": asg.arn,
    })  # fmt: skip


@operation("autoscaling", "DescribeScalingActivities")
def describe_scaling_activities(account: Account, params: Params) -> dict[str, Any]:
    """The latest activities first, of one group or of all."""
    groups = account.backend("autoscaling").autoscaling_groups
    if name := params.get("AutoScalingGroupName"):
        asg_of(account, name)
    rows = [
        row
        for group in groups.values()
        if name in (None, group.name)
        for row in vars(group).get("activities", [])
    ]
    return page(params, "Activities", rows, after="NextToken", most="MaxRecords")


@rule("autoscaling", "SetDesiredCapacity", "UpdateAutoScalingGroup")
def check_size(account: Account, params: Params) -> None:
    """Refuses a capacity outside the bounds, and bounds whose minimum is above the maximum."""
    group, wanted = (
        asg_of(account, params["AutoScalingGroupName"]),
        params.get("DesiredCapacity"),
    )
    least, most = params.get("MinSize", group.min_size), params.get("MaxSize", group.max_size)
    if least > most:
        raise Refusal(
            "ValidationError",
            f"Max bound, {most}, must be greater than or equal to min bound, {least}",
        )
    if wanted is not None and wanted > most:
        raise outside(wanted, "above max", most)
    if wanted is not None and wanted < least:
        raise outside(wanted, "below min", least)


def outside(wanted: int, bound: str, value: int) -> Refusal:
    """The refusal of a capacity outside a bound of the group."""
    return Refusal(
        "ValidationError",
        f"New SetDesiredCapacity value {wanted} is {bound} value {value} for the AutoScalingGroup.",
    )


@rule("autoscaling", "TerminateInstanceInAutoScalingGroup")
def check_termination(account: Account, params: Params) -> None:
    """Refuses an instance without a group, and one that the group's minimum needs."""
    identity = params["InstanceId"]
    for group in account.backend("autoscaling").autoscaling_groups.values():
        if any(state.instance.id == identity for state in group.instance_states):
            if params["ShouldDecrementDesiredCapacity"] and group.desired_capacity <= (
                group.min_size
            ):
                raise Refusal(
                    "ValidationError",
                    f"Currently, desiredSize equals minSize ({group.min_size}). Terminating "
                    "instance without replacement will violate group's min size constraint. Either "
                    "set shouldDecrementDesiredCapacity flag to false or lower group's min size.",
                )
            return
    raise Refusal(
        "ValidationError",
        f"Instance Id not found - No managed instance found for instance ID: {identity}",
    )


@rule("autoscaling", "CreateOrUpdateTags", "DeleteTags")
def check_tags(account: Account, params: Params) -> None:
    """Refuses keys and values that are too long, the prefix aws:, and more than 50 tags."""
    keys: dict[str, set[str]] = {}
    for tag in params["Tags"]:
        key, value, group = tag["Key"], tag.get("Value") or "", tag["ResourceId"]
        known = keys.setdefault(group, set(group_tags(account, group)))
        if len(key) > 128 or len(value) > 256:
            words = f"tag '{key}': a key has at most 128 characters, a value 256"
            raise Refusal("ValidationError", words)
        if key.startswith("aws:"):
            raise Refusal("ValidationError", f"tag key '{key}': aws: is reserved")
        known.add(key)
        if len(known) > _MOST_TAGS:
            words = f"an Auto Scaling group takes {_MOST_TAGS} tags, {group} would have more"
            raise Refusal("LimitExceeded", words)
