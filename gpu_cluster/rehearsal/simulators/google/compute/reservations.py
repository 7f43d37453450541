"""Compute Engine's reservations, which existed before the stack."""

from collections.abc import Iterator
from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.compute import resources
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK
from gpu_cluster.rehearsal.simulators.google.container.reserved import owner_of, used_of
from gpu_cluster.rehearsal.simulators.reservations import Reservation


def _rows(call: Call, zone: str | None) -> Iterator[dict[str, Any]]:
    for number, reservation in enumerate(call.cloud.reservations):
        owner, name = owner_of(reservation, call.path["project"])
        if owner == call.path["project"] and zone in (None, reservation.zone):
            yield _row(call, reservation, owner, name, number)


def _row(call: Call, row: Reservation, owner: str, name: str, number: int) -> dict[str, Any]:
    place = f"{LINK}projects/{owner}/zones/{row.zone}"
    properties: dict[str, Any] = {"machineType": row.type}
    if row.accelerator:
        properties["guestAccelerators"] = [
            {"acceleratorType": row.accelerator, "acceleratorCount": row.gpus}
        ]
    shared: dict[str, Any] = {"shareType": "LOCAL"}
    if row.shared_with:
        shared = {
            "shareType": "SPECIFIC_PROJECTS",
            "projectMap": {project: {"projectId": project} for project in row.shared_with},
        }
    times = {"deleteAtTime": row.end.isoformat()} if row.end else {}
    return {
        "kind": "compute#reservation",
        "id": str(7_000_000_000_000_000 + number),
        "name": name,
        "zone": place,
        "selfLink": f"{place}/reservations/{name}",
        "status": "READY",
        "specificReservationRequired": True,
        "specificReservation": {
            "count": str(row.count),
            "inUseCount": str(used_of(call.cloud, row)),
            "assuredCount": str(row.count),
            "instanceProperties": properties,
        },
        "shareSettings": shared,
        **times,
    }


METHODS = resources.reads("reservations", _rows)
