"""Warm pools of Auto Scaling groups, which moto only describes: instances that boot once, stop
unless the pool keeps them running, and enter the group before any new one is launched.

The size follows PutWarmPool's documentation (botocore 1.44.5); the words of activities and refusals
are those of autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html; read 2026-11-24. A change
of the state or of the reuse applies to instances that enter the pool later
(eks/latest/userguide/warm-pools-managed-node-groups.html).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, page, rule
from gpu_cluster.rehearsal.simulators.aws.eks import asg_of, warm_instances
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal

_STATES = {"STOPPED": "Stopped", "RUNNING": "Running", "HIBERNATED": "Hibernated"}
"""`poolState` of EKS -> `PoolState` of EC2 Auto Scaling."""


def configure(account: Account, asg: Any, given: Mapping[str, Any] | None) -> None:
    """Gives a group the warm pool of a node group's `warmPoolConfig`, or none, and fills it."""
    if given is None:
        asg.warm_pool = None
    else:
        asg.put_warm_pool(
            given.get("maxGroupPreparedCapacity"),
            given["minSize"],
            _STATES[given["poolState"]],
            {"ReuseOnScaleIn": given["reuseOnScaleIn"]},
        )
    asg.set_desired_capacity(asg.desired_capacity)


def wanted(asg: Any) -> int:
    """How many instances the group's warm pool should hold now."""
    # moto's group fills itself before it has one.
    pool = getattr(asg, "warm_pool", None)
    if pool is None:
        return 0
    most = pool.max_group_prepared_capacity
    prepared = asg.max_size if most is None or int(most) < 0 else int(most)
    return max(int(pool.min_size), prepared - (asg.desired_capacity or 0))


def trim(account: Account, asg: Any, note: Callable[[str], None], most: int = 0) -> None:
    """Terminates the warm instances beyond `most`, the newest first."""
    instances = warm_instances(asg)
    while len(instances) > most:
        ending = instances.pop()
        account.backend("ec2").terminate_instances([ending.id])
        note(f"Terminating EC2 instance: {ending.id}")


def enter(account: Account, asg: Any, instance: Any) -> None:
    """Takes an instance that has booted into the warm pool."""
    if asg.warm_pool.pool_state != "Running":
        account.backend("ec2").stop_instances([instance.id])
    warm_instances(asg).append(instance)


def leave(account: Account, asg: Any) -> Any | None:
    """The warm instance that has waited longest, running; None if there is none."""
    instances = warm_instances(asg)
    if not instances:
        return None
    instance = instances.pop(0)
    account.backend("ec2").start_instances([instance.id])
    vars(asg)["warm_starts"] = warm_starts(asg) + 1
    return instance


def warm_starts(asg: Any) -> int:
    """How many instances have left the warm pool for the group so far."""
    return int(vars(asg).get("warm_starts", 0))


def reuses(asg: Any) -> bool:
    """Whether an instance that the group itself removes waits again."""
    policy = asg.warm_pool.instance_reuse_policy if asg.warm_pool else None
    return bool(policy and policy.get("ReuseOnScaleIn"))


@rule("autoscaling", "PutWarmPool")
def check_and_fill(account: Account, params: Params) -> Iterator[None]:
    """Refused: a group of Spot instances."""
    asg = asg_of(account, params["AutoScalingGroupName"])
    if any(
        group.scaling_group == asg.name and group.row["capacityType"] == "SPOT"
        for group in account.groups.values()
    ):
        raise Refusal("ValidationError", SPOT)
    yield
    asg.set_desired_capacity(asg.desired_capacity)


SPOT = "You can't add a warm pool to an Auto Scaling group that requests Spot Instances."


@rule("autoscaling", "DeleteWarmPool")
def empty(account: Account, params: Params) -> Iterator[None]:
    """Its instances are terminated."""
    yield
    asg = asg_of(account, params["AutoScalingGroupName"])
    asg.set_desired_capacity(asg.desired_capacity)


@operation("autoscaling", "DescribeWarmPool")
def describe_warm_pool(account: Account, params: Params) -> dict[str, Any]:
    """The configuration, if there is a pool, and its instances."""
    asg = asg_of(account, params["AutoScalingGroupName"])
    pool = asg.warm_pool
    rows = [
        {
            "InstanceId": instance.id,
            "InstanceType": instance.instance_type,
            "AvailabilityZone": instance.availability_zone,
            "LifecycleState": f"Warmed:{'Stopped' if instance.state == 'stopped' else 'Running'}",
            "HealthStatus": "Healthy",
            "ProtectedFromScaleIn": False,
        }
        for instance in warm_instances(asg)
    ]
    shown = page(params, "Instances", rows, after="NextToken", most="MaxRecords")
    if pool is None:
        return shown
    return shown | {
        "WarmPoolConfiguration": {
            "MaxGroupPreparedCapacity": -1
            if pool.max_group_prepared_capacity is None
            else int(pool.max_group_prepared_capacity),
            "MinSize": int(pool.min_size),
            "PoolState": pool.pool_state,
            "InstanceReusePolicy": {"ReuseOnScaleIn": reuses(asg)},
        }
    }
