"""GKE's updates of a cluster, each of one setting."""

import copy
from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.container import (
    cluster_defaults,
    cluster_rules,
    node_pool_updates,
)
from gpu_cluster.rehearsal.simulators.google.container.locations import (
    channel_of,
    node_locations,
    version_in,
)
from gpu_cluster.rehearsal.simulators.google.container.operations import (
    fields,
    one_at_a_time,
    updating,
)
from gpu_cluster.rehearsal.simulators.google.container.tokens import NODE_POOL
from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource

_OF_POOL = ("desiredNodePoolId", "desiredImageType", "desiredImage", "desiredImageProject")
_TOGETHER = ({"desiredLoggingService", "desiredMonitoringService"},)
_SWITCHES = {
    "desiredL4ilbSubsettingConfig": "enableL4ilbSubsetting",
    "desiredIntraNodeVisibilityConfig": "enableIntraNodeVisibility",
}
"""A block with `enabled` -> the network's field that it sets."""
_PARTS = ("addonsConfig", "monitoringConfig")
"""Blocks of which an update has only the parts that change, complete but without false."""
_MERGED = "controlPlaneEndpointsConfig"
"""A block whose switches are `optional` in the API: an omitted switch is unchanged."""


def _update(call: Call) -> dict[str, Any]:
    cluster = call.cloud.found(call.name)
    update = dict(call.body.get("update") or {})
    if update.pop("etag", cluster.state["etag"]) != cluster.state["etag"]:
        raise ApiError(412, "The cluster's etag is another one by now")
    changes = set(update) - set(_OF_POOL)
    if len(changes) > 1 and changes not in _TOGETHER:
        raise bad_request(
            "Exactly one update can be applied to a cluster with each request, and this has "
            + ", ".join(sorted(changes))
        )
    if not update:
        raise bad_request("Must specify a field to update.")
    if changes == {"desiredNodePoolAutoscaling"}:
        scaling = update["desiredNodePoolAutoscaling"]
        return node_pool_updates.set_autoscaling(call, _pool(call, update), scaling)
    if not changes or changes == {"desiredNodeVersion"}:
        return _update_pool(call, update)
    state = copy.deepcopy(cluster.state)
    for name in changes:
        _apply(state, name, update[name])
    return _change(call, cluster, state)


def _pool(call: Call, update: dict[str, Any]) -> CloudResource:
    pool: CloudResource = call.cloud.found(
        f"{call.name}/nodePools/{update.get('desiredNodePoolId', '')}"
    )
    assert pool.token == NODE_POOL
    return pool


def _update_pool(call: Call, update: dict[str, Any]) -> dict[str, Any]:
    pool = _pool(call, update)
    state = copy.deepcopy(pool.state)
    state["version"] = update.get("desiredNodeVersion", state["version"])
    state["config"]["imageType"] = update.get("desiredImageType", state["config"]["imageType"])
    return node_pool_updates.change(call, pool, state)


def _apply(state: dict[str, Any], name: str, value: Any) -> None:
    """Applies one field of `ClusterUpdate`; most have the name of the field that they change."""
    rest = name.removeprefix("desired")
    field = rest[0].lower() + rest[1:]
    network = state["networkConfig"]
    if name in _SWITCHES:
        network[_SWITCHES[name]] = value.get("enabled", False)
    elif name == "desiredMasterVersion":
        version = version_in(channel_of(state), value)
        if _minor(version) < _minor(state["currentMasterVersion"]):
            raise bad_request(
                f"Master cannot be downgraded from {state['currentMasterVersion']} to {version}"
            )
        state["currentMasterVersion"] = version
    elif name == "desiredClusterAutoscaling":
        state["autoscaling"] = value
    elif name == "desiredLocations":
        location = state["location"]
        zones = [zone for zone in value if zone != location]
        state["locations"] = node_locations(location, zones)
    elif name == "desiredK8sBetaApis":
        enabled = state.setdefault("enableK8sBetaApis", {}).get("enabledApis", [])
        state["enableK8sBetaApis"]["enabledApis"] = enabled + value.get("enabledApis", [])
    elif name == "desiredStackType":
        state["ipAllocationPolicy"]["stackType"] = value
    elif name == "desiredAutopilotWorkloadPolicyConfig":
        state["autopilot"]["workloadPolicyConfig"] = value
    elif field in _PARTS:
        state[field] = (state.get(field) or {}) | value
    elif field == _MERGED:
        state[field] = _merged(state.get(field) or {}, value)
    elif field in fields("Cluster"):
        state[field] = value
    elif field in fields("NetworkConfig"):
        network[field] = value
    else:
        raise ApiError(501, f"a rehearsal does not simulate an update with {name}")


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    both = old | new
    for name, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(name), dict):
            both[name] = _merged(old[name], value)
    return both


def _change(
    call: Call, cluster: CloudResource, state: dict[str, Any], kind: str = "UPDATE_CLUSTER"
) -> dict[str, Any]:
    """Sets the cluster's state if GKE allows it; returns the operation."""
    cluster_rules.check_cluster(call.cloud, cluster.identity, state, cluster.depends_on)
    cluster_defaults.derive(call.cloud, state)
    cluster_defaults.bring_workload_pool(call.cloud, state)
    cluster.state = state
    return updating(
        call, kind, cluster.identity, work=lambda: cluster_defaults.bring_kinds(call.cloud, state)
    )


def _set_labels(call: Call) -> dict[str, Any]:
    cluster = call.cloud.found(call.name)
    if call.body.get("labelFingerprint") != cluster.state["labelFingerprint"]:
        raise ApiError(412, "Labels could not be set due to fingerprint mismatch.")
    labels = call.body.get("resourceLabels") or {}
    state = copy.deepcopy(cluster.state) | {
        "resourceLabels": labels,
        "labelFingerprint": cluster_defaults.fingerprint(labels),
    }
    return _change(call, cluster, state, "SET_LABELS")


def _set_maintenance(call: Call) -> dict[str, Any]:
    cluster = call.cloud.found(call.name)
    policy = copy.deepcopy(call.body.get("maintenancePolicy") or {})
    if policy.get("resourceVersion") != cluster.state["maintenancePolicy"]["resourceVersion"]:
        raise ApiError(409, "The maintenance policy's resourceVersion is another one by now")
    del policy["resourceVersion"]
    policy["resourceVersion"] = cluster_defaults.fingerprint(policy)
    state = copy.deepcopy(cluster.state) | {"maintenancePolicy": policy}
    return _change(call, cluster, state, "SET_MAINTENANCE_POLICY")


def _set_network_policy(call: Call) -> dict[str, Any]:
    cluster = call.cloud.found(call.name)
    state = copy.deepcopy(cluster.state) | {"networkPolicy": call.body.get("networkPolicy") or {}}
    return _change(call, cluster, state, "SET_NETWORK_POLICY")


def _set_legacy_abac(call: Call) -> dict[str, Any]:
    cluster = call.cloud.found(call.name)
    enabled = call.body.get("enabled", False)
    state = copy.deepcopy(cluster.state) | {"legacyAbac": {"enabled": True} if enabled else {}}
    return _change(call, cluster, state)


_PREFIX = "container.projects.locations.clusters."
METHODS = one_at_a_time(
    {
        f"{_PREFIX}update": _update,
        f"{_PREFIX}setResourceLabels": _set_labels,
        f"{_PREFIX}setMaintenancePolicy": _set_maintenance,
        f"{_PREFIX}setNetworkPolicy": _set_network_policy,
        f"{_PREFIX}setLegacyAbac": _set_legacy_abac,
    }
)
