"""How GKE updates a node pool, and which updates recreate its nodes."""

import copy
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from math import ceil
from typing import Any

from gpu_cluster.rehearsal.simulators.cloud import NODE_SECONDS, wait_for_nodes
from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.container import node_defaults, node_pools
from gpu_cluster.rehearsal.simulators.google.container.operations import (
    fields,
    one_at_a_time,
    updating,
)
from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.google.state import CloudState

_ADDRESS = ("name", "nodePoolId", "clusterId", "projectId", "zone", "etag")
_RECREATING = (
    "machineType", "diskSizeGb", "diskType", "imageType", "gcfsConfig", "gvnic",
    "workloadMetadataConfig", "loggingConfig", "kubeletConfig", "linuxNodeConfig",
    "containerdConfig", "accelerators",
)  # fmt: skip
_IN_PLACE = ("labels", "resourceLabels", "resourceManagerTags", "tags", "taints")
"""Fields of the config that GKE applies to running nodes (cloud.google.com, "Manage cluster
lifecycle changes"). A field in neither list is assumed to recreate the nodes."""


def _update(call: Call) -> dict[str, Any]:
    pool = call.cloud.found(call.name)
    sent = {name: value for name, value in call.body.items() if name not in _ADDRESS}
    state = copy.deepcopy(pool.state)
    for name, value in sent.items():
        if name in fields("NodeConfig"):
            state["config"][name] = _as_in_config(name, value)
        elif name in fields("NodePool"):
            state[name] = value
        elif name == "nodeNetworkConfig":
            state["networkConfig"] = state["networkConfig"] | value
        elif name == "nodeVersion":
            state["version"] = value
        else:
            raise ApiError(501, f"a rehearsal does not simulate an update of a pool's {name}")
    if not sent:
        raise bad_request("Must specify a field to update.")
    return change(call, pool, state)


def _as_in_config(name: str, value: Any) -> Any:
    """The value as in a `NodeConfig`: an update wraps lists and maps, and quotes integers."""
    kind = fields("NodeConfig")[name]
    if "$ref" in fields("UpdateNodePoolRequest")[name] and "$ref" not in kind:
        return next(iter(value.values()), {} if kind["type"] == "object" else [])
    return int(value) if kind.get("type") == "integer" else value


def change(
    call: Call, pool: CloudResource, state: dict[str, Any], kind: str = "UPGRADE_NODES"
) -> dict[str, Any]:
    """Sets the pool's state if GKE allows it; returns the operation."""
    cluster = call.cloud.found(pool.parent or "")
    if state["version"] == "-":
        state["version"] = cluster.state["currentMasterVersion"]
    node_defaults.complete(state, cluster.state)
    node_pools.check_new_pool(call.cloud, cluster, state)
    had_taint = node_pools.GPU_TAINT in pool.state["config"].get("taints", ())
    node_pools.add_driver_and_taints(state, added=had_taint)
    work, seconds, old = None, 0.0, pool.state
    changed, pool.state = _changed(old, state) - set(_IN_PLACE), state
    if changed:
        try:
            more = _additional(call.cloud, pool, other_machines="machineType" in changed)
        except ApiError as error:
            pool.state = old
            call.cloud.assume(
                f"node pool {state['name']}: it is not known which settings GKE shows after an "
                "upgrade for which no node starts; this rehearsal shows the old ones"
            )
            return updating(call, kind, pool.identity, error=error)
        pool.revision += 1
        seconds = _duration(state["upgradeSettings"], pool.nodes, more)
        if pool.nodes:
            work = partial(_recycle, call.cloud, pool, pool.revision, pool.nodes + more)
        _surge(pool, min(more, pool.kept_nodes))  # Karpenter replaces its own
    for field in sorted(changed - {"version", *_RECREATING}):
        call.cloud.assume(
            f"node pool {state['name']}: it is not known whether GKE recreates the nodes when "
            f"{field} changes; this rehearsal recreates them"
        )
    return updating(call, kind, pool.identity, work=work, simulated_seconds=seconds)


def _additional(cloud: CloudState, pool: CloudResource, *, other_machines: bool) -> int:
    """How many nodes GKE starts before it drains others. Raises ApiError if too few start
    (docs.cloud.google.com/kubernetes-engine/docs/how-to/node-upgrades-quota: fewer than `maxSurge`
    do, but for none at all with `maxUnavailable` 0)."""
    settings = pool.state["upgradeSettings"]
    most = fewest = pool.nodes
    if settings.get("strategy") != "BLUE_GREEN":
        most = min(settings.get("maxSurge", 0), pool.nodes)
        fewest = 0 if settings.get("maxUnavailable") else min(most, 1)
    for more in range(most, fewest, -1):
        with suppress(ApiError):
            cloud.check_upgrade(pool, more, other_machines=other_machines)
            return more
    cloud.check_upgrade(pool, fewest, other_machines=other_machines)
    return fewest


def _duration(settings: Mapping[str, Any], nodes: int, more: int) -> float:
    """How long an upgrade takes in GKE, in seconds. With blue-green, it starts all new nodes, then
    drains the old ones in batches, and deletes them at the end."""
    if settings.get("strategy") != "BLUE_GREEN":
        at_once = max(more + settings.get("maxUnavailable", 0), 1)
        return NODE_SECONDS * float(-(-nodes // at_once))
    rollout = settings.get("blueGreenSettings") or {}
    batch = rollout.get("standardRolloutPolicy") or {}
    size = batch.get("batchNodeCount") or nodes * batch.get("batchPercentage", 0) or 1
    seconds = NODE_SECONDS + _seconds(batch.get("batchSoakDuration", "0s"))
    soak = _seconds(rollout.get("nodePoolSoakDuration", "3600s"))
    return NODE_SECONDS + ceil(nodes / size) * seconds + soak


def _seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))


def _recycle(cloud: CloudState, pool: CloudResource, revision: int, nodes: int) -> None:
    name = pool.state["name"]
    far = wait_for_nodes(cloud.recycled, name, revision, nodes=nodes)
    with cloud.lock:
        _surge(pool, -pool.surging)
    cloud.notify()
    if far == "starting":
        raise ApiError(500, f"node pool {name}: new nodes have not registered or are not ready")


def _surge(pool: CloudResource, more: int) -> None:
    pool.surging, pool.kept_nodes, pool.nodes = (
        nodes + more for nodes in (pool.surging, pool.kept_nodes, pool.nodes)
    )


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
    """The fields of the config that differ, including `version`."""
    before, after = ({**pool["config"], "version": pool["version"]} for pool in (old, new))
    return {name for name in {**before, **after} if before.get(name) != after.get(name)}


def set_autoscaling(call: Call, pool: CloudResource, scaling: Mapping[str, Any]) -> dict[str, Any]:
    """Sets new bounds, and adjusts the number of nodes to them."""
    state = copy.deepcopy(pool.state) | {"autoscaling": dict(scaling)}
    answer = change(call, pool, state)
    if (least := node_pools.least(pool.state)) > pool.nodes:
        resize(call, pool, least)
    return answer


def resize(call: Call, pool: CloudResource, wanted: int) -> None:
    """Adds or removes nodes, in all zones together; raises ApiError if they do not start.

    Removes those that the cloud itself keeps first, as the autoscaler's may be in use.
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
METHODS = one_at_a_time(
    {
        f"{_PREFIX}update": _update,
        f"{_PREFIX}setSize": _set_size,
        f"{_PREFIX}setAutoscaling": _set_autoscaling,
        f"{_PREFIX}setManagement": _set_management,
    }
)
