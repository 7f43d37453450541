"""A Compute Engine reservation as its API describes it, `compute.reservations` of v1."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from gpu_cluster.components.catalog import gke as catalog
from gpu_cluster.components.gke.reservation import parse_reservation
from gpu_cluster.stacks.capacity.reserved import CloudReservation, State

_STATES: Mapping[str, State] = {"READY": "active", "CREATING": "later", "UPDATING": "active"}


def machine(machine_type: str, accelerator: str, count: int) -> str:
    """A description of a machine; for N1, with the GPUs that are attached to it."""
    shape = catalog.machine_type(machine_type)
    built_in = shape is not None and shape.accelerator is not None
    return machine_type if built_in else f"{machine_type} with {count} {accelerator}"


def described(
    row: Mapping[str, Any], zone: str, own: int, project: str, owner: str
) -> CloudReservation:
    """The share of `project` in a reservation of the project `owner`; `own`: machines in it that
    are its own nodes."""
    sku = row.get("specificReservation", {})
    properties = sku.get("instanceProperties", {})
    kind = str(properties.get("machineType", "unknown"))
    attached = properties.get("guestAccelerators") or []
    if attached:
        first = attached[0]
        name = str(first["acceleratorType"]).rpartition("/")[2]
        kind = machine(kind, name, int(first["acceleratorCount"]))
    total = int(sku.get("count", 0))
    state_name = str(row.get("status", "unknown"))
    end = row.get("deleteAtTime")
    return CloudReservation(
        name=str(row["name"])
        if owner == project
        else f"projects/{owner}/reservations/{row['name']}",
        type=kind,
        zone=zone,
        total=total,
        free=max(total - int(sku.get("inUseCount", 0)), 0),
        own=own,
        state=_STATES.get(state_name, "over"),
        state_name=state_name,
        end=datetime.fromisoformat(end) if isinstance(end, str) else None,
        refusal=_refusal(row, project, owner),
    )


def _refusal(row: Mapping[str, Any], project: str, owner: str) -> str:
    if not row.get("specificReservationRequired"):
        return (
            f"{row['name']} is open to any matching machine, and GKE can use a reservation by "
            "name only if it was created with --require-specific-reservation"
        )
    if owner == project:
        return ""
    share = row.get("shareSettings") or {}
    kind = share.get("shareType", "LOCAL")
    projects = [item.get("projectId", key) for key, item in (share.get("projectMap") or {}).items()]
    if kind == "ORGANIZATION" or (kind == "SPECIFIC_PROJECTS" and project in projects):
        return ""
    return f"{row['name']} of {owner} is not shared with {project}; have {owner} share it"


def own_nodes(
    reservation: str, zone: str, instances: Sequence[tuple[str, Mapping[str, Any]]]
) -> int:
    """The number of a cluster's machines in a zone that use a reservation."""
    name = parse_reservation(reservation).name
    return sum(where == zone and name in _names(instance) for where, instance in instances)


def _names(instance: Mapping[str, Any]) -> list[str]:
    values = instance["reservationAffinity"].get("values") or [] if specific(instance) else []
    return [parse_reservation(value).name for value in values]


def specific(instance: Mapping[str, Any]) -> bool:
    """Whether a machine uses a reservation that it names."""
    affinity = instance.get("reservationAffinity") or {}
    return affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION"
