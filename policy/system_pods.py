"""The stack's own pods that must have powers over their node: which ones, which powers, and why.

Nothing is exempt because of its namespace.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from policy.pods import Pods


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPods:
    """One of them."""

    pattern: str
    """`namespace/kind/name`."""
    controls: Sequence[str]
    """Controls of `policy.standard` that it need not keep."""
    paths: Sequence[str]
    """What it mounts of its node beyond what every pod may."""
    why: str


_DRIVER = "/home/kubernetes/bin/nvidia"
SYSTEM_PODS: Sequence[SystemPods] = (
    SystemPods(
        pattern="kube-system/DaemonSet/nvidia-driver-installer-*",
        controls=("privileged", "hostNamespaces", "allowPrivilegeEscalation", "runAsNonRoot",
                  "capabilitiesRestricted", "seccompRestricted"),
        paths=("/", "/boot", "/dev", _DRIVER, f"{_DRIVER}/vulkan/icd.d", "/var/lib/cos-tools",
               "/etc/nvidia"),
        why="loads NVIDIA's kernel modules and writes the driver to the node; as Google ships it",
    ),
    SystemPods(
        pattern="kube-system/DaemonSet/nvidia-device-plugin*",
        controls=("privileged", "capabilities", "allowPrivilegeEscalation", "runAsNonRoot",
                  "capabilitiesRestricted", "seccompRestricted"),
        paths=("/var/lib/kubelet/device-plugins", _DRIVER, "/run/nvidia/mps",
               "/run/nvidia/mps/shm"),
        why="registers GPUs with the kubelet; privileged where no NVIDIA runtime gives it the "
        "devices, SYS_ADMIN to watch MIG partitions",
    ),
    SystemPods(
        pattern="kube-system/DaemonSet/nvidia-mps-control-daemon*",
        controls=("privileged", "allowPrivilegeEscalation", "runAsNonRoot",
                  "capabilitiesRestricted", "seccompRestricted"),
        paths=("/run/nvidia/mps", "/run/nvidia/mps/shm"),
        why="mounts on the node the memory through which pods share a GPU",
    ),
    SystemPods(
        pattern="gpu-monitoring-system/DaemonSet/dcgm-exporter*",
        controls=("privileged", "capabilities", "allowPrivilegeEscalation", "runAsNonRoot",
                  "runAsUser", "capabilitiesRestricted", "seccompRestricted"),
        paths=("/var/lib/kubelet/pod-resources", _DRIVER),
        why="reads every GPU of the node, and from the kubelet whose pod has it; SYS_ADMIN for "
        "profiling metrics",
    ),
)  # fmt: skip


def exemption(pods: Pods) -> SystemPods | None:
    """The row for these pods, None for any other."""
    return next((row for row in SYSTEM_PODS if pods.fits(row.pattern)), None)
