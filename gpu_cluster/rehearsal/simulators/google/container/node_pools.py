"""How GKE creates, reads and deletes node pools."""

import copy
from typing import Any

from gpu_cluster.components.catalog.gke import FIRST_VERSIONS, meets
from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.container import (
    node_defaults,
    node_pool_rules,
    pod_networks,
    reserved,
)
from gpu_cluster.rehearsal.simulators.google.container.locations import node_locations
from gpu_cluster.rehearsal.simulators.google.container.operations import (
    broken,
    one_at_a_time,
    operation,
    without_defaults,
)
from gpu_cluster.rehearsal.simulators.google.container.tokens import CLUSTER, NODE_POOL
from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.google.state import CloudState

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
"""The taint that GKE adds to GPU nodes."""


def _create(call: Call) -> dict[str, Any]:
    cluster = call.cloud.found(call.name.removesuffix("/nodePools"))
    if (cluster.state.get("autopilot") or {}).get("enabled"):
        raise bad_request("Autopilot clusters do not support mutating node pools")
    if cluster.state["status"] == "ERROR":
        # https://github.com/hashicorp/terraform-provider-google/issues/7638
        raise bad_request(
            "Cluster is currently being created, deleted, updated or repaired and cannot be "
            "updated.",
            reason="failedPrecondition",
        )
    pool = add_node_pool(call.cloud, cluster, copy.deepcopy(call.body.get("nodePool") or {}))
    failure = call.cloud.ends_half_way("CREATE_NODE_POOL")
    error = broken(pool, failure) if failure else None
    return operation(call, "CREATE_NODE_POOL", pool.identity, error=error)


def add_node_pool(
    cloud: CloudState, cluster: CloudResource, state: dict[str, Any], *, booting: bool = False
) -> CloudResource:
    """Creates a pool of the cluster with its first nodes; raises ApiError if GKE refuses it.
    `booting`: the nodes join later."""
    name = state.get("name", "")
    node_pool_rules.check_name(name)
    identity = f"{cluster.identity}/nodePools/{name}"
    if identity in cloud.resources:
        raise ApiError(409, f"Already exists: {identity}")
    pool = drafted(cloud, cluster, state)
    pool.depends_on += pod_networks.check_pool(cloud, cluster, state)
    state["status"] = "PROVISIONING" if booting else "RUNNING"
    zones = len(state["locations"])
    wanted = max(state.setdefault("initialNodeCount", 0) * zones, least(state))
    reserved.check_new(cloud, state, identity, wanted)
    cloud.check_start(pool, wanted)
    pool.nodes = pool.kept_nodes = wanted
    cloud.resources[identity] = pool
    return pool


def drafted(cloud: CloudState, cluster: CloudResource, state: dict[str, Any]) -> CloudResource:
    """The pool that would be created, with GKE's defaults; raises ApiError if GKE refuses it."""
    node_defaults.complete(state, cluster.state)
    check_new_pool(cloud, cluster, state)
    add_driver_and_taints(state, added=_has_cpu_pool(cloud, cluster))
    state["status"] = "RUNNING"
    return CloudResource(
        token=NODE_POOL,
        display_name="node pool",
        identity=f"{cluster.identity}/nodePools/{state['name']}",
        state=state,
        parent=cluster.identity,
    )


def check_new_pool(cloud: CloudState, cluster: CloudResource, state: dict[str, Any]) -> None:
    """Raises ApiError if GKE refuses this new or changed `NodePool`."""
    node_locations(cluster.state["location"], state["locations"])  # in the cluster's region?
    cloud.check_account(state["config"], cluster.identity.split("/")[1])
    metadata = (state["config"].get("workloadMetadataConfig") or {}).get("mode")
    identity = cluster.state.get("workloadIdentityConfig") or {}
    if metadata == "GKE_METADATA" and not identity.get("workloadPool"):
        # terraform-provider-google-beta, docs/resources/container_cluster.md,
        # workload_metadata_config: only with workload identity at the cluster level.
        raise bad_request(
            "workloadMetadataConfig.mode GKE_METADATA needs workloadIdentityConfig of the cluster"
        )
    datapath = cluster.state["networkConfig"].get("datapathProvider")
    profile = state["networkConfig"].get("acceleratorNetworkProfile")
    if profile and datapath != "ADVANCED_DATAPATH":
        raise bad_request("acceleratorNetworkProfile needs GKE Dataplane V2 in the cluster")
    node_pool_rules.check_node_pool(state)


def least(state: dict[str, Any]) -> int:
    """The minimum number of nodes of the pool's autoscaling."""
    scaling = state.get("autoscaling") or {}
    if not scaling.get("enabled"):
        return 0
    per_zone = int(scaling.get("minNodeCount") or 0) * len(state["locations"])
    return int(scaling.get("totalMinNodeCount") or 0) or per_zone


def add_driver_and_taints(state: dict[str, Any], *, added: bool) -> None:
    """Adds the default driver to a pool with GPUs and, if `added`, GKE's taint."""
    config = state["config"]
    if (found := node_defaults.accelerator_of(state)) is None:
        return
    if not any(node_defaults.accelerators(config)):
        config["accelerators"] = [
            {"acceleratorType": found[0].name, "acceleratorCount": str(found[1])}
        ]
    by_default = meets(state["version"], FIRST_VERSIONS["driver-by-default"])
    unset = "DEFAULT" if by_default is not False else "INSTALLATION_DISABLED"
    config["accelerators"] = [
        {"gpuDriverInstallationConfig": {"gpuDriverVersion": unset}, **given}
        for given in config["accelerators"]
    ]
    taints = config.get("taints", [])
    if added and not any(taint["key"] == GPU_TAINT["key"] for taint in taints):
        config["taints"] = [*taints, dict(GPU_TAINT)]


def _has_cpu_pool(cloud: CloudState, cluster: CloudResource) -> bool:
    """GKE adds its taint when it creates a GPU pool next to one without GPUs, and never later."""
    return any(
        pool.parent == cluster.identity and node_defaults.accelerator_of(pool.state) is None
        for pool in cloud.of(NODE_POOL)
    )


def pool_form(call: Call, pool: CloudResource) -> dict[str, Any]:
    """A pool in the API's form."""
    project, cluster = pool.identity.split("/")[1], pool.identity.split("/")[5]
    compute = f"https://www.googleapis.com/compute/{'beta' if 'beta' in call.version else 'v1'}"
    found = {
        **pool.state,
        "selfLink": f"https://container.googleapis.com/{call.version}/{pool.identity}",
        "instanceGroupUrls": [
            f"{compute}/projects/{project}/zones/{zone}/instanceGroupManagers/"
            f"{group_name(cluster, pool.state['name'])}"
            for zone in pool.state["locations"]
        ],
    }
    return without_defaults(found)  # type: ignore[no-any-return]


def group_name(cluster: str, pool: str) -> str:
    """The name of a pool's managed instance group, the same in each of its zones."""
    return f"gke-{cluster}-{pool}-grp"


def _get(call: Call) -> dict[str, Any]:
    return pool_form(call, call.cloud.found(call.name))


def _list(call: Call) -> dict[str, Any]:
    cluster = call.cloud.found(call.name.removesuffix("/nodePools"))
    assert cluster.token == CLUSTER
    pools = [pool for pool in call.cloud.of(NODE_POOL) if pool.parent == cluster.identity]
    return {"nodePools": [pool_form(call, pool) for pool in pools]} if pools else {}


def _delete(call: Call) -> dict[str, Any]:
    pool = call.cloud.found(call.name)
    cluster = call.cloud.found(pool.parent or "")
    target = f"{cluster.identity}/nodePools/{call.path['nodePoolsId']}"
    if failure := call.cloud.ends_half_way("DELETE_NODE_POOL"):
        return operation(call, "DELETE_NODE_POOL", target, error=ApiError(500, failure))
    call.cloud.remove(pool.identity)
    return operation(call, "DELETE_NODE_POOL", target)


_PREFIX = "container.projects.locations.clusters.nodePools."
METHODS = {f"{_PREFIX}get": _get, f"{_PREFIX}list": _list} | one_at_a_time(
    {f"{_PREFIX}create": _create, f"{_PREFIX}delete": _delete}
)
