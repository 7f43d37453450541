"""What GKE changes of a node pool, and what of it recreates the nodes."""

import copy
from collections.abc import Mapping
from typing import Any

from rehearsal.simulators.cloud import NODE_SECONDS
from rehearsal.simulators.google.api.call import ApiError, Call, bad_request
from rehearsal.simulators.google.container import node_defaults, node_pools
from rehearsal.simulators.google.container.operations import updating
from rehearsal.simulators.google.resource import CloudResource

_OF_CONFIG = (
    "imageType", "machineType", "diskType", "workloadMetadataConfig", "linuxNodeConfig",
    "kubeletConfig", "gcfsConfig", "confidentialNodes", "gvnic", "fastSocket", "loggingConfig",
    "windowsNodeConfig", "containerdConfig", "taintConfig", "resourceManagerTags", "storagePools",
    "bootDisk", "accelerators", "flexStart", "maxRunDuration", "consolidationDelay",
)  # fmt: skip
_LISTED = {"labels": "labels", "resourceLabels": "labels", "tags": "tags", "taints": "taints"}
"""Fields of the config whose value comes in a block -> its name there."""
_OF_POOL = (
    "locations", "upgradeSettings", "nodeDrainConfig", "queuedProvisioning", "maintenancePolicy",
)  # fmt: skip
_ADDRESS = ("name", "nodePoolId", "clusterId", "projectId", "zone", "etag")
_RECREATING = (
    "machineType", "diskSizeGb", "diskType", "imageType", "gcfsConfig", "gvnic",
    "workloadMetadataConfig", "loggingConfig", "kubeletConfig", "linuxNodeConfig",
    "containerdConfig", "accelerators",
)  # fmt: skip


def _update(call: Call) -> dict[str, Any]:
    pool = call.cloud.found(call.name)
    given = {name: value for name, value in call.body.items() if name not in _ADDRESS}
    state = copy.deepcopy(pool.state)
    for name, value in given.items():
        if name in _OF_CONFIG:
            state["config"][name] = value
        elif name in _LISTED:
            state["config"][name] = value.get(_LISTED[name], [] if name != "labels" else {})
        elif name in _OF_POOL:
            state[name] = value
        elif name == "diskSizeGb":
            state["config"][name] = int(value)
        elif name == "nodeNetworkConfig":
            state["networkConfig"] = state["networkConfig"] | value
        elif name == "nodeVersion":
            state["version"] = value
        else:
            raise ApiError(501, f"a rehearsal does not simulate an update of a pool's {name}")
    if not given:
        raise bad_request("Must specify a field to update.")
    return change(call, pool, state)


def change(
    call: Call, pool: CloudResource, state: dict[str, Any], kind: str = "UPGRADE_NODES"
) -> dict[str, Any]:
    """Makes `state` the pool's, where GKE allows it; the operation."""
    cluster = call.cloud.found(pool.parent or "")
    if state["version"] == "-":
        state["version"] = cluster.state["currentMasterVersion"]
    node_defaults.complete(state, cluster.state)
    node_pools.check(call.cloud, cluster, state)
    had_taint = node_pools.GPU_TAINT in pool.state["config"].get("taints", ())
    node_pools.add_driver_and_taints(state, added=had_taint)
    seconds = 0.0
    if recreates(pool.state, state):
        pool.revision += 1
        surge = state["upgradeSettings"]
        at_once = max(surge.get("maxSurge", 0) + surge.get("maxUnavailable", 0), 1)
        seconds = NODE_SECONDS * float(-(-pool.nodes // at_once))
    pool.state = state
    return updating(call, kind, pool.identity, simulated_seconds=seconds)


def recreates(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether GKE recreates the nodes of a pool for this change: labels, taints and tags are put on
    the nodes that run (cloud.google.com, "Manage cluster lifecycle changes")."""
    before, after = old["config"], new["config"]
    return old["version"] != new["version"] or any(
        before.get(field) != after.get(field) for field in _RECREATING
    )


def set_autoscaling(call: Call, pool: CloudResource, scaling: Mapping[str, Any]) -> dict[str, Any]:
    """New bounds; the nodes follow them."""
    state = copy.deepcopy(pool.state) | {"autoscaling": dict(scaling)}
    answer = change(call, pool, state)
    if (least := node_pools.least(pool.state)) > pool.nodes:
        resize(call, pool, least)
    return answer


def resize(call: Call, pool: CloudResource, wanted: int) -> None:
    """Brings or takes away nodes, of all zones together; raises ApiError where they do not start.

    Those that the cloud itself keeps go first, as the autoscaler's may be busy.
    """
    call.cloud.check_start(pool, wanted)
    pool.kept_nodes = max(pool.kept_nodes + wanted - pool.nodes, 0)
    pool.nodes = wanted


def _set_size(call: Call) -> dict[str, Any]:
    pool = call.cloud.found(call.name)
    resize(call, pool, call.body.get("nodeCount", 0) * len(pool.state["locations"]))
    return updating(call, "SET_NODE_POOL_SIZE", pool.identity)


def _set_autoscaling(call: Call) -> dict[str, Any]:
    return set_autoscaling(call, call.cloud.found(call.name), call.body.get("autoscaling") or {})


def _set_management(call: Call) -> dict[str, Any]:
    pool = call.cloud.found(call.name)
    state = copy.deepcopy(pool.state) | {"management": call.body.get("management") or {}}
    return change(call, pool, state, "SET_NODE_POOL_MANAGEMENT")


_PREFIX = "container.projects.locations.clusters.nodePools."
METHODS = {
    f"{_PREFIX}update": _update,
    f"{_PREFIX}setSize": _set_size,
    f"{_PREFIX}setAutoscaling": _set_autoscaling,
    f"{_PREFIX}setManagement": _set_management,
}
