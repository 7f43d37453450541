"""A Compute Engine reservation as the settings of a GKE pool name it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..catalog.gke import COMPUTE_NAME, PROJECT_ID
from ..schema.limits import matching, refusal
from ..schema.outputs import MaybeOutput
from ..schema.refusal import refuse

_PATH = re.compile(
    rf"(?:projects/(?P<owner>{PROJECT_ID})/reservations/)?(?P<name>{COMPUTE_NAME})"
    rf"(?:/reservationBlocks/(?P<block>{COMPUTE_NAME})(?:/reservationSubBlocks/(?P<sub_block>{COMPUTE_NAME}))?)?"
)
"""The format of GKE's `reservationAffinity.values`:
https://cloud.google.com/kubernetes-engine/docs/how-to/consuming-reservations"""
_ID = re.compile(rf".*projects/({PROJECT_ID})/zones/[^/]+/reservations/({COMPUTE_NAME})")


def _of_compute(path: str) -> str | None:
    """A form of Compute Engine's own, such as the output `id`, as the one of GKE."""
    if not (named := _ID.fullmatch(path)):
        return None
    return f"give {named[2]}, or of another project projects/{named[1]}/reservations/{named[2]}"


RESERVATION = matching(
    "a reservation; give its name, or projects/OWNER/reservations/NAME of one that another project "
    "shares, either with /reservationBlocks/BLOCK for a part of it, and the zone in zones",
    _PATH,
    hint=_of_compute,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A reservation or a part of one."""

    name: str
    owner: str | None
    """The project that shares it; None for the cluster's own."""
    block: str | None
    """A block of it, and a sub-block of that; None for the whole reservation."""
    sub_block: str | None


def parse_reservation(path: str) -> Reservation:
    """Parses a path; raises `Refusal` if it has another form."""
    match = _PATH.fullmatch(path)
    if refused := refusal([RESERVATION], path):
        raise refused.under("reservation")
    assert match is not None
    return Reservation(**match.groupdict())


def check_order(
    order: Sequence[str], reservation: MaybeOutput | None, any_reservation: bool
) -> None:
    """Raises `Refusal` unless `reservation` is set exactly if `order` contains that choice, or if
    `any_reservation` is set without on-demand nodes, the only ones that GKE takes from any."""
    if any_reservation and "on-demand" not in order:
        raise refuse("anyReservation")(
            f"is not used with capacityType {', '.join(order)}",
            remedy="set capacityType to on-demand, or drop the key",
        )
    if "reservation" in order and reservation is None:
        raise refuse("reservation")("is missing", remedy="name the reservation that the nodes use")
    if "reservation" not in order and reservation is not None:
        raise refuse("reservation")(
            f"is not used with capacityType {', '.join(order)}",
            remedy="set capacityType or fallback to reservation, or drop the key",
        )
