"""Placement groups of EC2, and what they refuse of launches.

docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html, placement-strategies and
limitations-placement-groups, API_DeletePlacementGroup (read 2026-11-29). The words of the refused
launches are not EC2's.
"""

import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params
from gpu_cluster.rehearsal.simulators.aws.collection import Ec2Collection
from gpu_cluster.rehearsal.simulators.aws.eks import NOT_RUNNING, running, warm_running
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.aws.rows import Row

_STRATEGIES = ("cluster", "partition", "spread")
_NOT_IN_CLUSTERS = ("t1", "t2", "t3", "t3a", "t4g", "mac1", "m7i-flex")
"""Families of instances that no cluster placement group takes."""


class _PlacementGroups(Ec2Collection):
    noun = member = "PlacementGroup"
    key, identity, prefix = "GroupName", "GroupId", ("placement-group", "pg")
    exists = "InvalidPlacementGroup.Duplicate", "The placement group '{GroupName}' already exists."
    unknown = "InvalidPlacementGroup.Unknown", "The Placement Group '{GroupName}' is unknown."
    filters: ClassVar = {"strategy": "Strategy", "state": "State", "group-name": "GroupName"}

    def new(self, account: Account, params: Params) -> Row:
        strategy = params.get("Strategy", "cluster")
        if strategy not in _STRATEGIES:
            words = f"Value ({strategy}) for parameter strategy is invalid."
            raise Refusal("InvalidParameterValue", words)
        return {
            "GroupName": params["GroupName"],
            "GroupId": f"pg-0{secrets.token_hex(8)}",
            "GroupArn": account.arn("ec2", f"placement-group/{params['GroupName']}"),
            "Strategy": strategy,
            "State": "available",
        }

    def refuse_deletion(self, account: Account, row: Row) -> None:
        if members := ", ".join(_members(account, row)):
            words = f"The placement group {row['GroupName']} is in use and may not be deleted"
            raise Refusal("InvalidPlacementGroup.InUse", f"{words}: {members}")


PLACEMENT_GROUPS = _PlacementGroups()
PLACEMENT_GROUPS.serve()


def placement_refusal(
    account: Account, data: Mapping[str, Any], names: Iterable[str], zones: Collection[str]
) -> tuple[str, str] | None:
    """EC2's error, code and message, for the launch of an instance with this launch template data,
    of one of the types `names`, in one of these zones."""
    placement = data.get("Placement") or {}
    if not (name := placement.get("GroupName") or placement.get("GroupId")):
        return None
    row = _group_of(account, data)
    if row is None:
        return PLACEMENT_GROUPS.unknown[0], f"The Placement Group '{name}' is unknown."
    if row["Strategy"] != "cluster":
        return None
    for name in names:
        if name.partition(".")[0] in _NOT_IN_CLUSTERS:
            return (
                "InvalidParameterCombination",
                f"Cluster placement groups are not supported by the '{name}' instance type.",
            )
    if len(used := {*zones, *_members(account, row).values()}) > 1:
        return (
            "InvalidParameterCombination",
            f"The cluster placement group '{row['GroupName']}' cannot span multiple Availability "
            f"Zones: {', '.join(sorted(used))}",
        )
    return None


def _group_of(account: Account, data: Mapping[str, Any]) -> Row | None:
    placement = data.get("Placement") or {}
    for row in PLACEMENT_GROUPS.rows(account, {}).values():
        if row["GroupName"] == placement.get("GroupName") or row["GroupId"] == placement.get(
            "GroupId"
        ):
            return row
    return None


def _members(account: Account, row: Row) -> dict[str, str]:
    """Instance that the group holds -> its zone."""
    ec2 = account.backend("ec2")
    instances = [
        instance
        for group in account.groups.values()
        if _group_of(account, group.data) is row
        for instance in [*running(account, group), *warm_running(account, group)]
    ]
    instances += [
        instance
        for instance in ec2.all_instances()
        if _group_of(account, getattr(instance, "launch_data", {})) is row
    ]
    return {
        str(instance.id): ec2.get_subnet(instance.subnet_id).availability_zone
        for instance in instances
        if instance.state not in NOT_RUNNING
    }
