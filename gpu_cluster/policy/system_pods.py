"""The stack's own pods that need powers over their node, with these powers and the reasons.

No pod is exempt because of its namespace.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_cluster.policy.pods import Pods


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPods:
    """A kind of system pods."""

    pattern: str
    """`namespace/kind/name`."""
    controls: Sequence[str]
    """Controls of `policy.standard` that they may violate."""
    paths: Sequence[str]
    """Host paths that they mount in addition to those allowed for all pods."""
    why: str


_AS_ROOT = ("allowPrivilegeEscalation", "runAsNonRoot", "capabilitiesRestricted",
            "seccompRestricted")  # fmt: skip
"""What every one of these pods violates of the standard's `restricted`: it runs as root."""
_DRIVER = "/home/kubernetes/bin/nvidia"
SYSTEM_PODS: Sequence[SystemPods] = (
    SystemPods(
        pattern="kube-system/DaemonSet/nvidia-driver-installer-*",
        controls=("privileged", "hostNamespaces", *_AS_ROOT),
        paths=("/", "/boot", "/dev", _DRIVER, f"{_DRIVER}/vulkan/icd.d", "/var/lib/cos-tools",
               "/etc/nvidia"),
        why="loads NVIDIA's kernel modules and writes the driver to the node; as Google ships it",
    ),
    SystemPods(
        pattern="kube-system/DaemonSet/nvidia-device-plugin*",
        controls=("privileged", "capabilities", *_AS_ROOT),
        paths=("/var/lib/kubelet/device-plugins", _DRIVER, "/run/nvidia/mps",
               "/run/nvidia/mps/shm", "/var/run/cdi", "/"),
        why="registers GPUs with the kubelet; privileged where no NVIDIA runtime gives it the "
        "devices, SYS_ADMIN to watch MIG partitions and, with CDI, to get the GPUs; with CDI it "
        "reads the host's driver",
    ),
    SystemPods(
        pattern="kube-system/DaemonSet/nvidia-dra-driver*",
        controls=("privileged", *_AS_ROOT),
        paths=("/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins", "/var/run/cdi",
               "/", "/home/kubernetes/bin", "/home/kubernetes/bin/nvidia"),
        why="offers GPUs to the kubelet and describes them to container runtimes; it reads the "
        "host's driver",
    ),
    *(
        SystemPods(
            pattern=f"kube-system/DaemonSet/{name}",
            controls=("privileged", "hostNamespaces", "allowPrivilegeEscalation", "runAsNonRoot",
                      "runAsUser", "capabilitiesRestricted", "seccompRestricted"),
            paths=("/var/lib/kubelet/device-plugins", "/dev/infiniband"),
            why=f"registers Elastic Fabric Adapters with the kubelet, {where}; as AWS ships it",
        )
        for name, where in (
            ("aws-efa-k8s-device-plugin", "on clusters of the stack"),
            ("gpu-cluster-efa-device-plugin", "on existing clusters"),
        )
    ),
    *(
        SystemPods(
            pattern=f"kube-system/DaemonSet/{name}-installer",
            controls=("privileged", "hostNamespaces", *_AS_ROOT),
            paths=(f"/home/kubernetes/bin/{name}",),
            why=f"copies NCCL's plugin for {network} to the node{more}; as Google ships it",
        )
        for name, network, more in (
            ("gib", "RDMA", ""),
            ("tcpx", "GPUDirect-TCPX", ""),
            ("tcpxo", "GPUDirect-TCPXO",
             ", and loads a kernel module there for the interfaces' memory"),
        )
    ),
    SystemPods(
        pattern="kube-system/DaemonSet/device-injector",
        controls=("privileged", "hostNamespaces", *_AS_ROOT),
        paths=("/dev", "/var/run/nri"),
        why="gives containers the devices that annotations name; as Google ships it",
    ),
    SystemPods(
        pattern="kube-system/DaemonSet/nvidia-mps-control-daemon*",
        controls=("privileged", *_AS_ROOT),
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
    """The row for these pods, None if there is none."""
    return next((row for row in SYSTEM_PODS if pods.fits(row.pattern)), None)
