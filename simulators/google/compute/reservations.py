"""Compute Engine's reservations, which others made before the stack came."""

from collections.abc import Iterator, Sequence
from typing import Any

from simulators.google.api.call import Call, not_found
from simulators.google.compute import resources
from simulators.google.compute.resources import LINK
from simulators.google.container.reserved import owner_of, used_of
from simulators.reservations import Reservation


def _rows(call: Call, zone: str | None = None) -> Iterator[dict[str, Any]]:
    for number, one in enumerate(call.cloud.reservations):
        owner, name = owner_of(one, call.path["project"])
        if owner == call.path["project"] and zone in (None, one.zone):
            yield _row(call, one, owner, name, number)


def _row(call: Call, one: Reservation, owner: str, name: str, number: int) -> dict[str, Any]:
    place = f"{LINK}projects/{owner}/zones/{one.zone}"
    properties: dict[str, Any] = {"machineType": one.type}
    if one.accelerator:
        properties["guestAccelerators"] = [
            {"acceleratorType": one.accelerator, "acceleratorCount": one.gpus}
        ]
    shared: dict[str, Any] = {"shareType": "LOCAL"}
    if one.shared_with:
        shared = {
            "shareType": "SPECIFIC_PROJECTS",
            "projectMap": {project: {"projectId": project} for project in one.shared_with},
        }
    times = {"deleteAtTime": one.end.isoformat()} if one.end else {}
    row = {
        "kind": "compute#reservation",
        "id": str(7_000_000_000_000_000 + number),
        "name": name,
        "zone": place,
        "selfLink": f"{place}/reservations/{name}",
        "status": "READY",
        "specificReservationRequired": True,
        "specificReservation": {
            "count": str(one.count),
            "inUseCount": str(used_of(call.cloud, one)),
            "assuredCount": str(one.count),
            "instanceProperties": properties,
        },
        "shareSettings": shared,
        **times,
    }
    return resources.row(call, row)


def _get(call: Call) -> dict[str, Any]:
    for one in _rows(call, call.path["zone"]):
        if one["name"] == call.path["reservation"]:
            return one
    raise not_found(call.name)


def _matching(call: Call, zone: str | None = None) -> Sequence[dict[str, Any]]:
    wanted = call.query.get("filter", "")
    return [one for one in _rows(call, zone) if resources.matches(one, wanted)]


def _list(call: Call) -> dict[str, Any]:
    rows = list(_matching(call, call.path["zone"]))
    return resources.listed(call, "compute#reservationList", rows)


def _aggregated(call: Call) -> dict[str, Any]:
    kind = "compute#reservationAggregatedList"
    return resources.aggregated(call, kind, "reservations", list(_matching(call)))


METHODS = {
    "compute.reservations.get": _get,
    "compute.reservations.list": _list,
    "compute.reservations.aggregatedList": _aggregated,
}
