"""Machines that Compute Engine runs out of, according to `stock` in an inventory."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.google.container.node_defaults import queued
from gpu_cluster.rehearsal.simulators.google.container.reserved import affinity
from gpu_cluster.rehearsal.simulators.google.errors import ApiError
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.stock import Stock


def bought_as(state: Mapping[str, Any]) -> str:
    """How a node pool's machines are bought, as a `capacityType`."""
    config = state["config"]
    if affinity(state):
        return "reservation"
    if config.get("spot"):
        return "spot"
    return "flex-start" if config.get("flexStart") else "on-demand"


def short_of(
    stock: Iterable[Stock],
    pools: Collection[CloudResource],
    machine: tuple[str, str],
    more: int,
    zone: str,
    placed: Mapping[tuple[str, str], int],
) -> Stock | None:
    """The row with too few machines for `more` nodes in the zone, given all `pools`. `machine`:
    their type, and how they are bought; `placed`: the nodes of queued pools and of pools with
    several zones, by name and zone."""
    for row in stock:
        if not _covers(row, machine) or row.zone not in ("", zone):
            continue
        of_row = (pool for pool in pools if _covers(row, machine_of(pool)))
        used = sum(_nodes(pool, row.zone, placed) for pool in of_row)
        if more + used > row.nodes:
            return row
    return None


def machine_of(pool: CloudResource) -> tuple[str, str]:
    """The type of a pool's machines, and how they are bought."""
    return pool.state["config"]["machineType"], bought_as(pool.state)


def _covers(row: Stock, machine: tuple[str, str]) -> bool:
    return machine[0] == row.machine_type and row.capacity_type in ("", machine[1])


def _nodes(pool: CloudResource, zone: str, placed: Mapping[tuple[str, str], int]) -> int:
    """Its nodes in a zone, empty for all."""
    if zone and (queued(pool.state) or len(pool.state["locations"]) > 1):
        return placed.get((pool.state["name"], zone), 0)
    return pool.nodes if zone in ("", pool.state["locations"][0]) else 0


def exhausted(pool: CloudResource, zone: str) -> ApiError:
    """https://docs.cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability
    (read 2026-11-24)."""
    project = pool.identity.split("/")[1]
    return ApiError(
        429,
        f"ZONE_RESOURCE_POOL_EXHAUSTED: The zone 'projects/{project}/zones/{zone}' does not have "
        "enough resources available to fulfill the request. Try a different zone, or try again "
        "later.",
        reason="rateLimitExceeded",
    )
