"""The state of Capacity Reservations and Capacity Blocks in EC2; read-only."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpu_cluster.components.cluster import ResolvedPool
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.eks.reservation import is_group
from gpu_cluster.components.scalers import Scaler
from gpu_cluster.components.schema.outputs import text
from gpu_cluster.stacks.capacity.aws_account import code_of, listed, unknown, zones_of
from gpu_cluster.stacks.capacity.reserved import CloudReservation, Reserved, State, Wanted

_STATES: Mapping[str, State] = {
    "active": "active",
    "scheduled": "later",
    "pending": "later",
    "payment-pending": "later",
    "assessing": "later",
    "delayed": "later",
}
"""Reservations in other states provide no machines any more."""
_PLATFORM, _TENANCY = "Linux/UNIX", "default"
_KINDS = {"default": "reservation", "capacity-block": "capacity-block"}
_NOT_THERE = (
    "InvalidCapacityReservationId.NotFound",
    "InvalidCapacityReservationId.Malformed",
    "NotFoundException",
)


def wanted(pools: Mapping[str, ResolvedPool[EksGpuNodeGroupArgs]], places: str) -> list[Wanted]:
    """The reservations that pools name. `places`: the setting with the pools' zones or subnets."""
    return [
        Wanted(
            pool=name,
            reservation=text(choice.args.reservation),
            types=tuple(choice.args.instance_types),
            places=places,
            zones=tuple(choice.places),
            # As one of several choices, it may have fewer machines than the pool.
            nodes=0 if pool.args.fallback else pool.pool.bounds[1],
            kind=choice.args.capacity_type,
        )
        for name, pool in pools.items()
        for choice in pool.choices
        if choice.args.reservation is not None
    ]


def reserved(ec2: Any, groups: Any, item: Wanted, own: Iterable[Mapping[str, Any]]) -> Reserved:
    """The reservation, or those of a resource group. `own`: the instances of the stack's own nodes.

    In an existing VPC, the zones are those of the pool's subnets.
    """
    hint = _hint(item, ec2.meta.region_name)
    try:
        zones = zones_of(ec2, item.zones)
        names = _members(groups, item.reservation)
        by_id = {"CapacityReservationIds": names}
        rows = ec2.describe_capacity_reservations(**by_id)["CapacityReservations"] if names else []
    except Exception as error:
        if code_of(error) in _NOT_THERE:
            return Reserved(wanted=item, reservations=(), hint=hint)
        return Reserved(wanted=item, reservations=unknown(error), hint=hint)
    taken = [instance.get("CapacityReservationId") for instance in own]
    reservations = tuple(_described(row, taken.count(row["CapacityReservationId"])) for row in rows)
    return Reserved(wanted=replace(item, zones=zones), reservations=reservations, hint=hint)


def unused(
    ec2: Any, pools: Mapping[str, ResolvedPool[EksGpuNodeGroupArgs]], scaler: Scaler
) -> list[str]:
    """A note for each open reservation that on-demand nodes of these pools, all of Karpenter's or
    Auto Mode's, do not use.

    Karpenter launches them with the preference `none` if its gate ReservedCapacity is on
    (karpenter.sh, "ODCRs": "does not support open matching"). Auto Mode uses open reservations
    until a pool names one (https://docs.aws.amazon.com/eks/latest/userguide/auto-odcr.html).
    """
    if scaler.serves_system and not any(pool.args.reservation for pool in pools.values()):
        return []
    buyers = {
        name: [
            kind
            for choice in pool.choices
            if choice.args.capacity_type == "on-demand"
            for kind in choice.args.instance_types
        ]
        for name, pool in pools.items()
        if "on-demand" in pool.args.purchases
    }
    if not buyers:
        return []
    try:
        rows = listed(ec2, "describe_capacity_reservations", "CapacityReservations")
    except Exception as error:
        return [f"gpuPools: open Capacity Reservations are not known: {unknown(error).reason}"]
    return [
        f"gpuPools.{name}: the open Capacity Reservation {row['CapacityReservationId']} has "
        f"{row['AvailableInstanceCount']} {row['InstanceType']} free, which {scaler.title} does "
        "not use for on-demand nodes: they are paid for twice; name it in reservation, with "
        "capacityType reservation or first in fallback"
        for row in rows
        for name, types in buyers.items()
        if row.get("InstanceMatchCriteria", "open") == "open"
        and (row["State"], row["InstanceType"] in types) == ("active", True)
        and row["AvailableInstanceCount"]
        and not _refusal(row)
        and pools[name].args.reservation != row["CapacityReservationId"]
    ]


def _members(groups: Any, reservation: str) -> list[str]:
    if not is_group(reservation):
        return [reservation]
    pages = groups.get_paginator("list_group_resources").paginate(Group=reservation)
    arns = [
        item["Identifier"]["ResourceArn"] for page in pages for item in page.get("Resources", ())
    ]
    return [arn.rpartition("/")[2] for arn in arns if ":capacity-reservation/" in arn]


def _described(row: Mapping[str, Any], own: int) -> CloudReservation:
    state_name = str(row["State"])
    return CloudReservation(
        name=row["CapacityReservationId"],
        type=row["InstanceType"],
        zone=row.get("AvailabilityZone", ""),
        zone_id=row.get("AvailabilityZoneId", ""),
        total=row["TotalInstanceCount"],
        free=row["AvailableInstanceCount"],
        own=own,
        state=_STATES.get(state_name, "over"),
        state_name=state_name,
        kind=_KINDS.get(row.get("ReservationType", "default"), "reservation"),
        start=row.get("StartDate"),
        end=row.get("EndDate"),
        refusal=_refusal(row),
    )


def _refusal(row: Mapping[str, Any]) -> str:
    """Why no node group can use it, whatever its type: EKS's images are Linux/UNIX, and its nodes
    have default tenancy (botocore, CapacityReservation)."""
    platform, tenancy = row.get("InstancePlatform", _PLATFORM), row.get("Tenancy", _TENANCY)
    if (platform, tenancy) == (_PLATFORM, _TENANCY):
        return ""
    return (
        f"{row['CapacityReservationId']} is for platform {platform} with {tenancy} tenancy, and "
        f"nodes are {_PLATFORM} with {_TENANCY} tenancy; reserve that kind"
    )


def _hint(item: Wanted, region: str) -> str:
    if item.kind == "capacity-block":
        return (
            "list the available offerings: aws ec2 describe-capacity-block-offerings "
            f"--region {region} --instance-type {item.types[0]} --instance-count {item.nodes or 1} "
            "--capacity-duration-hours 24"
        )
    return f"list the existing ones: aws ec2 describe-capacity-reservations --region {region}"
