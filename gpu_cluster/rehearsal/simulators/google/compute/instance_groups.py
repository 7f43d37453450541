"""Managed instance groups that GKE creates for its node pools: one in each zone of a pool."""

from collections.abc import Iterator
from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.compute import resources
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK
from gpu_cluster.rehearsal.simulators.google.container.node_pool_updates import resize
from gpu_cluster.rehearsal.simulators.google.container.node_pools import group_name
from gpu_cluster.rehearsal.simulators.google.container.tokens import NODE_POOL
from gpu_cluster.rehearsal.simulators.google.errors import not_found
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource


def _managers(call: Call) -> Iterator[tuple[str, CloudResource, dict[str, Any]]]:
    """Full name, pool and body of each manager in the call's zone."""
    zone = call.path["zone"]
    place = f"projects/{call.path['project']}/zones/{zone}"
    for pool in call.cloud.of(NODE_POOL):
        zones = pool.state["locations"]
        if zone not in zones or not pool.identity.startswith(f"projects/{call.path['project']}/"):
            continue
        name = group_name(pool.identity.split("/")[5], pool.state["name"])
        identity = f"{place}/instanceGroupManagers/{name}"
        yield identity, pool, {
            "kind": "compute#instanceGroupManager",
            "id": str(sum(identity.encode()) * 10**12),
            "name": name,
            "baseInstanceName": name.removesuffix("-grp"),
            "zone": LINK + place,
            "instanceGroup": f"{LINK}{place}/instanceGroups/{name}",
            "instanceTemplate": f"{LINK}projects/{call.path['project']}/global/instanceTemplates/"
            f"{name.removesuffix('-grp')}",
            "selfLink": LINK + identity,
            "targetSize": size_in(pool, zones.index(zone)),
            "status": {"isStable": True},
        }  # fmt: skip


def size_in(pool: CloudResource, zone: int) -> int:
    """The number of a pool's nodes in a zone, given by its index: they are spread evenly."""
    zones = len(pool.state["locations"])
    return pool.nodes // zones + (zone < pool.nodes % zones)


def _found(call: Call, name: str) -> tuple[CloudResource, dict[str, Any]]:
    for identity, pool, body in _managers(call):
        if identity == name:
            return pool, body
    raise not_found(name)


def _get(call: Call) -> dict[str, Any]:
    return resources.shown(call, _found(call, call.name)[1])  # type: ignore[no-any-return]


def _list(call: Call) -> dict[str, Any]:
    rows = [
        body
        for _, _, body in _managers(call)
        if resources.matches(body, call.query.get("filter", ""))
    ]
    page = resources.shown(call, resources.page(call, rows))
    return {"kind": "compute#instanceGroupManagerList", "id": call.name, **page}


def _resize(call: Call) -> dict[str, Any]:
    """Sets another size in this zone, as another owner's autoscaler might."""
    identity = call.name.removesuffix("/resize")
    pool, body = _found(call, identity)
    resize(call, pool, pool.nodes - body["targetSize"] + int(call.query["size"]))
    return resources.operation(call, "resize", identity)


METHODS = {
    "compute.instanceGroupManagers.get": _get,
    "compute.instanceGroupManagers.list": _list,
    "compute.instanceGroupManagers.resize": _resize,
}
