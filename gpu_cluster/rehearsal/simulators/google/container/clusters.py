"""GKE clusters: created, read and deleted, backed by the rehearsal's control plane."""

import copy
import threading
from typing import Any

from gpu_cluster.components.catalog.gke import CLUSTER_NAME, is_zone
from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.container import (
    cluster_defaults,
    cluster_rules,
    node_pools,
    shared_vpc,
)
from gpu_cluster.rehearsal.simulators.google.container.locations import (
    check_location,
    node_locations,
)
from gpu_cluster.rehearsal.simulators.google.container.operations import (
    broken,
    one_at_a_time,
    operation,
    without_defaults,
)
from gpu_cluster.rehearsal.simulators.google.container.tokens import (
    CLUSTER,
    DEFAULT_POOL,
    NODE_POOL,
)
from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.google.state import CloudState

BOOT_SECONDS = 1.0
"""Seconds until machines of GKE's default pool join; in GKE, less than a minute. A provider that
does not want the pool deletes it before that."""


def _create(call: Call) -> dict[str, Any]:
    state = copy.deepcopy(call.body.get("cluster") or {})
    name, location = state.get("name") or "", call.path["locationsId"]
    if not CLUSTER_NAME.fullmatch(name):
        raise bad_request(
            f"Invalid value for field \"cluster.name\": '{name}': at most 40 of a-z, 0-9 and "
            "hyphens, from a letter to a letter or digit"
        )
    identity = f"{call.name}/{name}"
    if identity in call.cloud.resources:
        raise ApiError(409, f"Already exists: {identity}")
    if (other := next(call.cloud.of(CLUSTER), None)) is not None:
        raise ApiError(
            501, f"a rehearsal simulates one cluster at a time, and has {other.identity}"
        )
    check_location(location)
    zones = node_locations(location, [z for z in state.get("locations", ()) if z != location])
    state |= {"location": location, "zone": location, "locations": zones}
    uses = cluster_rules.networks_of(identity, state)
    shared_vpc.check_network(call.cloud, identity, *uses)
    pools = _first_pools(state)
    cluster_defaults.complete(call.cloud, identity, state, uses)
    cluster_rules.check_cluster(call.cloud, identity, state, uses)
    cluster_defaults.bring_workload_pool(call.cloud, state)
    cluster = CloudResource(
        token=CLUSTER, display_name="cluster", identity=identity, state=state, depends_on=uses
    )
    call.cloud.resources[identity] = cluster
    try:
        for pool in pools:
            node_pools.add_node_pool(call.cloud, cluster, pool, booting=BOOT_SECONDS > 0)
    except ApiError:
        call.cloud.remove(identity)
        raise
    return operation(call, "CREATE_CLUSTER", identity, work=lambda: _start(call.cloud, cluster))


def _first_pools(state: dict[str, Any]) -> list[dict[str, Any]]:
    """The pools created with a cluster: the requested ones, or GKE's default pool."""
    given, own = state.pop("nodePools", []), state.get("nodeConfig", {})
    if (state.get("autopilot") or {}).get("enabled"):
        if is_zone(state["location"]):
            raise bad_request("Autopilot clusters must be regional clusters")
        return []
    count = state.setdefault("initialNodeCount", 0)
    if not given and count < 1:
        raise bad_request("Cluster.initial_node_count must be greater than zero")
    return given or [
        {"name": DEFAULT_POOL, "initialNodeCount": count, "config": copy.deepcopy(own)}
    ]


def _start(cloud: CloudState, cluster: CloudResource) -> None:
    """Starts the control plane with the kinds of managed Prometheus, and then the nodes."""
    with cloud.lock:
        pools = [pool for pool in cloud.of(NODE_POOL) if pool.parent == cluster.identity]
        nodes = sum(pool.nodes for pool in pools) or 1  # Autopilot starts with its own nodes
        failure = cloud.ends_half_way("CREATE_CLUSTER")
        if failure := failure or shared_vpc.failure(cloud, cluster, nodes):
            for pool in pools:
                broken(pool, failure)
            raise broken(cluster, failure)
    try:
        cloud.control_plane.ensure_started(cluster.state["currentMasterVersion"])
        cluster_defaults.bring_kinds(cloud, cluster.state)
    except Exception as error:
        with cloud.lock:
            cloud.remove(cluster.identity)
        raise ApiError(500, str(error)) from error
    with cloud.lock:
        cluster.state["status"] = "RUNNING"
    timer = threading.Timer(BOOT_SECONDS, _booted, (cloud, cluster))
    timer.daemon = True
    timer.start()
    cloud.notify()


def _booted(cloud: CloudState, cluster: CloudResource) -> None:
    with cloud.lock:
        for pool in cloud.of(NODE_POOL):
            if pool.parent == cluster.identity and pool.state["status"] == "PROVISIONING":
                pool.state["status"] = "RUNNING"
    cloud.notify()


def cluster_form(call: Call, cluster: CloudResource) -> dict[str, Any]:
    """A cluster in the API's form, with its pools."""
    pools = [pool for pool in call.cloud.of(NODE_POOL) if pool.parent == cluster.identity]
    rows = [node_pools.pool_form(call, pool) for pool in pools]
    nodes = sum(pool.nodes for pool in pools)
    busy = cluster.state["status"] == "RUNNING" and call.cloud.operations.running(cluster.identity)
    found = {
        **cluster.state,
        **({"status": "RECONCILING"} if busy else {}),  # as in GKE's document
        "selfLink": f"https://container.googleapis.com/{call.version}/{cluster.identity}",
        "nodePools": rows,
        "instanceGroupUrls": [url for row in rows for url in row.get("instanceGroupUrls", ())],
        "currentNodeCount": nodes,
    }
    return without_defaults(found)  # type: ignore[no-any-return]


def _get(call: Call) -> dict[str, Any]:
    return cluster_form(call, call.cloud.found(call.name))


def _list(call: Call) -> dict[str, Any]:
    place = call.name.removesuffix("/clusters")
    found = [
        cluster_form(call, cluster)
        for cluster in call.cloud.of(CLUSTER)
        if place.endswith("/locations/-") or cluster.identity.startswith(f"{place}/")
    ]
    return {"clusters": found} if found else {}


def _delete(call: Call) -> dict[str, Any]:
    cluster = call.cloud.found(call.name)
    cluster.state["status"] = "STOPPING"

    def stop() -> None:
        call.cloud.control_plane.stop()
        with call.cloud.lock:
            call.cloud.remove(cluster.identity)
        call.cloud.notify()

    return operation(call, "DELETE_CLUSTER", call.name, work=stop)


_PREFIX = "container.projects.locations.clusters."
ENDPOINTS = {"CONTAINER": "container/v1beta1/"}
METHODS = {
    f"{_PREFIX}create": _create,
    f"{_PREFIX}get": _get,
    f"{_PREFIX}list": _list,
    **one_at_a_time({f"{_PREFIX}delete": _delete}),
}
