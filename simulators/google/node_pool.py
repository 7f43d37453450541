"""GKE's node pool resource: what the API checks, the taint it adds, and how its nodes count."""

from collections.abc import Mapping
from typing import Any

from components.catalog.gke import (
    ACCELERATORS,
    FIRST_VERSIONS,
    MAX_SHARED_CLIENTS,
    MIN_SHARED_CLIENTS,
    NODE_POOL_NAME,
    SHARING_STRATEGIES,
    MachineType,
    gpu_counts_for,
    machine_type,
    meets,
)
from plugins.cloud.handler import CloudError, Config
from simulators.cloud import NODE_SECONDS
from simulators.google import nodes
from simulators.google.kind import Kind
from simulators.google.locations import location_of, node_locations
from simulators.google.resource import CloudResource, full_name

_FILLED_IN = (
    "diskSizeGb", "diskType", "effectiveTaints", "guestAccelerators", "imageType", "loggingVariant",
    "machineType", "metadata", "oauthScopes", "serviceAccount",
)  # fmt: skip
"""Of `nodeConfig`, what GKE says of every pool."""
_RECREATING = (
    "machineType", "diskSizeGb", "diskType", "imageType", "gcfsConfig", "gvnic",
    "workloadMetadataConfig", "loggingVariant", "kubeletConfig", "linuxNodeConfig",
    "containerdConfig",
)  # fmt: skip
_IMAGES = ("COS_CONTAINERD", "UBUNTU_CONTAINERD", "COS", "UBUNTU")


class NodePool(Kind):
    """A node pool of GKE Standard. Refused: machine types, accelerators, zones, images, disks and
    sharing that GKE does not combine; a pool whose first nodes exceed the quota. Shrinking and
    labels happen in place; a new version recreates the nodes."""

    token = "gcp:container/nodePool:NodePool"
    display_name = "node pool"
    # resource_container_node_pool.go, Timeouts (google-beta@93c65b2d).
    update_seconds = 2 * 3600.0
    computed = (
        "project",
        "location",
        "nodeLocations",
        "nodeCount",
        "version",
        "maxPodsPerNode",
        "management",
        "upgradeSettings",
        "namePrefix",
        "initialNodeCount",
        *(f"nodeConfig.{name}" for name in _FILLED_IN),
        "nodeConfig.guestAccelerators[].gpuDriverInstallationConfig",
        "upgradeSettings.maxSurge",
        "upgradeSettings.maxUnavailable",
        "upgradeSettings.strategy",
        "networkConfig",
        "networkConfig.enablePrivateNodes",
        "networkConfig.podRange",
    )

    def parent(self, config: Config, state: Mapping[str, Any]) -> str:
        cluster = str(state["cluster"])
        collection = "clusters"
        if "/" not in cluster:
            location = location_of(config, state)
            collection = f"projects/{state['project']}/locations/{location}/clusters"
        return full_name(cluster, collection)

    def same(self, path: str, old: Any, new: Any) -> bool:
        return nodes.same_in_config(path, old, new)

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        name = inputs.get("name") or f"{inputs.get('namePrefix', '')}0000000001"
        return f"{self.parent(config, inputs)}/nodePools/{name}"

    def validate_create(
        self, config: Config, state: dict[str, Any], old: CloudResource | None
    ) -> None:
        cluster = self.cloud.get(self.parent(config, state))
        if cluster.state.get("enableAutopilot"):
            raise CloudError(
                "googleapi: Error 400: Autopilot clusters do not support mutating node pools, "
                "badRequest"
            )
        state["name"] = self.identity(config, state).rpartition("/")[2]
        _check_name(state["name"])
        state["location"] = cluster.state["location"]
        given = state.get("nodeLocations") or cluster.state["nodeLocations"]
        node_locations(state["location"], given)  # in the cluster's region?
        state["nodeLocations"] = list(given)
        state["version"] = state.get("version") or cluster.state["masterVersion"]
        self.cloud.check_account(state.get("nodeConfig"), state["project"])
        if old is None and state.get("initialNodeCount") and "nodeCount" in state:
            raise CloudError("cannot set both initial_node_count and node_count on node pool")
        _check_counts(state)
        state["nodeConfig"] = nodes.complete_config(state.get("nodeConfig") or {})
        machine = _check_machine(state)
        _check_accelerators(state, machine)
        _check_provisioning(state)
        self._add_driver_and_taints(state, cluster, old)
        state.setdefault("maxPodsPerNode", cluster.state.get("defaultMaxPodsPerNode", 110))
        private = (cluster.state.get("privateClusterConfig") or {}).get("enablePrivateNodes", False)
        ranges = cluster.state.get("ipAllocationPolicy") or {}
        filled = {
            "enablePrivateNodes": private,
            "podRange": ranges.get("clusterSecondaryRangeName"),
        }
        given = state.get("networkConfig") or {}
        state["networkConfig"] = {k: v for k, v in filled.items() if v is not None} | given
        state.setdefault("management", {"autoRepair": True, "autoUpgrade": True})
        surge = {"maxSurge": 1, "maxUnavailable": 0, "strategy": "SURGE"}
        state.setdefault("upgradeSettings", surge)
        if state["nodeConfig"].get("flexStart") or _queued(state):
            # Whatever was asked for: crossplane-contrib/provider-upjet-gcp issue 1028.
            state["upgradeSettings"] = {**surge, "maxSurge": 0, "strategy": "SHORT_LIVED"}
        prefix = f"https://www.googleapis.com/compute/v1/projects/{state['project']}/zones"
        urls = [
            f"{prefix}/{zone}/instanceGroups/gke-{cluster.state['name']}-{state['name']}-grp"
            for zone in state["nodeLocations"]
        ]
        state |= {"instanceGroupUrls": urls, "managedInstanceGroupUrls": urls, "operation": ""}
        if old is not None and recreated(old.state, state):
            old.revision += 1
        if old is not None and state.get("nodeCount") != old.state.get("nodeCount"):
            wanted = (state.get("nodeCount") or 0) * len(state["nodeLocations"])
            self.cloud.check_start(old, wanted)
            old.nodes = old.kept_nodes = wanted

    def lasts(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> float:
        if not recreated(old, new):
            return 0.0
        with self.cloud.lock:
            running = self.cloud.get(identity).nodes
        surge = new.get("upgradeSettings") or {}
        at_once = max(surge.get("maxSurge", 0) + surge.get("maxUnavailable", 0), 1)
        return NODE_SECONDS * float(-(-running // at_once))

    def _add_driver_and_taints(
        self, state: dict[str, Any], cluster: CloudResource, old: CloudResource | None
    ) -> None:
        config = state["nodeConfig"]
        if (found := nodes.accelerator_of(state)) is None:
            return
        if not any(given["count"] for given in config.get("guestAccelerators") or ()):
            config["guestAccelerators"] = [{"type": found[0].name, "count": found[1]}]
        by_default = meets(state["version"], FIRST_VERSIONS["driver-by-default"])
        unset = "DEFAULT" if by_default is not False else "INSTALLATION_DISABLED"
        config["guestAccelerators"] = [
            {"gpuDriverInstallationConfig": {"gpuDriverVersion": unset}, **given}
            for given in config["guestAccelerators"]
        ]
        taints = config["effectiveTaints"]
        if any(taint["key"] == nodes.GPU_TAINT["key"] for taint in taints):
            return
        # GKE adds its taint when it makes a GPU pool beside one without GPUs, and never later.
        added = (
            self._has_cpu_pool(cluster)
            if old is None
            else nodes.GPU_TAINT in old.state["nodeConfig"]["effectiveTaints"]
        )
        if added:
            taints.append(dict(nodes.GPU_TAINT))

    def _has_cpu_pool(self, cluster: CloudResource) -> bool:
        if not cluster.state.get("removeDefaultNodePool"):
            return True
        return any(
            pool.parent == cluster.identity and nodes.accelerator_of(pool.state) is None
            for pool in self.cloud.of(self.token)
        )

    def create(self, resource: CloudResource) -> None:
        state = resource.state
        zones = len(state["nodeLocations"])
        wanted = (state.get("nodeCount") or state.get("initialNodeCount") or 0) * zones
        scaling = state.get("autoscaling") or {}
        least = scaling.get("totalMinNodeCount", scaling.get("minNodeCount", 0) * zones)
        wanted = max(wanted, least)
        self.cloud.check_start(resource, wanted)
        resource.nodes = resource.kept_nodes = wanted
        state.setdefault("initialNodeCount", state.get("nodeCount") or 0)
        state["nodeCount"] = wanted // zones

    def read(self, resource: CloudResource, state: Mapping[str, Any]) -> dict[str, Any]:
        current = dict(resource.state)
        if state.get("ignoreNodeCountChanges"):
            current["nodeCount"] = state.get("nodeCount", current["nodeCount"])
        else:
            current["nodeCount"] = resource.nodes // len(current["nodeLocations"])
        return current


def recreated(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether GKE recreates the nodes of a pool for this change: labels, taints and tags are put on
    the nodes that run (cloud.google.com, "Manage cluster lifecycle changes")."""
    before, after = (one["nodeConfig"] for one in (old, new))
    return old["version"] != new["version"] or any(
        before.get(field) != after.get(field) for field in _RECREATING
    )


def _refuse(reason: str) -> CloudError:
    return CloudError(f"googleapi: Error 400: {reason}, badRequest")


def _check_name(name: str) -> None:
    # Not the provider's check, and so not in a preview: pulumi/pulumi-gcp issue 1510.
    if not NODE_POOL_NAME.fullmatch(name):
        raise _refuse(
            f'Invalid value for field "node_pool.name": "{name}". Must be a match of regex '
            f"'(?:{NODE_POOL_NAME.pattern})' (only lowercase alphanumerics and '-' allowed, must "
            "start with a letter and end with an alphanumeric, and must be no longer than 40 "
            "characters)."
        )


def _check_counts(state: Mapping[str, Any]) -> None:
    scaling = state.get("autoscaling") or {}
    totals = [scaling.get("totalMinNodeCount"), scaling.get("totalMaxNodeCount")]
    per_zone = [scaling.get("minNodeCount"), scaling.get("maxNodeCount")]
    if any(totals) and any(per_zone):
        raise _refuse(
            "autoscaling: total and per-zone node counts exclude each other: give either "
            "totalMinNodeCount and totalMaxNodeCount, or minNodeCount and maxNodeCount"
        )
    least, most = totals if any(totals) else per_zone
    if scaling and (least or 0) > (most or 0):
        raise _refuse(f"autoscaling: the minimum {least} is more than the maximum {most or 0}")
    settings = state.get("upgradeSettings") or {}
    if (
        settings.get("strategy", "SURGE") == "SURGE"
        and settings.get("maxSurge") == 0
        and settings.get("maxUnavailable", 0) == 0
    ):
        raise _refuse("upgradeSettings: maxSurge and maxUnavailable cannot both be 0")


def _check_machine(state: Mapping[str, Any]) -> MachineType:
    config = state["nodeConfig"]
    name, zone = config["machineType"], state["nodeLocations"][0]
    machine = machine_type(name)
    if machine is None:
        raise _refuse(
            f"Machine type with name '{name}' does not exist in zone '{zone}' (as far as the "
            "catalogue goes that a rehearsal knows)"
        )
    for zone in state["nodeLocations"]:
        if machine.zones is not None and zone not in machine.zones:
            raise _refuse(f"Machine type with name '{name}' does not exist in zone '{zone}'")
    if str(config["imageType"]).upper() not in _IMAGES:
        raise _refuse(f"Image type '{config['imageType']}' is not supported: {', '.join(_IMAGES)}")
    return machine


def _check_accelerators(state: Mapping[str, Any], machine: MachineType) -> None:
    config = state["nodeConfig"]
    given = [one for one in config.get("guestAccelerators") or () if one["count"]]
    if len(given) > 1:
        raise _refuse("At most one accelerator type is allowed in a node pool")
    if machine.fractional:
        raise CloudError(
            f"a rehearsal does not simulate {machine.name}, which has a share of one GPU"
        )
    wanted = given[0] if given else None
    if wanted is not None:
        name, count = wanted["type"], wanted["count"]
        zone = state["nodeLocations"][0]
        if name not in ACCELERATORS or ACCELERATORS[name].retired:
            raise _refuse(f"Accelerator type '{name}' does not exist in zone '{zone}'")
        counts = gpu_counts_for(machine.name, name, zone=zone)
        if count not in counts:
            raise _refuse(
                f"Machine type {machine.name} cannot have {count} of accelerator '{name}': "
                f"{'it can have ' + ', '.join(map(str, counts)) if counts else 'it takes none'}"
            )
        _check_sharing(config, wanted)
    found = nodes.accelerator_of(state)
    for zone in state["nodeLocations"] if found else ():
        if found and zone not in found[0].zones and not found[0].zones_partial:
            raise _refuse(f"Accelerator type '{found[0].name}' does not exist in zone '{zone}'")


def _check_sharing(config: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    accelerator = ACCELERATORS[given["type"]]
    version = (given.get("gpuDriverInstallationConfig") or {}).get("gpuDriverVersion")
    if version == "LATEST" and nodes.node_os(config["imageType"]) != "cos":
        raise _refuse("gpuDriverVersion LATEST is only for Container-Optimized OS")
    size = given.get("gpuPartitionSize")
    if size and size not in accelerator.mig:
        sizes = ", ".join(accelerator.mig) or "none"
        raise _refuse(f"'{accelerator.name}' has no gpuPartitionSize '{size}': it has {sizes}")
    if sharing := given.get("gpuSharingConfig"):
        if sharing["gpuSharingStrategy"] not in SHARING_STRATEGIES:
            raise _refuse(
                f"gpuSharingStrategy '{sharing['gpuSharingStrategy']}' is none of "
                f"{', '.join(SHARING_STRATEGIES)}"
            )
        if not MIN_SHARED_CLIENTS <= sharing["maxSharedClientsPerGpu"] <= MAX_SHARED_CLIENTS:
            raise _refuse(
                f"maxSharedClientsPerGpu {sharing['maxSharedClientsPerGpu']} is not within "
                f"{MIN_SHARED_CLIENTS} to {MAX_SHARED_CLIENTS}"
            )
        if size and sharing["gpuSharingStrategy"] == "MPS":
            raise _refuse(f"gpuSharingStrategy MPS does not run on partitions (here {size})")


def _queued(state: Mapping[str, Any]) -> bool:
    return bool((state.get("queuedProvisioning") or {}).get("enabled"))


def _check_provisioning(state: Mapping[str, Any]) -> None:
    config = state["nodeConfig"]
    spot, flex = config.get("spot"), config.get("flexStart")
    queued = _queued(state)
    affinity = (config.get("reservationAffinity") or {}).get("consumeReservationType")
    if spot and (flex or queued or config.get("preemptible")):
        raise _refuse("spot excludes preemptible, flexStart and queuedProvisioning")
    if (spot or flex or queued) and affinity not in (None, "NO_RESERVATION", "UNSPECIFIED"):
        raise _refuse(f"spot, flexStart and queuedProvisioning exclude reservation {affinity}")
    if flex and (state.get("management") or {}).get("autoRepair", True):
        raise _refuse("flexStart needs management.autoRepair false")
    placement = (state.get("placementPolicy") or {}).get("type")
    if placement == "COMPACT" and len(state["nodeLocations"]) != 1:
        raise _refuse("COMPACT placement needs exactly one zone")
    series = str(config["machineType"]).split("-")[:2]
    if placement == "COMPACT" and flex and series not in (["a3", "ultragpu"], ["a4", "highgpu"]):
        raise _refuse("COMPACT placement with flexStart is only supported for A3 Ultra, A4 and H4D")
