"""The EC2 reservations that the nodes of a GPU node group use."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from ..catalog.eks import InstanceType
from ..scalers import SCALERS
from ..schema.limits import matching
from ..schema.outputs import MaybeOutput
from ..schema.refusal import Refusal, collected, refuse

CapacityType = Literal["on-demand", "spot", "reservation", "capacity-block"]
CAPACITY_TYPES = {
    "on-demand": "ON_DEMAND",
    "spot": "SPOT",
    # EKS treats it as on demand; only the launch template names the reservation.
    "reservation": "ON_DEMAND",
    "capacity-block": "CAPACITY_BLOCK",
}
"""`capacityType` in the settings -> EKS's capacity type."""
ID = re.compile(r"cr-[0-9a-f]{8,17}")
GROUP = re.compile(
    r"arn:aws(?:-[a-z]+)*:resource-groups:[a-z]{2}(?:-[a-z]+)+-[0-9]:[0-9]{12}:group/"
    r"(?:[a-zA-Z0-9_.-]{1,300}|[a-zA-Z0-9_.-]{1,150}/[a-z0-9]{26})"
)
"""The ARN of a resource group: `GroupArnV2` of botocore's model of Resource Groups."""
ReservationName = Annotated[
    MaybeOutput,
    matching(
        "the ID of a Capacity Reservation such as cr-0123456789abcdef0 or the ARN of a resource "
        "group of them such as arn:aws:resource-groups:us-east-1:123456789012:group/gpus",
        ID,
        GROUP,
    ),
]
_RESERVED = ("reservation", "capacity-block")


def is_group(reservation: str) -> bool:
    """Whether it is a resource group of Capacity Reservations, which may be in several zones."""
    return reservation.startswith("arn:")


def is_reserved(capacity_type: str) -> bool:
    """Whether nodes that are bought in this way use a reservation."""
    return capacity_type in _RESERVED


_ORDER = ("capacity-block", "reservation", "spot", "on-demand")


def check_choices(purchases: Sequence[str]) -> None:
    """Raises `Refusal` for choices that a pool cannot combine."""
    if {*_RESERVED} <= {*purchases}:
        raise refuse("fallback")(
            "lists both reservation and capacity-block, and a pool can have only one reservation",
            remedy="drop one of the two",
        )


def is_karpenters(fallback: Sequence[Any]) -> bool:
    """Whether a NodePool has this order: reserved capacity first, and then the cheapest.

    https://karpenter.sh/docs/concepts/nodepools/, "Capacity Type", 1.14, read 2026-11-24.
    """
    plain = all(isinstance(entry, str) for entry in fallback)
    return plain and list(fallback) == sorted(fallback, key=_ORDER.index)


def ways(kind: InstanceType) -> Sequence[str]:
    """The ways of buying nodes of this type."""
    if kind.blocks == "only":
        return ["capacity-block"]
    return [way for way in _ORDER if way != "capacity-block" or kind.blocks != "none"]


@collected
def check_reserved(purchases: Sequence[str], reservation: MaybeOutput | None) -> Iterator[Refusal]:
    """Raises `Refusal` unless a reservation is named exactly if one of these ways uses it."""
    reserved = any(map(is_reserved, purchases))
    if reserved and reservation is None:
        yield refuse("reservation")("is missing", remedy="name the reservation that the nodes use")
    again = [way for way in _RESERVED if list(purchases).count(way) > 1]
    if again and isinstance(reservation, str) and not is_group(reservation):
        yield refuse("fallback")(
            f"lists {again[0]} twice, and {reservation} is in one zone and of one instance type",
            remedy="drop one of the two, or name the resource group of several reservations",
        )
    if not reserved and reservation is not None:
        key = "fallback" if len(purchases) > 1 else "capacityType"
        yield refuse("reservation")(
            f"is not used with {key} {', '.join(dict.fromkeys(purchases))}",
            remedy=f"name {' or '.join(_RESERVED)} in capacityType or fallback, or drop the key",
        )


@collected
def check_purchase(
    way: str, reservation: MaybeOutput | None, types: Sequence[InstanceType], min_nodes: int
) -> Iterator[Refusal]:
    """Raises `Refusal` if nodes cannot be bought in this way."""
    block = way == "capacity-block"
    first = types[0]
    if first.blocks == "only" and not block:
        yield refuse("capacityType")(
            f"EC2 has {first.name} only in Capacity Blocks",
            remedy="set capacityType: capacity-block, with the block's reservation",
        )
    elif first.blocks == "none" and block:
        yield refuse("capacityType")(
            f"EC2 does not offer {first.name} in Capacity Blocks",
            remedy="use reservation, with an on-demand Capacity Reservation",
        )
    if reservation is None:
        return
    text = reservation if isinstance(reservation, str) else None
    if block and text and is_group(text):
        # eks/latest/userguide/capacity-blocks-mng.html requires a CapacityReservationId.
        yield refuse("reservation", reservation)(
            "is a resource group, and EKS takes a Capacity Block by its own ID only",
            remedy="give that, such as cr-0123456789abcdef0",
        )
    if len(types) > 1 and text and not is_group(text):
        yield refuse("instanceTypes")(
            f"{'a Capacity Block' if block else reservation} reserves one instance type",
            remedy="list only that one"
            if block
            else "list only that one, or, with cluster.scaler cluster-autoscaler, name the "
            "resource group of several reservations",
        )
    if block and min_nodes:
        yield refuse("minNodes", min_nodes)(
            "is not possible with a Capacity Block, whose nodes exist only between its start and "
            "its end; allowed: 0"
        )


def check_scaler(reservation: MaybeOutput | None, scaler: str) -> None:
    """Raises `Refusal` for a resource group if the scaler needs single reservations."""
    groups = SCALERS[scaler].node_groups
    if isinstance(reservation, str) and not groups and is_group(reservation):
        # capacityReservationSelectorTerms of EC2NodeClass (Karpenter 1.15.0) and NodeClass.
        raise refuse("reservation", reservation)(
            f"is not possible with cluster.scaler {scaler}: it takes a reservation by its ID; "
            "give one such as cr-0123456789abcdef0, or set cluster.scaler: cluster-autoscaler"
        )


def check_place(
    reservation: MaybeOutput | None, key: str, places: Sequence[str], *, block: bool
) -> None:
    """Raises `Refusal` unless the pool is in one zone, as a single reservation is. `key`: the
    setting with the pool's zones or subnets."""
    if not isinstance(reservation, str) or is_group(reservation) or len(places) == 1:
        return
    what = "a Capacity Block" if block else "a Capacity Reservation"
    raise refuse(key)(
        f"{what} is in one zone; name {'the subnet in ' * (key == 'subnetIds')}the zone of "
        f"{reservation}, which this command prints: aws ec2 describe-capacity-reservations "
        f"--region REGION --capacity-reservation-ids {reservation} --query "
        "'CapacityReservations[].[AvailabilityZone,AvailabilityZoneId]'"
    )


def check_region(reservation: MaybeOutput | None, region: str) -> None:
    """Raises `Refusal` for a resource group in another region."""
    if not isinstance(reservation, str) or not is_group(reservation):
        return
    zone = reservation.split(":")[3]
    if zone != region:
        raise refuse("reservation", reservation)(
            f"is a resource group of {zone}, and aws:region is {region}; name one of {region}"
        )
