"""A node's GPUs: whether it looks like a GPU node, model, counts, driver, plugin.

Pure functions: nodes, pods and DaemonSets are plain API objects.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpu_cluster.components.catalog import eks, gke
from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.cluster import GpuPool
from gpu_cluster.components.kube.gpu_daemons import installs_driver, is_device_plugin, is_dra_driver
from gpu_cluster.components.kube.partial import get
from gpu_cluster.components.kube.requests import requests

Object = Mapping[str, Any]

_NFD_LABELS = (
    names.NFD_NVIDIA_PCI,
    # With the prefix of the device class, which node feature discovery adds by default.
    "feature.node.kubernetes.io/pci-0300_10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
)
_PRODUCT = "nvidia.com/gpu.product"
_DRIVER_VERSION = "nvidia.com/cuda.driver-version.full"
_DRIVER_PARTS = tuple(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev"))
_FAILURES = frozenset({
    "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull",
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "RunContainerError",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """One pod of a driver installer or device plugin on a node."""

    pod: Object
    word: Literal["ready", "starting", "failing"]
    reason: str = ""

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])

    def __str__(self) -> str:
        return f"{self.word} ({self.reason})" if self.reason else self.word


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNode:
    """A node as the check shows it."""

    name: str
    gpu_sign: str | None
    """The reason why it looks like a GPU node; None if it does not."""
    pool: str | None
    """The pool of the stack whose selector matches it."""
    launched_by: str | None
    """`Karpenter` or `EKS Auto Mode` with the NodePool's name; None for any other node."""
    model: str | None
    resources: Mapping[str, tuple[int, int, int]]
    """GPU resource, or DeviceClass of claimed ones -> capacity, allocatable, requested by its
    pods."""
    driver: str | None
    plugin: str | None
    state: str
    """`ready`, `not ready`, and `cordoned` if no new pods can be scheduled."""

    @property
    def allocatable(self) -> int:
        return sum(counts[1] for counts in self.resources.values())


def claimable(
    slices: Iterable[Object], claims: Iterable[Object]
) -> Mapping[str, tuple[int, int, int]]:
    """Node -> how many GPUs NVIDIA's DRA driver publishes there, how many of them are healthy, and
    how many are claimed."""
    found: dict[str, tuple[int, int, int]] = {}
    taken = [
        device["pool"]
        for claim in claims
        for device in get(claim, "status", "allocation", "devices", "results") or ()
        if device["driver"] == names.GPU_CLASS and not device.get("adminAccess")
    ]
    for spec in (item["spec"] for item in slices):
        node, devices = spec.get("nodeName"), spec.get("devices") or []
        if spec["driver"] == names.GPU_CLASS and node:
            count, healthy, _ = found.get(node, (0, 0, 0))
            healthy += sum(not device.get("taints") for device in devices)
            found[node] = (count + len(devices), healthy, taken.count(node))
    return found


def gpu_node(
    node: Object,
    pods: Sequence[Object],
    pools: Iterable[GpuPool],
    devices: Mapping[str, tuple[int, int, int]],
) -> GpuNode:
    """`pods` are the node's own; `devices`: what `claimable` found."""
    sign = gpu_sign(node)
    if (published := devices.get(node["metadata"]["name"])) and sign is None:
        sign = f"ResourceSlice of {names.GPU_CLASS}"
    pool = next((pool for pool in pools if selects(pool.node_selector, node)), None)
    resources = {
        resource: (
            _count(node, "capacity", resource),
            _count(node, "allocatable", resource),
            sum(requested(pod, resource) for pod in pods),
        )
        for resource in _gpu_resources(node)
    }
    if published:
        resources[names.GPU_CLASS] = published
    allocatable = sum(counts[1] for counts in resources.values())
    return GpuNode(
        name=node["metadata"]["name"],
        gpu_sign=sign,
        pool=pool.name if pool else None,
        launched_by=launched_by(node),
        model=model(node) or (pool.accelerator if pool else None) if sign else None,
        resources=resources or ({names.GPU_RESOURCE: (0, 0, 0)} if sign else {}),
        driver=_driver(node, pods, allocatable) if sign else None,
        plugin=_plugin(pods, allocatable) if sign else None,
        state=_state(node),
    )


def launched_by(node: Object) -> str | None:
    """What launched the node's machine, with the name of the NodePool."""
    labels = labels_of(node)
    if (pool := labels.get(names.NODE_POOL)) is None:
        return None
    automatic = labels.get(names.EKS_COMPUTE_TYPE) == "auto"
    return f"{'EKS Auto Mode' if automatic else 'Karpenter'}, NodePool {pool}"


def labels_of(item: Object) -> Mapping[str, str]:
    """The labels of any object."""
    return item["metadata"].get("labels") or {}


def taints_of(node: Object) -> list[Mapping[str, str]]:
    """The taints that the node has now."""
    return list(node.get("spec", {}).get("taints") or [])


def selects(selector: Mapping[str, str], node: Object) -> bool:
    """Whether a node selector matches the node."""
    labels = labels_of(node)
    return all(labels.get(key) == value for key, value in selector.items())


def gpu_sign(node: Object) -> str | None:
    """The first sign that the node has NVIDIA GPUs, or None."""
    labels = labels_of(node)
    for resource in _gpu_resources(node):
        return f"capacity {resource}"
    if labels.get(names.GPU_PRESENT) == "true":
        return f"label {names.GPU_PRESENT}=true"
    for key in (names.GKE_ACCELERATOR, names.EKS_ACCELERATOR):
        if key in labels:
            return f"label {key}={labels[key]}"
    for key in _NFD_LABELS:
        if labels.get(key) == "true":
            return f"label {key}=true"
    if _model_of_type(kind := labels.get(names.INSTANCE_TYPE, "")):
        return f"instance type {kind}"
    return None


def model(node: Object) -> str | None:
    """The GPU's name from the most precise source."""
    labels = labels_of(node)
    for key in (_PRODUCT, names.GKE_ACCELERATOR, names.EKS_ACCELERATOR):
        if labels.get(key):
            return labels[key]
    return _model_of_type(labels.get(names.INSTANCE_TYPE, ""))


def requested(pod: Object, resource: str) -> int:
    """Units of a resource that the scheduler reserves for the pod; 0 once it has ended, or if it
    has GPUs of a DRA driver instead, by a claim that the scheduler made."""
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    mapped = get(pod, "status", "extendedResourceClaimStatus", "requestMappings") or ()
    if any(mapping["resourceName"] == resource for mapping in mapped):
        return 0
    return int(requests(pod["spec"]).get(resource, 0))


def plugin_pods(pods: Iterable[Object]) -> list[PodState]:
    """Pods of NVIDIA's or GKE's device plugin, or NVIDIA's DRA driver, among a node's pods."""
    return [pod_state(pod) for pod in pods if offers_gpus(pod["spec"])]


def offers_gpus(spec: Mapping[str, Any]) -> bool:
    """Whether such a pod is a device plugin or a DRA driver of NVIDIA's GPUs."""
    return bool(is_device_plugin(spec) or is_dra_driver(spec))


def installer_pods(pods: Iterable[Object]) -> list[PodState]:
    """Driver installers among a node's pods."""
    return [pod_state(pod) for pod in pods if installs_driver(pod["spec"])]


def pod_state(pod: Object) -> PodState:
    """Whether it is ready, starting, or failing for a reason that waiting does not fix."""
    status = pod.get("status", {})
    for container in [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        ended = (container.get("state") or {}).get("terminated") or {}
        if waiting.get("reason") in _FAILURES:
            return PodState(pod=pod, word="failing", reason=waiting["reason"])
        if ended.get("exitCode"):
            return PodState(pod=pod, word="failing", reason=f"exit code {ended['exitCode']}")
    if status.get("phase") == "Failed":
        return PodState(pod=pod, word="failing", reason=status.get("reason", "Failed"))
    conditions = {c["type"]: c["status"] for c in status.get("conditions") or []}
    going = pod["metadata"].get("deletionTimestamp")
    ready = conditions.get("Ready") == "True" and not going
    return PodState(pod=pod, word="ready" if ready else "starting")


def _gpu_resources(node: Object) -> list[str]:
    capacity = node.get("status", {}).get("capacity") or {}
    plain = (names.GPU_RESOURCE, names.SHARED_GPU_RESOURCE)
    return [
        name
        for name in sorted(capacity)
        # A plugin that was removed leaves its resource at zero: it was a GPU node before.
        if name in plain or name.startswith(names.MIG_RESOURCE_PREFIX)
    ]


def _count(node: Object, where: str, resource: str) -> int:
    return int((node.get("status", {}).get(where) or {}).get(resource, 0))


def _model_of_type(kind: str) -> str | None:
    instance = eks.INSTANCE_TYPES.get(kind)
    if instance is not None and instance.vendor == "NVIDIA" and instance.gpus >= 1:
        return instance.gpu_model
    machine = gke.machine_type(kind)
    return machine.accelerator if machine is not None else None


def _driver(node: Object, pods: Sequence[Object], allocatable: int) -> str:
    labels = labels_of(node)
    version = labels.get(_DRIVER_VERSION) or ".".join(
        labels[part] for part in _DRIVER_PARTS if labels.get(part)
    )
    if version:
        return version
    installers = installer_pods(pods)
    if allocatable:
        return "installed" if installers else "works"
    if installers:
        states = [str(state) for state in installers if state.word != "ready"]
        return f"installer {states[0]}" if states else "installed"
    if names.GKE_GPU_DRIVER_VERSION in labels:
        return f"GKE's {labels[names.GKE_GPU_DRIVER_VERSION]}"
    return "not known"


def _plugin(pods: Sequence[Object], allocatable: int) -> str:
    plugins = plugin_pods(pods)
    if plugins:
        return str(min(plugins, key=lambda state: state.word != "ready"))
    return "not a pod" if allocatable else "missing"


def _state(node: Object) -> str:
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or []}
    word = "ready" if conditions.get("Ready") == "True" else "not ready"
    return f"{word}, cordoned" if node.get("spec", {}).get("unschedulable") else word
