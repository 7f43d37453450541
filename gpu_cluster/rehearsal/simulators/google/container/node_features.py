"""Optional features of a `NodePool`, each with GKE's rules for it and its effect on nodes."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_cluster.components.catalog.gke import (
    ACCELERATORS,
    MAX_SHARED_CLIENTS,
    MIN_SHARED_CLIENTS,
    SHARING_STRATEGIES,
    Accelerator,
    meets,
)
from gpu_cluster.rehearsal.simulators.cloud import GpuSharing, NodeTaint
from gpu_cluster.rehearsal.simulators.google.container.machine_families import (
    check_node_settings,
    check_ssds,
    ssd_labels,
)
from gpu_cluster.rehearsal.simulators.google.container.node_defaults import (
    accelerator_of,
    accelerators,
    queued,
)
from gpu_cluster.rehearsal.simulators.google.errors import bad_request

ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
NO_PLUGIN_LABEL = "gke-no-default-nvidia-gpu-device-plugin"
GPU_RESOURCE = "nvidia.com/gpu"
PARTITION_LABEL = "cloud.google.com/gke-gpu-partition-size"
STRATEGY_LABEL = "cloud.google.com/gke-gpu-sharing-strategy"
CLIENTS_LABEL = "cloud.google.com/gke-max-shared-clients-per-gpu"
DRIVER_LABEL = "cloud.google.com/gke-networking-dra-driver"
GPU_DRIVER_LABEL = "cloud.google.com/gke-nvidia-gpu-dra-driver"
_EXPECTED = {
    "nvidia-tesla-v100": ("Tesla V100", "Volta", 15),
    "nvidia-tesla-p100": ("Tesla P100", "Pascal", 15),
    "nvidia-tesla-p4": ("Tesla P4", "Pascal", 8),
    "nvidia-tesla-t4": ("Tesla T4", "Turing", 15),
    "nvidia-tesla-a100": ("A100 40GB", "Ampere", 38),
    "nvidia-a100-80gb": ("A100 80GB", "Ampere", 75),
    "nvidia-l4": ("L4", "Ada Lovelace", 23),
    "nvidia-h100-80gb": ("H100 80GB", "Hopper", 75),
}
"""Accelerator -> name, architecture, GB: machinetypes/deprecated_machine_types_gpu_config.go of
GKE's autoscaler (7d250507), draAcceleratorInfos. It does not know those of any other."""
NETWORKS = {"a3-highgpu-8g": 0, "a3-megagpu-8g": 0, "a3-ultragpu-8g": 8, "a4-highgpu-8g": 8,
            "a4x-highgpu-4g": 4, "a4x-maxgpu-4g-metal": 8}  # fmt: skip
"""Machine type whose networks GKE sets up -> RDMA interfaces: GoogleCloudPlatform/
cluster-autoscaler 7d250507, pkg/cloudprovider/gke/machinetypes/dranet.go."""

_DISK_IMAGE = re.compile("(projects/[a-z0-9.:-]+/)?global/images/[a-z]([-a-z0-9]*[a-z0-9])?")

Pool = Mapping[str, Any]
"""A `NodePool` with GKE's defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature of a `NodePool`."""

    check: Callable[[Pool], None]
    """Raises ApiError if GKE refuses the pool."""
    labels: Callable[[Pool], Mapping[str, str]] = lambda pool: {}
    taints: Callable[[Pool], Iterator[NodeTaint]] = lambda pool: iter(())
    capacity: Callable[[Pool], Mapping[str, str]] = lambda pool: {}
    """Quantities for pods that replace those of machine and boot disk."""


def gke_sharing(given: Mapping[str, Any], gpus: tuple[Accelerator, int]) -> GpuSharing:
    """How GKE's own device plugin shares the GPUs of an `AcceleratorConfig`.

    GoogleCloudPlatform/container-engine-accelerators, pkg/gpu/nvidia/gpusharing: with time-sharing
    a container gets one share; with MPS as many as it requests if the node has only one device. Its
    MPS daemon is reached through the host's IPC (cloud.google.com, nvidia-mps-gpus).
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
    """The `gpuDriverVersion` of the pool's GPUs; None if they have none."""
    installation = first_gpu(config).get("gpuDriverInstallationConfig") or {}
    version: str | None = installation.get("gpuDriverVersion")
    return version


def _gpu_labels(pool: Pool) -> dict[str, str]:
    config, found = pool["config"], accelerator_of(pool)
    if found is None:
        return {}
    labels = {ACCELERATOR_LABEL: found[0].name}
    version = driver_version(config)
    if version != "INSTALLATION_DISABLED":
        labels["cloud.google.com/gke-gpu-driver-version"] = (version or "DEFAULT").lower()
    given = first_gpu(config)
    if size := given.get("gpuPartitionSize"):
        labels[PARTITION_LABEL] = size
    if sharing := given.get("gpuSharingConfig"):
        strategy = sharing["gpuSharingStrategy"].lower().replace("_", "-")
        labels[STRATEGY_LABEL] = strategy
        labels[CLIENTS_LABEL] = str(sharing["maxSharedClientsPerGpu"])
    return labels


def first_gpu(config: Mapping[str, Any]) -> dict[str, Any]:
    """The pool's only entry in `accelerators`; empty without one."""
    return next(iter(config.get("accelerators") or ()), {})


def _gpus(pool: Pool) -> dict[str, str]:
    found = accelerator_of(pool)
    if found is None:
        return {}
    accelerator, count = found
    given = first_gpu(pool["config"])
    partitions = accelerator.mig.get(given.get("gpuPartitionSize") or "", 1)
    # GKE's fields for sharing apply only to its own device plugin.
    own = pool["config"].get("labels", {}).get(NO_PLUGIN_LABEL) == "true"
    clients = 1 if own else gke_sharing(given, found).replicas
    return {GPU_RESOURCE: str(count * partitions * clients)}


def _check_gpus(pool: Pool) -> None:
    for entry, _, _ in accelerators(pool["config"]):
        _check_sharing(pool["config"], entry)


def _check_sharing(config: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    accelerator = ACCELERATORS[given["acceleratorType"]]
    version = (given.get("gpuDriverInstallationConfig") or {}).get("gpuDriverVersion")
    if version == "LATEST" and not str(config["imageType"]).upper().startswith("COS"):
        raise bad_request("gpuDriverVersion LATEST is only for Container-Optimized OS")
    size = given.get("gpuPartitionSize")
    if size and size not in accelerator.mig:
        sizes = ", ".join(accelerator.mig) or "none"
        raise bad_request(f"'{accelerator.name}' has no gpuPartitionSize '{size}': it has {sizes}")
    if sharing := given.get("gpuSharingConfig"):
        strategy = sharing.get("gpuSharingStrategy")
        clients = int(sharing.get("maxSharedClientsPerGpu") or 0)
        if strategy not in SHARING_STRATEGIES:
            raise bad_request(
                f"gpuSharingStrategy '{strategy}' is not one of {', '.join(SHARING_STRATEGIES)}"
            )
        if not MIN_SHARED_CLIENTS <= clients <= MAX_SHARED_CLIENTS:
            raise bad_request(
                f"maxSharedClientsPerGpu {clients} is not within {MIN_SHARED_CLIENTS} to "
                f"{MAX_SHARED_CLIENTS}"
            )
        if size and strategy == "MPS":
            raise bad_request(f"gpuSharingStrategy MPS does not run on partitions (here {size})")


def _least(scaling: Mapping[str, Any]) -> int:
    return int(scaling.get("totalMinNodeCount") or scaling.get("minNodeCount") or 0)


def _check_provisioning(pool: Pool) -> None:
    """Rules for queued provisioning: GoogleCloudPlatform/cluster-toolkit,
    modules/compute/gke-node-pool, preconditions (2026-11-24)."""
    config = pool["config"]
    spot, flex, waits = config.get("spot"), config.get("flexStart"), queued(pool)
    given = config.get("reservationAffinity") or {}
    affinity = given.get("consumeReservationType")
    if (affinity == "SPECIFIC_RESERVATION") != bool(given.get("key") and given.get("values")):
        # The description of ReservationAffinity in GKE's API: only this type names one.
        raise bad_request(f"reservationAffinity {affinity} with key {given.get('key')!r}")
    if spot and (flex or waits or config.get("preemptible")):
        raise bad_request("spot excludes preemptible, flexStart and queuedProvisioning")
    if (spot or flex or waits) and affinity not in (None, "NO_RESERVATION", "UNSPECIFIED"):
        raise bad_request(f"spot, flexStart and queuedProvisioning exclude reservation {affinity}")
    if flex and pool["management"].get("autoRepair"):
        raise bad_request("flexStart needs management.autoRepair false")
    compact = (pool.get("placementPolicy") or {}).get("type") == "COMPACT"
    scaling = pool.get("autoscaling") or {}
    if waits and (not scaling.get("enabled") or _least(scaling)):
        raise bad_request("queuedProvisioning needs autoscaling from 0 nodes")
    if waits and compact:
        raise bad_request("queuedProvisioning excludes COMPACT placement")
    if compact and len(pool["locations"]) != 1:
        raise bad_request("COMPACT placement needs exactly one zone")
    if compact and flex:
        raise bad_request("flexStart takes no COMPACT placement without a workload policy")


def _provisioning_labels(pool: Pool) -> dict[str, str]:
    config = pool["config"]
    labels = {"cloud.google.com/gke-provisioning": "spot" if config.get("spot") else "standard"}
    words = {"spot": "spot", "preemptible": "preemptible", "flexStart": "flex-start"}
    given = [word for field, word in words.items() if config.get(field)]
    return labels | {f"cloud.google.com/gke-{word}": "true" for word in given}


def _queued_taint(pool: Pool) -> Iterator[NodeTaint]:
    """The taint of queued pools: GoogleCloudPlatform/cluster-autoscaler 7d250507,
    pkg/provisioningrequests/pods/pods.go."""
    if queued(pool):
        yield NodeTaint(key="cloud.google.com/gke-queued", value="true", effect="NoSchedule")


def _check_second_disks(pool: Pool) -> None:
    """The requirements in GKE's "Use secondary boot disks to preload data or container images"
    (read 2026-11-29)."""
    config = pool["config"]
    for disk in config.get("secondaryBootDisks") or ():
        if not _DISK_IMAGE.fullmatch(image := str(disk.get("diskImage"))):
            raise bad_request(f"secondaryBootDisks.diskImage '{image}' is not a disk image")
        if disk.get("mode") == "CONTAINER_IMAGE_CACHE" and not (config.get("gcfsConfig") or {}).get(
            "enabled"
        ):
            raise bad_request(
                f"secondaryBootDisks.diskImage '{image}' with mode CONTAINER_IMAGE_CACHE needs "
                "image streaming"
            )


def _check_networks(pool: Pool) -> None:
    """The networks that GKE creates itself: docs.cloud.google.com/kubernetes-engine/docs/how-to/
    config-auto-net-for-accelerators, as quoted in GKE's release notes of 2026-04-20."""
    profile = pool["networkConfig"].get("acceleratorNetworkProfile")
    if not profile:
        return
    if profile != "auto":
        raise bad_request(f"networkConfig.acceleratorNetworkProfile '{profile}' is not 'auto'")
    machine = pool["config"]["machineType"].removesuffix("-nolssd")
    if machine not in NETWORKS:
        raise bad_request(
            f"networkConfig.acceleratorNetworkProfile is not supported for {machine}: machine "
            f"types that have it: {', '.join(NETWORKS)}"
        )
    if len(pool["locations"]) != 1:
        raise bad_request("networkConfig.acceleratorNetworkProfile needs exactly one zone")


def _check_a3_high(pool: Pool) -> None:
    """GKE's release note of 2026-08-25: nodes of older patches lack GPUDirect-TCPX."""
    first = (*(f"1.{minor}.0-gke.0" for minor in range(30, 34)),
             "1.34.5-gke.1153000", "1.35.2-gke.1485000")  # fmt: skip
    a3_high = pool["config"]["machineType"] == "a3-highgpu-8g"
    if a3_high and meets(pool["version"], first) is False:
        raise bad_request(
            f"a3-highgpu-8g is not supported in {pool['version']}: use any patch of 1.30 to 1.33, "
            "1.34.5-gke.1153000, 1.35.2-gke.1485000 or later"
        )


def _network_labels(pool: Pool) -> dict[str, str]:
    profile = pool["networkConfig"].get("acceleratorNetworkProfile")
    return {"gke.networks.io/accelerator-network-profile": profile} if profile else {}


def claimable(pool: Pool) -> dict[str, int]:
    """DeviceClass -> how many of its devices GKE's DRANET offers on a node of the pool."""
    profile = pool["networkConfig"].get("acceleratorNetworkProfile")
    enabled = pool["config"].get("labels", {}).get(DRIVER_LABEL) == "true"
    old = meets(pool["version"], ("1.34.1-gke.1829001",)) is False
    rdma = NETWORKS.get(pool["config"]["machineType"].removesuffix("-nolssd"), 0)
    return {"mrdma.google.com": rdma} if profile and enabled and rdma and not old else {}


def expected_gpus(pool: Pool) -> dict[str, str | int] | None:
    """What GKE's autoscaler expects of each GPU that NVIDIA's DRA driver will publish on a node of
    the pool. Pods that claim others start no first node: cluster-autoscaler 7d250507,
    pkg/cloudprovider/gke/dynamicresources/gpu.go, whose memory is an XOR."""
    found = accelerator_of(pool)
    enabled = pool["config"].get("labels", {}).get(GPU_DRIVER_LABEL) == "true"
    old = meets(pool["version"], ("1.34.0-gke.0",)) is False
    if found is None or not enabled or old:
        return None
    if found[0].name not in _EXPECTED:
        return {}
    product, architecture, gigabytes = _EXPECTED[found[0].name]
    named = {"type": "gpu", "brand": "Nvidia", "productName": product, "architecture": architecture}
    return {**named, "uuid": "", "index": 0, "minor": 0, "memory": gigabytes * 2 ^ 30}


FEATURES = (
    Feature(check=_check_gpus, labels=_gpu_labels, capacity=_gpus),
    Feature(check=_check_provisioning, labels=_provisioning_labels, taints=_queued_taint),
    Feature(check=check_ssds, labels=ssd_labels),
    Feature(check=check_node_settings),
    Feature(check=_check_second_disks),
    Feature(check=_check_networks, labels=_network_labels),
    Feature(check=_check_a3_high),
)
