"""The nodes that GKE would start: labels, taints, capacity, drivers and plugins."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from gpu_cluster.components.catalog.gke import Accelerator, MachineType, machine_type, region_of
from gpu_cluster.rehearsal.simulators.cloud import (
    GpuSharing,
    NodeGroup,
    NodeTaint,
    NodeTemplate,
    ProvidedBy,
)
from gpu_cluster.rehearsal.simulators.google.container.machine_families import (
    local_ssds,
    memory_gib,
    pool_ssds,
    system_reserved,
)
from gpu_cluster.rehearsal.simulators.google.container.node_defaults import (
    accelerator_of,
    max_pods,
    queued,
)
from gpu_cluster.rehearsal.simulators.google.container.node_features import (
    FEATURES,
    GPU_RESOURCE,
    NO_PLUGIN_LABEL,
    claimable,
    driver_version,
    expected_gpus,
    first_gpu,
    gke_sharing,
)
from gpu_cluster.rehearsal.simulators.google.container.node_pools import least
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource

_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    "NO_EXECUTE": "NoExecute",
}
_MAX_PODS = 110
_SHARED_CORE = ("e2-micro", "e2-small", "e2-medium")
_REST = float("inf")
_CPU_TIERS = ((1, 0.06), (1, 0.01), (2, 0.005), (_REST, 0.0025))
_MEMORY_TIERS = ((4000, 0.25), (4000, 0.20), (8000, 0.10), (112_000, 0.06), (_REST, 0.02))
_SSD_FILE_SYSTEM = {1: 7_289_472, 2: 13_725_224, 4: 26_332_924, 8: 51_556_096,
                    16: 52_837_800, 24: 78_686_620}  # fmt: skip
"""KiB that the file system of as many local SSDs takes, measured: cloudprovider/gce/reserved.go
in kubernetes/autoscaler, read 2026-11-28. More than 24 were not measured."""


def group(pool: CloudResource, cluster: CloudResource) -> NodeGroup:
    """A node pool as the sandbox sees it. Counts are the sums over all its zones."""
    state = pool.state
    config = state["config"]
    scaling = state.get("autoscaling") or {}
    fewest = most = pool.nodes - pool.surging
    if scaling.get("enabled"):
        fewest = least(state)
        per_zone = scaling.get("maxNodeCount", 0) * len(state["locations"])
        most = scaling.get("totalMaxNodeCount") or per_zone
    most += pool.surging
    shape = NodeTemplate(
        labels=_labels(state, cluster.state),
        taints=tuple(_taints(state)),
        capacity=_capacity(state),
        devices=claimable(state),
    )
    disabled = driver_version(config) == "INSTALLATION_DISABLED"
    own_plugin = config.get("labels", {}).get(NO_PLUGIN_LABEL) == "true"
    gpus = accelerator_of(state)
    has_gpus = gpus is not None
    # GKE's DaemonSet for the plugin also installs its driver: NVIDIA/aicr PR 2047, read 2026-11-24.
    driver: ProvidedBy = "pod" if has_gpus and (disabled or own_plugin) else "cloud"
    plugin: ProvidedBy = "pod" if has_gpus and own_plugin else "cloud"
    return NodeGroup(
        name=state["name"],
        min_nodes=fewest,
        max_nodes=most,
        target_nodes=pool.kept_nodes,
        template=_template(shape, state, gpus),
        # What it offers depends on the DRA driver, if there is one.
        node=shape if expected_gpus(state) is None else replace(shape, devices=None),
        gpu_model=gpus[0].model if gpus else "",
        driver=driver,
        plugin=plugin,
        node_os=node_os(config["imageType"]),
        spot=bool(config.get("spot")),
        on_demand_per_hour=hourly_price(_machine(config), gpus),
        autoscaled=bool(scaling.get("enabled")),
        provider_id=f"gce://{pool.identity.split('/')[1]}/{state['locations'][0]}/",
        revision=pool.revision,
        forced=True,
        surging=pool.surging,
        gpus=gpus[1] if gpus else 0,
        queued=queued(state),
        zones=tuple(state["locations"]),
        sharing=gke_sharing(first_gpu(config), gpus)
        if plugin == "cloud" and gpus
        else GpuSharing(),
    )


def _template(
    shape: NodeTemplate, pool: Mapping[str, Any], gpus: tuple[Accelerator, int] | None
) -> NodeTemplate:
    """A node as the autoscaler expects it: also with GPUs that pods can claim, and then without the
    resource (cluster-autoscaler 7d250507, pkg/cloudprovider/gke, clearGpuCapacityInplace)."""
    expected, devices = expected_gpus(pool), shape.devices or {}
    if expected is not None:
        capacity = {name: amount for name, amount in shape.capacity.items() if name != GPU_RESOURCE}
        shape = replace(shape, capacity=capacity)
    if gpus is not None and expected:
        devices = {**devices, "gpu.nvidia.com": gpus[1]}
    return replace(shape, devices=devices, expected=expected)


def node_os(image_type: str) -> Literal["cos", "ubuntu", "other"]:
    """The operating system of a `NodeConfig.imageType`."""
    name = image_type.upper()
    return "cos" if name.startswith("COS") else "ubuntu" if name.startswith("UBUNTU") else "other"


def _taints(pool: Mapping[str, Any]) -> Iterator[NodeTaint]:
    """The pool's taints, including GKE's own for Arm nodes:
    docs.cloud.google.com/kubernetes-engine/docs/how-to/prepare-arm-workloads-for-deployment,
    "Overview", read on 2026-11-23."""
    config = pool["config"]
    for feature in FEATURES:
        yield from feature.taints(pool)
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
    }
    for feature in FEATURES:
        labels |= feature.labels(pool)
    if pool["networkConfig"].get("enablePrivateNodes"):
        labels["cloud.google.com/private-node"] = "true"
    metadata = config.get("workloadMetadataConfig", {}).get("mode")
    if (
        (cluster.get("workloadIdentityConfig") or {}).get("workloadPool") and metadata is None
    ) or metadata == "GKE_METADATA":
        labels["iam.gke.io/gke-metadata-server-enabled"] = "true"
    return labels


def _machine(config: Mapping[str, Any]) -> MachineType:
    machine = machine_type(config["machineType"])
    assert machine is not None, "a stored pool has a machine type of the catalogue"
    return machine


def _capacity(pool: Mapping[str, Any]) -> dict[str, str]:
    config = pool["config"]
    image = "ubuntu" if node_os(config["imageType"]) == "ubuntu" else "cos"
    machine, disk_gb, ssds = _machine(config), config["diskSizeGb"], pool_ssds(config)[0]
    capacity = allocatable(machine, disk_gb, max_pods(pool), image, ssds)
    for feature in FEATURES:
        capacity |= feature.capacity(pool)
    return capacity


def allocatable(
    machine: MachineType,
    disk_gb: int,
    pods: int = _MAX_PODS,
    image: str = "cos",
    ssds: int = 0,
) -> dict[str, str]:
    """The resources that GKE leaves for pods, as Kubernetes quantities, as its autoscaler works
    them out: GoogleCloudPlatform/cluster-autoscaler 7d250507, pkg/cloudprovider/gke/reserved.go.

    Of CPU it reserves 6 % of the first core, 1 % of the second, 0.5 % of the next two and 0.25 % of
    the rest; of memory what the kernel has, 25 % of the first 4000 MiB, 20 % of the next 4000, 10 %
    of the next 8000, 6 % of the next 112,000, 2 % of the rest, and 100 MiB.
    """
    if machine.name in _SHARED_CORE:
        milli = 940
    else:
        milli = round((machine.vcpu - _share(machine.vcpu, _CPU_TIERS)) * 1000)
    mebibytes = int(memory_gib(machine) * 1024)
    kube = int(_share(mebibytes, _MEMORY_TIERS))
    image = f"{image}-{machine.arch}"
    kernel = system_reserved("memory", image, mebibytes * 2**20) / 2**20
    return {
        "cpu": f"{milli}m",
        "memory": f"{int(mebibytes - kernel - kube - 100)}Mi",
        "ephemeral-storage": str(_disk(machine, disk_gb, image, ssds)),
        "pods": str(pods),
    }


def _disk(machine: MachineType, disk_gb: int, image: str, count: int) -> int:
    """Bytes for pods, of which a tenth is kept free: on `count` local SSDs, else on the boot disk,
    whose GB are GiB."""
    if count:
        _, gib = local_ssds(machine.name)
        measured = next((c for c in sorted(_SSD_FILE_SYSTEM) if c >= count), max(_SSD_FILE_SYSTEM))
        capacity = count * gib * 2**30 - _SSD_FILE_SYSTEM[measured] * 2**10
        reserved = {1: 50, 2: 75}.get(count, 100)
    else:
        capacity = disk_gb * 2**30 - system_reserved("disk", image, disk_gb * 2**30)
        reserved = min(int(disk_gb * 0.5), 6 + int(disk_gb * 0.35), 100)
    return max(int(capacity * 0.9) - reserved * 2**30, 1)


def _share(amount: float, tiers: tuple[tuple[float, float], ...]) -> float:
    kept = 0.0
    for size, share in tiers:
        kept += min(amount, size) * share
        amount = max(amount - size, 0)
    return kept


def hourly_price(machine: MachineType, found: tuple[Accelerator, int] | None) -> float | None:
    """US dollars per hour for the machine with its GPUs, on demand; None if unknown."""
    if machine.on_demand is None or found is None or machine.accelerator is not None:
        return machine.on_demand
    accelerator, count = found
    if accelerator.on_demand is None:
        return None
    return round(machine.on_demand + count * accelerator.on_demand, 5)
