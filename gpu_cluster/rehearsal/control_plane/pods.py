"""Small queries on pods and nodes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from gpu_cluster.components.kube import gpu_daemons
from gpu_cluster.components.kube.requests import requests

GPU = "nvidia.com/gpu"
EFA = "vpc.amazonaws.com/efa"
CLAIMED = "rehearsal/claimed-gpus"
"""Key of a pod's spec, as `ClusterCache` has it: the GPUs that its claims ask for."""
PUBLISHED = "rehearsal/published-gpus"
"""Annotation of a node: the GPUs in its ResourceSlices, which are other objects."""
STARTING = {
    "key": "node.cloudprovider.kubernetes.io/uninitialized",
    "value": "true",
    "effect": "NoSchedule",
}
"""Taint of a node until it has its real properties: Karpenter assumes GPUs from the beginning."""

Object = Mapping[str, Any]
DRA_DRIVER = "gpu.nvidia.com"
"""NVIDIA's driver for claims, which the conditions of its DeviceClasses name, and one of these."""


def full_name(item: Object) -> str:
    """Returns `namespace/name`."""
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def condition(item: Object, kind: str) -> Object:
    """The condition of this type; empty if there is none yet."""
    for found in item.get("status", {}).get("conditions") or []:
        if found["type"] == kind:
            return dict(found)
    return {}


def holds(item: Object, kind: str) -> bool:
    """Whether the condition of this type is True."""
    return condition(item, kind).get("status") == "True"


def workload(pod: Object) -> str:
    """The workload of the pod: `Deployment default/name`, `Job ...`, `DaemonSet ...`, `Pod ...`."""
    namespace = pod["metadata"].get("namespace", "")
    for owner in pod["metadata"].get("ownerReferences") or []:
        kind, name = owner["kind"], owner["name"]
        if kind == "ReplicaSet":
            template_hash = (pod["metadata"].get("labels") or {}).get("pod-template-hash", "")
            kind, name = "Deployment", name.removesuffix(f"-{template_hash}")
        return f"{kind} {namespace}/{name}"
    return f"Pod {namespace}/{pod['metadata']['name']}"


def gpus_asked(spec: Object) -> int:
    """The GPUs that the scheduler reserves for a pod with this spec: as `nvidia.com/gpu`, or, of a
    pod from `ClusterCache`, by its claims."""
    return int(requests(spec).get(GPU, 0)) + int(spec.get(CLAIMED, 0))


def alternatives(request: Object) -> Sequence[Object]:
    """What meets a request of a claim: one of these, of which the scheduler prefers the first."""
    return request.get("firstAvailable") or [request["exactly"]]


def conditions(option: Object, classes: Mapping[str, Object]) -> list[str]:
    """The conditions in CEL for each device of an alternative, also those of its class."""
    its = classes.get(option["deviceClassName"], {}).get("spec", {})
    selectors = [*(its.get("selectors") or ()), *(option.get("selectors") or ())]
    return [selector["cel"]["expression"] for selector in selectors]


def claimed_gpus(claim: Object, classes: Mapping[str, Object]) -> int:
    """The GPUs of a claim, or of a template's: those that it has, or else needs at least.
    `classes`: DeviceClasses by name. Access for monitoring takes none."""
    if allocation := (claim.get("status") or {}).get("allocation"):
        results = (allocation.get("devices") or {}).get("results") or ()
        return sum(r["driver"] == DRA_DRIVER and not r.get("adminAccess") for r in results)
    spec = claim["spec"].get("spec", claim["spec"])
    needs = [
        [
            int(option.get("count", 1))
            for option in alternatives(request)
            if not option.get("adminAccess")
            and any(
                DRA_DRIVER in text
                for text in (option["deviceClassName"], *conditions(option, classes))
            )
        ]
        for request in spec.get("devices", {}).get("requests") or ()
    ]
    return sum(min(counts, default=0) for counts in needs)


def claims_devices(pod: Object) -> bool:
    """Whether it has devices by claims: its own, or one of the scheduler for what it requests."""
    named = pod["spec"].get("resourceClaims") or pod["status"].get("extendedResourceClaimStatus")
    return bool(named)


def maps_requests(device_classes: Iterable[Object]) -> bool:
    """Whether the scheduler takes GPUs that pods claim also for pods that request `nvidia.com/gpu`:
    kubernetes v1.36.3, plugins/dynamicresources/extendeddynamicresources.go."""
    return any(item["spec"].get("extendedResourceName") == GPU for item in device_classes)


def allocatable_gpus(node: Object) -> int:
    """The GPUs that a node offers now: as `nvidia.com/gpu`, or in its ResourceSlices."""
    published = (node["metadata"].get("annotations") or {}).get(PUBLISHED, 0)
    return int(node.get("status", {}).get("allocatable", {}).get(GPU, 0)) + int(published)


def with_published(node: dict[str, Any], slices: Iterable[Object]) -> dict[str, Any]:
    """The node with the number of GPUs in its ResourceSlices, which a simulated one has already."""
    metadata, annotations = node["metadata"], node["metadata"].get("annotations") or {}
    if PUBLISHED in annotations:
        return node
    of = (DRA_DRIVER, metadata["name"])
    specs = [item["spec"] for item in slices]
    own = [spec for spec in specs if (spec["driver"], spec.get("nodeName")) == of]
    if not (published := sum(len(spec.get("devices") or ()) for spec in own)):
        return node
    annotations = {**annotations, PUBLISHED: str(published)}
    return {**node, "metadata": {**metadata, "annotations": annotations}}


def claims_of(pod: Object) -> list[str]:
    """The names of the ResourceClaims by which a pod has or gets its devices, if they exist."""
    status = pod.get("status") or {}
    entries = [*(pod["spec"].get("resourceClaims") or ()), *status.get("resourceClaimStatuses", ())]
    entries.append(status.get("extendedResourceClaimStatus") or {})
    return [*filter(None, (entry.get("resourceClaimName") for entry in entries))]


def phase(pod: Object) -> str:
    """The pod's phase: pending, bound, running, ready, succeeded, failed, or deleting."""
    if pod["metadata"].get("deletionTimestamp"):
        return "deleting"
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed"):
        return str(status["phase"]).lower()
    if status.get("phase") == "Running":
        return "ready" if holds(pod, "Ready") else "running"
    return "bound" if pod["spec"].get("nodeName") else "pending"


def pods_on(node: Object, pods: Iterable[Object]) -> list[Object]:
    """The pods that use resources of the node: those on it that have not ended."""
    name = node["metadata"]["name"]
    return [
        pod
        for pod in pods
        if pod["spec"].get("nodeName") == name and phase(pod) not in ("succeeded", "failed")
    ]


def is_starting(node: Mapping[str, Any]) -> bool:
    """Whether Karpenter has created a node that has not joined: the cloud may still refuse it."""
    keys = {taint["key"] for taint in node["spec"].get("taints") or []}
    return bool(keys & {STARTING["key"], "karpenter.sh/unregistered"})


def installs_driver_on(pod: Mapping[str, Any]) -> str | None:
    """The node image that a driver installer's pod is for; None for any other pod."""
    return gpu_daemons.installer_made_for(pod["spec"])


def is_device_plugin(pod: Mapping[str, Any]) -> bool:
    """Whether the pod registers NVIDIA's GPUs with the kubelet."""
    return gpu_daemons.is_device_plugin(pod["spec"]) is True


def is_dra_driver(pod: Mapping[str, Any]) -> bool:
    """Whether the pod publishes its node's GPUs, so that pods can claim them."""
    return gpu_daemons.is_dra_driver(pod["spec"]) is True


def serves_efa(pod: Mapping[str, Any]) -> bool:
    """Whether the pod registers Elastic Fabric Adapters: AWS's plugin, which looks for devices in
    the host's /dev/infiniband (aws/eks-charts, aws-efa-k8s-device-plugin v0.5.30)."""
    paths = gpu_daemons.host_paths(pod["spec"])
    images = [str(container.get("image")) for container in pod["spec"]["containers"]]
    return {gpu_daemons.PLUGIN_SOCKETS, "/dev/infiniband"} <= paths and any(
        "/aws-efa-k8s-device-plugin:" in image for image in images
    )


def claims_efa(pod: Mapping[str, Any]) -> str:
    """Why a device plugin of NVIDIA takes the adapters from AWS's: from 0.19 on, it gives every pod
    with a GPU all devices of /dev/infiniband (k8s-device-plugin issue 1692); empty if it does not.
    """
    variables = {
        variable["name"]: variable.get("value")
        for container in pod["spec"]["containers"]
        for variable in container.get("env") or []
    }
    if not is_device_plugin(pod) or variables.get("MOFED_ENABLED") == "false":
        return ""
    return (
        f"{full_name(pod)} gives every pod with a GPU all EFA devices of its node, whatever it "
        "requests: MOFED_ENABLED is not false"
    )


def second_efa_plugin(pods: Sequence[Mapping[str, Any]]) -> str:
    """Which pods of a node offer the same adapters, if there are several; empty otherwise. Each
    plugin listens on the same socket of the kubelet's directory, and removes the other's
    (aws/eks-charts, aws-efa-k8s-device-plugin v0.5.30)."""
    plugins = sorted(full_name(pod) for pod in pods if serves_efa(pod))
    if len(plugins) < 2:
        return ""
    return f"{' and '.join(plugins)} are two device plugins for vpc.amazonaws.com/efa on one node"


def installs_gib(pod: Mapping[str, Any]) -> bool:
    """Whether the pod copies Google's plugin of NCCL for RDMA to its node, to where workers mount
    it (container-engine-accelerators, gpudirect-rdma/nccl-rdma-installer.yaml)."""
    images = [str(part.get("image")) for part in pod["spec"].get("initContainers") or []]
    paths = gpu_daemons.host_paths(pod["spec"])
    return "/home/kubernetes/bin/gib" in paths and any("/nccl-plugin-gib:" in i for i in images)


def part(pod: Mapping[str, Any]) -> Literal["driver", "plugin"] | None:
    """Which part of a node's GPUs the pod (or pod template) provides."""
    if installs_driver_on(pod):
        return "driver"
    return "plugin" if is_device_plugin(pod) or is_dra_driver(pod) else None


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the pod is running and ready; one that is being deleted does not count."""
    return not pod["metadata"].get("deletionTimestamp") and holds(pod, "Ready")
