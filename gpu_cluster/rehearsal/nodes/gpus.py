"""Adds `nvidia.com/gpu` to nodes, as their driver installer and device plugin would.

A node offers its GPUs once both are done. If pods do the work, they have to run on the node;
`gpu_cluster.components.kube.gpu_daemons` identifies those pods.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_cluster.components.kube.gpu_daemons import host_paths
from gpu_cluster.rehearsal.control_plane.pods import (
    installs_driver_on,
    is_device_plugin,
    is_dra_driver,
    is_ready,
)
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup

CLOUD_SECONDS = 1.0
"""How long after the node is ready the cloud's driver and plugin run; in a cloud, minutes."""

_DRA = ", a DRA driver"
_ROOT = "NVIDIA_DRIVER_ROOT"
PARTITION_LABEL = "cloud.google.com/gke-gpu-partition-size"
_SIZES_OF_2025_04 = """
    1g.5gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb 1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb 1g.18gb
    1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb 1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb
"""
PARTITIONERS = {
    # gcr.io/gke-release/nvidia-partition-gpu, container-engine-accelerators 4da5c076 of 2025-04-07
    "sha256:de12f85ebfb4fb6c1893cd30c23aab662a72fa0448f97ef74fccb82d7522ef17": (
        _SIZES_OF_2025_04.split()
    )
}
"""Image that partitions GPUs -> the sizes it supports; it exits with an error for any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuParts:
    """Who provides which part of the GPUs on one node."""

    drivers: tuple[str, ...]
    """`the cloud`, or the pods that installed the driver."""
    plugins: tuple[str, ...]
    misfits: tuple[str, ...]
    """Installer pods for another node image, which do nothing on this node."""
    crashing: tuple[str, ...] = ()
    """Pods that fail on the node, and why: installers when they partition the GPUs, device plugins
    for lack of a GPU."""

    @property
    def complete(self) -> bool:
        """Whether both driver and device plugin are present."""
        return bool(self.drivers) and bool(self.plugins)


def gpu_parts(group: NodeGroup, pods: Iterable[Mapping[str, Any]]) -> GpuParts:
    """Determines the parts from the pods on a node of this group."""
    drivers = ["the cloud"] if group.driver == "cloud" else []
    plugins = ["the cloud"] if group.plugin == "cloud" else []
    misfits, crashing = [], []
    size = group.node.labels.get(PARTITION_LABEL)
    for pod in pods:
        if not is_ready(pod):
            continue
        made_for = installs_driver_on(pod)
        if made_for is not None and size is not None and not _partitions(pod, size):
            crashing.append(f"{_name(pod)}, whose image does not know partitions of {size}")
        elif made_for is not None and made_for == group.node_os:
            drivers.append(_name(pod))
        elif made_for is not None:
            misfits.append(_name(pod))
        if is_device_plugin(pod):
            fault = _variable_fault(pod["spec"]) if group.node_os == "al2023" else ""
            if fault := fault or _hook_fault(group.toolkit, pod["spec"]):
                crashing.append(f"{_name(pod)}, {fault}")
            else:
                plugins.append(_name(pod))
        if is_dra_driver(pod):
            if fault := dra_fault(pod["spec"], group.node_os):
                crashing.append(f"{_name(pod)}, {fault}")
            else:
                plugins.append(f"{_name(pod)}{_DRA}")
    return GpuParts(
        drivers=tuple(drivers),
        plugins=tuple(plugins),
        misfits=tuple(misfits),
        crashing=tuple(crashing),
    )


def dra_fault(spec: Mapping[str, Any], node_os: str = "") -> str:
    """Why NVIDIA's DRA driver does not start, or its claims never work; empty if they do
    (dra-driver-nvidia-gpu v0.4.1, cmd/gpu-kubelet-plugin/main.go; the kubelet's and the container
    runtime's directories)."""
    (container,) = (part for part in spec["containers"] if part["name"] == "gpus")
    given = {variable["name"] for variable in container.get("env") or []}
    if missing := sorted({"NODE_NAME", "IMAGE_NAME"} - given):
        return f"which ends at once: it needs {' and '.join(missing)}"
    if not (container.get("securityContext") or {}).get("privileged"):
        return "which is not privileged and cannot open the GPUs"
    mounted = host_paths(spec)
    for path in ("/var/lib/kubelet/plugins", "/var/run/cdi"):
        if path not in mounted:
            return f"which does not mount {path} of the host"
    # The init container, kubelet-plugin-prestart.sh, looks for nvidia-smi and NVML there.
    root = "/home/kubernetes/bin/nvidia" if node_os == "cos" else "/"
    given_root = next((v.get("value") for v in container["env"] if v["name"] == _ROOT), "/")
    if given_root.rstrip("/") != root.rstrip("/") or root not in mounted:
        return (
            f"which waits for ever for NVIDIA's driver in {given_root}: on this node it is in "
            f"{root}"
        )
    return ""


def _variable_fault(spec: Mapping[str, Any]) -> str:
    """Why a device plugin fails on nodes whose NVIDIA runtime ignores the variables of unprivileged
    containers, as in images of AL2023 from v20260423 (amazon-eks-ami issue 2706); empty if it
    works, or if a RuntimeClass names another runtime.

    To NVIDIA's runtime, SYS_ADMIN makes a container privileged (nvidia-container-toolkit,
    internal/config/image/privileged.go).
    """
    if spec.get("runtimeClassName"):
        return ""
    for container in spec["containers"]:
        security = container.get("securityContext") or {}
        added = (security.get("capabilities") or {}).get("add") or []
        if not security.get("privileged") and "SYS_ADMIN" not in added:
            return "whose container gets no GPU from the node's NVIDIA runtime without SYS_ADMIN"
        variables = {var["name"]: var.get("value") for var in container.get("env") or []}
        strategies = (variables.get("DEVICE_LIST_STRATEGY") or "envvar").split(",")
        if "cdi-cri" not in strategies:
            return (
                f"whose DEVICE_LIST_STRATEGY {','.join(strategies)} names pods' GPUs in a way that "
                "the node's NVIDIA runtime ignores for unprivileged pods"
            )
    return ""


def _hook_fault(toolkit: str, spec: Mapping[str, Any]) -> str:
    """Why no GPU container starts on a node with this toolkit before 1.18, whose `nvidia-ctk` ends
    with an error for hooks that it does not know (dra-driver-nvidia-gpu issue 568); empty if they
    do, or if the plugin writes no CDI files. `CDI_DISABLE_HOOKS` leaves hooks out
    (k8s-device-plugin pull request 1818)."""
    hook = "disable-device-node-modification"
    variables = {
        variable["name"]: variable.get("value") or ""
        for container in spec["containers"]
        for variable in container.get("env") or []
    }
    off = {name.strip() for name in variables.get("CDI_DISABLE_HOOKS", "").split(",")}
    if not toolkit or "cdi" not in variables.get("DEVICE_LIST_STRATEGY", "") or off & {hook, "all"}:
        return ""
    return (
        f"whose CDI files name the hook {hook}, which the node's nvidia-ctk {toolkit} does not "
        "know: no GPU container starts"
    )


def _partitions(pod: Mapping[str, Any], size: str) -> bool:
    """Whether the pod's partitioner supports this size, as far as its image is known here."""
    images = [
        container.get("image", "")
        for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    ]
    known = [sizes for digest, sizes in PARTITIONERS.items() if any(digest in i for i in images)]
    return all(size in sizes for sizes in known)


def conflicts(node: str, group: NodeGroup, parts: GpuParts) -> list[str]:
    """Combinations that must never exist on one node, one line each."""
    found = []
    for what, doers in (("driver installers", parts.drivers), ("device plugins", parts.plugins)):
        if len(doers) > 1:
            mixed = len({doer.endswith(_DRA) for doer in doers}) > 1
            twice = "owners of its GPUs, which would give one to two pods" if mixed else what
            found.append(
                f"pool {group.name}: node {node} has two {twice}: {' and '.join(sorted(doers))}"
            )
    found += [
        f"pool {group.name}: {pod} installs a driver for another node image than the "
        f"node's, which is {group.node_os}"
        for pod in parts.misfits
    ]
    found += [f"pool {group.name}: {pod}: fails on node {node}" for pod in parts.crashing]
    return found


def _name(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
