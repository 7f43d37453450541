"""The nodes that GKE would start: labels, taints, capacity, drivers and plugins."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from components.catalog.gke import (
    Accelerator,
    MachineType,
    machine_type,
    region_of,
)
from rehearsal.simulators.cloud import GpuSharing, NodeGroup, NodeTaint, NodeTemplate, ProvidedBy
from rehearsal.simulators.google.container.node_defaults import accelerator_of, max_pods, queued
from rehearsal.simulators.google.container.node_pools import least
from rehearsal.simulators.google.resource import CloudResource

ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
NO_PLUGIN_LABEL = "gke-no-default-nvidia-gpu-device-plugin"
GPU_RESOURCE = "nvidia.com/gpu"
PARTITION_LABEL = "cloud.google.com/gke-gpu-partition-size"
STRATEGY_LABEL = "cloud.google.com/gke-gpu-sharing-strategy"
CLIENTS_LABEL = "cloud.google.com/gke-max-shared-clients-per-gpu"

_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    "NO_EXECUTE": "NoExecute",
}
_MAX_PODS = 110
_SHARED_CORE = ("e2-micro", "e2-small", "e2-medium")
_REST = float("inf")
_CPU_TIERS = ((1, 0.06), (1, 0.01), (2, 0.005), (_REST, 0.0025))
_MEMORY_TIERS = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (_REST, 0.02))


def group(pool: CloudResource, cluster: CloudResource) -> NodeGroup:
    """A node pool as the sandbox sees it. Counts are those of all its zones together."""
    state = pool.state
    config = state["config"]
    scaling = state.get("autoscaling") or {}
    fewest = most = pool.nodes
    if scaling.get("enabled"):
        fewest = least(state)
        per_zone = scaling.get("maxNodeCount", 0) * len(state["locations"])
        most = scaling.get("totalMaxNodeCount") or per_zone
    shape = NodeTemplate(
        labels=_labels(state, cluster.state),
        taints=tuple(_taints(state)),
        capacity=_capacity(state),
    )
    disabled = driver_version(config) == "INSTALLATION_DISABLED"
    own_plugin = config.get("labels", {}).get(NO_PLUGIN_LABEL) == "true"
    gpus = accelerator_of(state)
    has_gpus = gpus is not None
    # GKE's DaemonSet of the plugin installs its driver too: NVIDIA/aicr PR 2047, read 2026-11-24.
    driver: ProvidedBy = "pod" if has_gpus and (disabled or own_plugin) else "cloud"
    plugin: ProvidedBy = "pod" if has_gpus and own_plugin else "cloud"
    return NodeGroup(
        name=state["name"],
        min_nodes=fewest,
        max_nodes=most,
        target_nodes=pool.kept_nodes,
        template=shape,
        node=shape,
        driver=driver,
        plugin=plugin,
        node_os=node_os(config["imageType"]),
        spot=bool(config.get("spot")),
        on_demand_per_hour=price(_machine(config), gpus),
        autoscaled=bool(scaling.get("enabled")),
        provider_id=f"gce://{pool.identity.split('/')[1]}/{state['locations'][0]}/",
        revision=pool.revision,
        gpus=gpus[1] if gpus else 0,
        queued=queued(state),
        sharing=gke_sharing(_first_gpu(config), gpus)
        if plugin == "cloud" and gpus
        else GpuSharing(),
    )


def gke_sharing(given: Mapping[str, Any], gpus: tuple[Accelerator, int]) -> GpuSharing:
    """How GKE's own device plugin shares the GPUs of an `AcceleratorConfig`.

    GoogleCloudPlatform/container-engine-accelerators, pkg/gpu/nvidia/gpusharing: with time-sharing
    a container gets one share, with MPS as many as it asks for where the node has one device only.
    Its MPS daemon is reached through the host's IPC (cloud.google.com, nvidia-mps-gpus).
    """
    sharing = given.get("gpuSharingConfig")
    if not sharing:
        return GpuSharing()
    mps = sharing["gpuSharingStrategy"] == "MPS"
    devices = gpus[1] * gpus[0].mig.get(given.get("gpuPartitionSize") or "", 1)
    return GpuSharing(
        strategy="mps" if mps else "time-slicing",
        replicas=int(sharing["maxSharedClientsPerGpu"]),
        most=None if mps and devices == 1 else 1,
        host_ipc=mps,
    )


def driver_version(config: Mapping[str, Any]) -> str | None:
    """`gpuDriverVersion` of the pool's GPUs; None without GPUs that name one."""
    installation = _first_gpu(config).get("gpuDriverInstallationConfig") or {}
    version: str | None = installation.get("gpuDriverVersion")
    return version


def node_os(image_type: str) -> Literal["cos", "ubuntu", "other"]:
    """The operating system of a `NodeConfig.imageType`."""
    name = image_type.upper()
    return "cos" if name.startswith("COS") else "ubuntu" if name.startswith("UBUNTU") else "other"


def _taints(pool: Mapping[str, Any]) -> Iterator[NodeTaint]:
    """GKE taints the nodes of queued pools (GoogleCloudPlatform/cluster-autoscaler 7d250507,
    pkg/provisioningrequests/pods/pods.go) and every Arm node: docs.cloud.google.com/
    kubernetes-engine/docs/how-to/prepare-arm-workloads-for-deployment, "Overview", read on
    2026-11-23."""
    config = pool["config"]
    if queued(pool):
        yield NodeTaint(key="cloud.google.com/gke-queued", value="true", effect="NoSchedule")
    for taint in config.get("taints", ()):
        yield NodeTaint(
            key=taint["key"], value=taint.get("value", ""), effect=_EFFECTS[taint["effect"]]
        )
    if _machine(config).arch == "arm64":
        yield NodeTaint(key="kubernetes.io/arch", value="arm64", effect="NoSchedule")


def _labels(pool: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, str]:
    config = pool["config"]
    zone = pool["locations"][0]
    labels = {
        **config.get("labels", {}),
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _machine(config).arch,
        "node.kubernetes.io/instance-type": config["machineType"],
        "topology.kubernetes.io/region": region_of(zone),
        "topology.kubernetes.io/zone": zone,
        "cloud.google.com/gke-nodepool": pool["name"],
        "cloud.google.com/gke-os-distribution": node_os(config["imageType"]),
        "cloud.google.com/gke-container-runtime": "containerd",
        "cloud.google.com/gke-boot-disk": config["diskType"],
        "cloud.google.com/machine-family": config["machineType"].partition("-")[0],
        "cloud.google.com/gke-max-pods-per-node": str(max_pods(pool)),
        "cloud.google.com/gke-provisioning": "spot" if config.get("spot") else "standard",
    }
    if config.get("spot"):
        labels["cloud.google.com/gke-spot"] = "true"
    if config.get("preemptible"):
        labels["cloud.google.com/gke-preemptible"] = "true"
    if config.get("flexStart"):
        labels["cloud.google.com/gke-flex-start"] = "true"
    if pool["networkConfig"].get("enablePrivateNodes"):
        labels["cloud.google.com/private-node"] = "true"
    metadata = config.get("workloadMetadataConfig", {}).get("mode")
    if (
        (cluster.get("workloadIdentityConfig") or {}).get("workloadPool") and metadata is None
    ) or metadata == "GKE_METADATA":
        labels["iam.gke.io/gke-metadata-server-enabled"] = "true"
    return labels | _gpu_labels(config, accelerator_of(pool))


def _gpu_labels(config: Mapping[str, Any], found: tuple[Accelerator, int] | None) -> dict[str, str]:
    if found is None:
        return {}
    labels = {ACCELERATOR_LABEL: found[0].name}
    version = driver_version(config)
    if version != "INSTALLATION_DISABLED":
        labels["cloud.google.com/gke-gpu-driver-version"] = (version or "DEFAULT").lower()
    given = _first_gpu(config)
    if size := given.get("gpuPartitionSize"):
        labels[PARTITION_LABEL] = size
    if sharing := given.get("gpuSharingConfig"):
        strategy = sharing["gpuSharingStrategy"].lower().replace("_", "-")
        labels[STRATEGY_LABEL] = strategy
        labels[CLIENTS_LABEL] = str(sharing["maxSharedClientsPerGpu"])
    return labels


def _first_gpu(config: Mapping[str, Any]) -> dict[str, Any]:
    """The pool's one entry of `accelerators`, empty without."""
    return next(iter(config.get("accelerators") or ()), {})


def _machine(config: Mapping[str, Any]) -> MachineType:
    machine = machine_type(config["machineType"])
    assert machine is not None, "a stored pool has a machine type of the catalogue"
    return machine


def _capacity(pool: Mapping[str, Any]) -> dict[str, str]:
    config = pool["config"]
    capacity = allocatable(_machine(config), config["diskSizeGb"], max_pods(pool))
    if (found := accelerator_of(pool)) is not None:
        accelerator, count = found
        given = _first_gpu(config)
        partitions = accelerator.mig.get(given.get("gpuPartitionSize") or "", 1)
        # What GKE's fields say of sharing is only for its own device plugin.
        own = config.get("labels", {}).get(NO_PLUGIN_LABEL) == "true"
        clients = 1 if own else gke_sharing(given, found).replicas
        capacity[GPU_RESOURCE] = str(count * partitions * clients)
    return capacity


def allocatable(machine: MachineType, disk_gb: int, pods: int = _MAX_PODS) -> dict[str, str]:
    """What GKE leaves for pods, as Kubernetes quantities.

    General knowledge, near enough for scheduling: of CPU it keeps 6 % of the first core, 1 % of the
    second, 0.5 % of the next two and 0.25 % of the rest; of memory 25 % of the first 4 GiB, 20 % of
    the next 4, 10 % of the next 8, 6 % of the next 112, 2 % of the rest, and 100 MiB.
    """
    if machine.name in _SHARED_CORE:
        milli = 940
    else:
        milli = round((machine.vcpu - _share(machine.vcpu, _CPU_TIERS)) * 1000)
    mebibytes = round((machine.memory_gib - _share(machine.memory_gib, _MEMORY_TIERS)) * 1024) - 100
    disk = disk_gb * 10**9 / 2**30
    system = min(disk * 0.5, 6 + disk * 0.35, 100)
    return {
        "cpu": f"{milli}m",
        "memory": f"{mebibytes}Mi",
        "ephemeral-storage": f"{max(int(disk * 0.9 - system), 1)}Gi",
        "pods": str(pods),
    }


def _share(amount: float, tiers: tuple[tuple[float, float], ...]) -> float:
    kept = 0.0
    for size, share in tiers:
        kept += min(amount, size) * share
        amount = max(amount - size, 0)
    return kept


def price(machine: MachineType, found: tuple[Accelerator, int] | None) -> float | None:
    """US dollars per hour of the machine with its GPUs, on demand; None if unknown."""
    if machine.on_demand is None or found is None or machine.accelerator is not None:
        return machine.on_demand
    accelerator, count = found
    if accelerator.on_demand is None:
        return None
    return round(machine.on_demand + count * accelerator.on_demand, 5)
