"""Why a node pool's machines cannot use the reservation that the pool names.

GKE's messages are from two reports of its users (gsutil issue 1000, cluster-toolkit pull request
5043), Compute Engine's from Cluster Autoscaler, which recognises errors by them
(cluster-autoscaler/cloudprovider/gce/autoscaling_gce_client.go, read 2026-11-22).
"""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.components.catalog.gke import ACCELERATORS, machine_type, region_of
from gpu_cluster.rehearsal.simulators.google.container.machine_families import (
    cache_ssds,
    local_ssds,
    pool_ssds,
)
from gpu_cluster.rehearsal.simulators.google.container.node_defaults import accelerator_of
from gpu_cluster.rehearsal.simulators.google.errors import ApiError
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.google.state import CloudState
from gpu_cluster.rehearsal.simulators.reservations import Reservation

_BLOCKS = "/reservationBlocks/"


def affinity(state: Mapping[str, Any]) -> str:
    """The reservation of a node pool's machines, as the pool names it; empty if it names none."""
    found = state["config"].get("reservationAffinity") or {}
    if found.get("consumeReservationType") != "SPECIFIC_RESERVATION":
        return ""
    return str(next(iter(found.get("values") or []), ""))


def check_new(cloud: CloudState, pool: Mapping[str, Any], identity: str, nodes: int) -> None:
    """Raises ApiError, with GKE's message, for a pool whose reservation does not exist, or has
    fewer machines than the pool's initial nodes."""
    if not (path := affinity(pool)):
        return
    project, name = identity.split("/")[1], identity.rpartition("/")[2]
    zones = pool["locations"]
    for zone in zones:
        found = found_in(cloud, path, project, zone)
        if found is None:
            raise ApiError(
                404,
                f'Google Compute Engine: reservation "{path}" not found for node pool "{name}" at '
                f'zone "{zone}".',
            )
        wanted = -(-nodes // len(zones))
        free = _free(cloud, found, pool, besides=identity)
        if wanted > free:
            raise ApiError(
                429,
                "Reservation does not have enough resources for the request: specific reservation "
                f'"{path}" is insufficient for node pool "{name}" at zone "{zone}": required '
                f"{wanted} and short of {wanted - free} VM count of machine type "
                f"{pool['config']['machineType']}.",
            )


def check_start(cloud: CloudState, pool: CloudResource, wanted: int) -> None:
    """Raises ApiError, with Compute Engine's message, if the pool's reservation does not have
    machines for that many nodes."""
    if not (path := affinity(pool.state)):
        return
    project = pool.identity.split("/")[1]
    reservations = [found_in(cloud, path, project, zone) for zone in pool.state["locations"]]
    found = [reservation for reservation in reservations if reservation is not None]
    if not found:
        raise ApiError(404, f"Specified reservations [{path}] do not exist.")
    if not any(_fits(row, pool.state) for row in found):
        what = ", ".join(_machine(item) for item in found)
        raise ApiError(
            412, f"No available resources in specified reservations '{path}' ({what}, and the pool "
            f"has {_wanted(pool.state)})"
        )  # fmt: skip
    free = sum(_free(cloud, row, pool.state, besides=pool.identity) for row in found)
    if wanted > free:
        raise ApiError(
            412,
            f"Specified reservation '{path}' does not have available resources for the request. "
            f"({free} free, needed: {wanted})",
        )


def in_region(cloud: CloudState, path: str, project: str, region: str) -> Reservation | None:
    """The reservation in a zone of this region, if it exists and the project may use it."""
    zones = dict.fromkeys(reservation.zone for reservation in cloud.reservations)
    found = (found_in(cloud, path, project, zone) for zone in zones if region_of(zone) == region)
    return next((reservation for reservation in found if reservation is not None), None)


def found_in(cloud: CloudState, path: str, project: str, zone: str) -> Reservation | None:
    """The reservation in this zone, if it exists and the project may use it."""
    whole, _, block = path.partition(_BLOCKS)
    block = block.partition("/")[0]
    for row in cloud.reservations:
        owner, name = owner_of(row, project)
        meant = whole in (name, f"projects/{owner}/reservations/{name}")
        # A plain name refers to a reservation of the project itself.
        mine = owner == project or ("/" in whole and project in row.shared_with)
        if meant and mine and row.zone == zone and (not block or block in row.blocks):
            return row
    return None


def owner_of(reservation: Reservation, project: str) -> tuple[str, str]:
    """Project and name; a reservation without a project belongs to the caller's."""
    parts = reservation.name.split("/")
    return (parts[1], parts[3]) if len(parts) == 4 else (project, reservation.name)


def _fits(reservation: Reservation, state: Mapping[str, Any]) -> bool:
    return _machine(reservation) == _wanted(state)


def _machine(row: Reservation) -> str:
    return _described(row.type, row.gpus, row.accelerator, row.ssds)


def _wanted(state: Mapping[str, Any]) -> str:
    machine, found = state["config"]["machineType"], accelerator_of(state)
    ssds = sum(pool_ssds(state["config"])) + cache_ssds(state["config"]) - local_ssds(machine)[0]
    if found and found[0].machine_family == "n1":
        return _described(machine, found[1], found[0].name, ssds)
    return _described(machine, 0, "", ssds)


def _described(machine: str, gpus: int, accelerator: str, ssds: int) -> str:
    """The properties in which a machine must be as the reserved ones."""
    parts = [f"{gpus} {accelerator}"] if accelerator else []
    parts += [f"{ssds} local SSDs"] if ssds else []
    return f"{machine} with {' and '.join(parts)}" if parts else machine


def _free(cloud: CloudState, row: Reservation, state: Mapping[str, Any], besides: str = "") -> int:
    return max(row.count - used_of(cloud, row, besides), 0) if _fits(row, state) else 0


def used_of(cloud: CloudState, reservation: Reservation, besides: str = "") -> int:
    """The machines of a reservation in use: by others, and by node pools."""
    used = reservation.used
    for pool in cloud.pools():
        path, zones = affinity(pool.state), pool.state["locations"]
        if not path or reservation.zone not in zones or pool.identity == besides:
            continue
        if found_in(cloud, path, pool.identity.split("/")[1], reservation.zone) is reservation:
            number = zones.index(reservation.zone)
            used += pool.nodes // len(zones) + (number < pool.nodes % len(zones))
    return used


def reserved_gpus(cloud: CloudState, metric: str | None, region: str | None) -> int:
    """The GPUs of the project's own reservations, which count against a quota whether they run or
    not. None: in all metrics and regions."""
    found = 0
    for reservation in cloud.reservations:
        machine = machine_type(reservation.type)
        accelerator = reservation.accelerator or (machine.accelerator if machine else None)
        if "/" in reservation.name or accelerator is None or machine is None:
            continue
        counted = metric in (None, ACCELERATORS[accelerator].quota_metric)
        if counted and (region is None or reservation.zone.startswith(f"{region}-")):
            found += reservation.count * (reservation.gpus or int(machine.gpus))
    return found
