"""EC2's Capacity Reservations and Capacity Blocks: those of the account, who may read them, and why
an instance cannot start in one.

The messages are those of "Troubleshoot Amazon EC2 Auto Scaling: EC2 instance launch failures", the
codes those of "Error codes for the Amazon EC2 API" (docs.aws.amazon.com, read 2026-11-22).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import NUMBER, Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation
from gpu_cluster.rehearsal.simulators.aws.collection import filtered, filters
from gpu_cluster.rehearsal.simulators.aws.eks import NOT_RUNNING, running, subnets, warm_running
from gpu_cluster.rehearsal.simulators.aws.instances import (
    no_capacity,
    sold_out,
    why_no_addresses,
    why_no_quota,
)
from gpu_cluster.rehearsal.simulators.aws.launch_templates import tags_refusal
from gpu_cluster.rehearsal.simulators.aws.network_interfaces import interfaces_refusal
from gpu_cluster.rehearsal.simulators.aws.placement_groups import placement_refusal
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.aws.rows import Group
from gpu_cluster.rehearsal.simulators.reservations import Reservation

_FILTERS = {
    "instance-type": "InstanceType",
    "availability-zone": "AvailabilityZone",
    "state": "State",
    "owner-id": "OwnerId",
    "reservation-type": "ReservationType",
}
"""Name of a filter -> member of `CapacityReservation`."""
NO_ADDRESSES = "InsufficientFreeAddresses"
"""EKS's code of an issue; EC2's is `InsufficientFreeAddressesInSubnet`."""
_NO_CAPACITY = (
    "ReservationCapacityExceeded - The requested reservation does not have sufficient compatible "
    "and available capacity for this request."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The reservations that a launch template's instances use."""

    identity: str
    """A reservation's ID, or the ARN of a resource group."""
    block: bool
    """Whether it requests a Capacity Block."""
    only: bool
    """Whether instances start only in the reservations."""


def _target(template: Mapping[str, Any]) -> Target | None:
    """The target in a launch template's data; None if they name no reservation."""
    specification = template.get("CapacityReservationSpecification") or {}
    target = specification.get("CapacityReservationTarget") or {}
    row, group = (target.get(f"CapacityReservation{end}") for end in ("Id", "ResourceGroupArn"))
    if not (row or group):
        return None
    market = (template.get("InstanceMarketOptions") or {}).get("MarketType")
    preference = specification.get("CapacityReservationPreference")
    return Target(
        identity=str(row or group),
        block=market == "capacity-block",
        # A single reservation's instances start only in it; a group's may start elsewhere.
        only=bool(row) or preference == "capacity-reservations-only",
    )


def why_not_launched(account: Account, group: Group, nodes: int) -> str:
    """Why EC2 does not start `nodes` nodes of this node group, with Auto Scaling's message; empty
    if it does. Reserved instances were counted against the quota when they were reserved."""
    row, target = group.row, _target(group.data)
    more = nodes - len([*running(account, group), *warm_running(account, group)])
    if wrong := why_no_addresses(account, row["subnets"], row["instanceTypes"][0], more):
        return (
            f"Could not launch On-Demand Instances. {NO_ADDRESSES}InSubnet - {wrong} Launching EC2 "
            "instance failed."
        )
    asg = account.backend("autoscaling").autoscaling_groups.get(group.scaling_group)
    if too_many := tags_refusal(group.data, asg.get_propagated_tags() if asg else {}):
        code, message = too_many
        return f"Could not launch On-Demand Instances. {code} - {message}"
    zones = {subnet.availability_zone for subnet in subnets(account, row["subnets"])}
    if misfit := (
        interfaces_refusal(group.data, row["instanceTypes"][0])
        or placement_refusal(account, group.data, row["instanceTypes"], zones)
    ):
        code, message = misfit
        return f"Could not launch On-Demand Instances. {code} - {message}"
    if target is not None and target.only:
        return _why_not_reserved(account, row, target, nodes) if nodes else ""
    spot = row["capacityType"] == "SPOT"
    if wrong := _why_sold_out(account, group, "spot" if spot else "on-demand", nodes):
        return wrong
    return why_no_quota(account, row["nodegroupName"], row["instanceTypes"], spot, nodes)


def zones_with_room(account: Account, group: Group) -> int:
    """In how many of its zones EC2 has another instance for this node group, at least 1: where the
    group has nodes, as Auto Scaling would have started none elsewhere."""
    row, target = group.row, _target(group.data)
    if target is not None and target.only:
        return 1
    market = "spot" if row["capacityType"] == "SPOT" else "on-demand"
    zones = {subnet.availability_zone for subnet in subnets(account, row["subnets"])}
    sold = (
        all(sold_out(account, name, zone, market) for name in row["instanceTypes"])
        for zone in zones
    )
    return max(1, [*sold].count(False))


def _why_sold_out(account: Account, group: Group, market: str, nodes: int) -> str:
    """Why each of the group's types is sold out in each of its zones; empty if one is not."""
    instances = [*running(account, group), *warm_running(account, group)]
    wanted, row = nodes - len(instances), group.row
    zones = [subnet.availability_zone for subnet in subnets(account, row["subnets"])]
    offerings = [(name, zone) for zone in zones for name in row["instanceTypes"]]
    if wanted <= 0 or not all(
        sold_out(account, name, zone, market, wanted) for name, zone in offerings
    ):
        return ""
    kind = "Spot" if market == "spot" else "On-Demand"
    return (
        f"Could not launch {kind} Instances. InsufficientInstanceCapacity - "
        f"{no_capacity(*offerings[0], market)} Launching EC2 instance failed."
    )


def _why_not_reserved(account: Account, row: Mapping[str, Any], target: Target, nodes: int) -> str:
    chosen = _chosen(account, target.identity)
    words = "Could not launch On-Demand Instances. "
    if not chosen:
        return (
            f"{words}InvalidCapacityReservationId.NotFound - The capacity reservation ID "
            f"'{target.identity}' does not exist"
        )
    waiting = [row.name for row in chosen if row.block and _state(row) == "scheduled"]
    if target.block and waiting:
        return (
            f"{words}InvalidCapacityReservationState.PendingActivation - Your Capacity Block "
            f"reservation {waiting[0]} is not active yet. Launching EC2 instance failed."
        )
    taken = _taken(account, besides=row["nodegroupName"])
    free = sum(_free(reservation, taken) for reservation in _fitting(account, row, target))
    if nodes <= free:
        return ""
    reserved = "; ".join(_described(item, taken) for item in chosen)
    zones = [subnet.availability_zone for subnet in subnets(account, row["subnets"])]
    return (
        f"{words}{_NO_CAPACITY} Launching EC2 instance failed. ({reserved}; asked for: {nodes} of "
        f"{' or '.join(row['instanceTypes'])} in {', '.join(dict.fromkeys(zones))})"
    )


def _described(row: Reservation, taken: Mapping[str, int]) -> str:
    what = "Capacity Block" if row.block else "reservation"
    machines = f"{row.count} {row.type} in {row.zone}"
    return f"{what} {row.name} is {_state(row)}: {_free(row, taken)} of {machines}"


def _chosen(account: Account, identity: str) -> list[Reservation]:
    if identity.startswith("arn:"):
        return [row for row in account.reservations.values() if row.group == identity]
    return [reservation] if (reservation := account.reservations.get(identity)) else []


def place_of_next(account: Account, group: Group) -> str | None:
    """The reservation that this node group's next instance uses; None if it uses none."""
    target = _target(group.data)
    fitting = _fitting(account, group.row, target) if target else []
    taken = _taken(account)
    return next((reservation.name for reservation in fitting if _free(reservation, taken)), None)


def _fitting(account: Account, row: Mapping[str, Any], target: Target) -> list[Reservation]:
    places = subnets(account, row["subnets"])
    zones = {zone for row in places for zone in (row.availability_zone, row.availability_zone_id)}
    return [
        reservation
        for reservation in _chosen(account, target.identity)
        if reservation.type in row["instanceTypes"]
        and reservation.zone in zones
        and reservation.block == target.block
        and _state(reservation) == "active"
    ]


def _free(reservation: Reservation, taken: Mapping[str, int]) -> int:
    return max(reservation.count - reservation.used - taken.get(reservation.name, 0), 0)


def names_reservation(data: Mapping[str, Any]) -> bool:
    """Whether a launch template's data name a reservation."""
    return _target(data) is not None


def take_reservation(
    account: Account, data: Mapping[str, Any], name: str, zone: str
) -> tuple[str, str] | None:
    """The reservation in which an instance with this launch template's data starts, or why it
    cannot; None if the data name no reservation."""
    target = _target(data)
    if target is None:
        return None
    chosen, taken = _chosen(account, target.identity), _taken(account)
    for reservation in chosen:
        fits = (reservation.type, reservation.zone, reservation.block) == (name, zone, target.block)
        if fits and _state(reservation) == "active" and _free(reservation, taken):
            return reservation.name, ""
    if not chosen:
        words = f"The capacity reservation ID '{target.identity}' does not exist"
        return "", f"InvalidCapacityReservationId.NotFound - {words}"
    reserved = "; ".join(_described(row, taken) for row in chosen)
    return "", f"{_NO_CAPACITY} ({reserved}; asked for: {name} in {zone})"


def _taken(account: Account, besides: str = "") -> Counter[str]:
    """Reservation -> the instances in it, without those of the node group `besides`."""
    ours = account.groups.get(besides)
    own = [*running(account, ours), *warm_running(account, ours)] if ours else []
    left_out = {instance.id for instance in own}
    return Counter(
        instance.capacity_reservation_id
        for instance in account.backend("ec2").all_instances()
        if getattr(instance, "capacity_reservation_id", None)
        and instance.state not in NOT_RUNNING
        and instance.id not in left_out
    )


def _state(reservation: Reservation) -> str:
    now = datetime.now(UTC)
    if reservation.start is not None and now < reservation.start:
        return "scheduled"
    return "expired" if reservation.end is not None and now >= reservation.end else "active"


def _row(account: Account, reservation: Reservation, taken: Mapping[str, int]) -> dict[str, Any]:
    active = _state(reservation) == "active"
    free = _free(reservation, taken) if active else 0
    zones = account.client("ec2").describe_availability_zones()["AvailabilityZones"]
    ids = {zone["ZoneName"]: zone["ZoneId"] for zone in zones}
    start = reservation.start or datetime(2026, 1, 1, tzinfo=UTC)
    row = {
        "CapacityReservationId": reservation.name,
        "OwnerId": NUMBER,
        "CapacityReservationArn": account.arn("ec2", f"capacity-reservation/{reservation.name}"),
        "AvailabilityZone": reservation.zone,
        "InstanceType": reservation.type,
        "InstancePlatform": "Linux/UNIX",
        "Tenancy": "default",
        "TotalInstanceCount": reservation.count,
        "AvailableInstanceCount": free,
        "EbsOptimized": False,
        "EphemeralStorage": False,
        "State": _state(reservation),
        "StartDate": start,
        "CreateDate": start,
        "EndDateType": "limited" if reservation.end else "unlimited",
        "InstanceMatchCriteria": "targeted",
        "ReservationType": "capacity-block" if reservation.block else "default",
    }
    if reservation.zone in ids:
        row["AvailabilityZoneId"] = ids[reservation.zone]
    return row | ({"EndDate": reservation.end} if reservation.end else {})


@operation("ec2", "DescribeCapacityReservations")
def describe_capacity_reservations(account: Account, params: Params) -> dict[str, Any]:
    """Refuses an ID that does not exist, and filters that are not simulated."""
    wanted: Sequence[str] = params.get("CapacityReservationIds") or list(account.reservations)
    if missing := [name for name in wanted if name not in account.reservations]:
        raise Refusal(
            "InvalidCapacityReservationId.NotFound",
            f"The capacity reservation ID '{missing[0]}' does not exist",
        )
    taken = _taken(account)
    rows = [_row(account, account.reservations[word], taken) for word in wanted]
    return {"CapacityReservations": filtered(rows, filters(params), _FILTERS)}


@operation("resource-groups", "ListGroupResources")
def list_group_resources(account: Account, params: Params) -> dict[str, Any]:
    """Lists the Capacity Reservations of a group."""
    wanted = params.get("Group") or params.get("GroupName") or ""
    inside = [
        row
        for row in account.reservations.values()
        if row.group and wanted in (row.group, row.group.rpartition("group/")[2])
    ]
    if not inside:
        raise Refusal("NotFoundException", f"Cannot find group: {wanted}")
    identifiers = [
        {
            "ResourceArn": account.arn("ec2", f"capacity-reservation/{reservation.name}"),
            "ResourceType": "AWS::EC2::CapacityReservation",
        }
        for reservation in inside
    ]
    return {
        "Resources": [{"Identifier": identifier} for identifier in identifiers],
        "ResourceIdentifiers": identifiers,
    }
