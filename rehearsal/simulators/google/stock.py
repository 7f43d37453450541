"""Machines that Compute Engine runs out of, according to `stock` in an inventory."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rehearsal.simulators.google.container.reserved import affinity
from rehearsal.simulators.google.errors import ApiError
from rehearsal.simulators.google.resource import CloudResource
from rehearsal.simulators.stock import Stock


def bought_as(state: Mapping[str, Any]) -> str:
    """How a node pool's machines are bought, as a `capacityType`."""
    config = state["config"]
    if affinity(state):
        return "reservation"
    if config.get("spot"):
        return "spot"
    return "flex-start" if config.get("flexStart") else "on-demand"


def covers(row: Stock, pool: CloudResource, zone: str = "") -> bool:
    """Whether the row applies to the pool's machines; `zone`: only to those there."""
    config = pool.state["config"]
    return (
        config["machineType"] == row.machine_type
        and row.zone in ("", *([zone] if zone else pool.state["locations"]))
        and row.capacity_type in ("", bought_as(pool.state))
    )


def short_of(
    stock: Iterable[Stock],
    pools: Iterator[CloudResource],
    pool: CloudResource,
    wanted: int,
    zone: str = "",
    there: int = 0,
) -> Stock | None:
    """The row with too few machines for the pool to have `wanted` nodes, given all `pools`; with
    `zone`, for it to have `there` of them in that zone."""
    others = [one for one in pools if one.identity != pool.identity]
    for row in stock:
        if not covers(row, pool, zone):
            continue
        own = there if zone and row.zone else wanted
        if own + sum(one.nodes for one in others if covers(row, one)) > row.nodes:
            return row
    return None


def exhausted(pool: CloudResource, zone: str = "") -> ApiError:
    """https://docs.cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability
    (read 2026-11-24)."""
    project, zone = pool.identity.split("/")[1], zone or pool.state["locations"][0]
    return ApiError(
        429,
        f"ZONE_RESOURCE_POOL_EXHAUSTED: The zone 'projects/{project}/zones/{zone}' does not have "
        "enough resources available to fulfill the request. Try a different zone, or try again "
        "later.",
        reason="rateLimitExceeded",
    )
