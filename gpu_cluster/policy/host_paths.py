"""Host directories that pods may mount: those that GPU programs need, and no others.

Everything else on a node is the node's own: sockets of container runtimes, the kubelet's keys,
volumes of other pods, kernel interfaces. Even read access to a socket or a key is enough to take
over a node, so each allowed directory contains neither.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_cluster.policy.pods import Pods, pods_of
from gpu_cluster.policy.reading import UNKNOWN, Resource, get, is_on, items
from gpu_cluster.policy.system_pods import exemption


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """A host directory, with everything below it."""

    path: str
    writable: bool = False
    why: str


ALLOWED: Sequence[Allowed] = (
    Allowed(path="/home/kubernetes/bin/nvidia", why="GKE: the driver's libraries and programs"),
    Allowed(path="/home/kubernetes/bin/gib", why="GKE: NCCL's plugin for RDMA (gIB)"),
    Allowed(path="/home/kubernetes/bin/tcpx", why="GKE: NCCL's plugin for GPUDirect-TCPX"),
    Allowed(path="/home/kubernetes/bin/tcpxo", why="GKE: NCCL's plugin for GPUDirect-TCPXO"),
    Allowed(path="/var/lib/tcpx/lib64", why="GKE a3-highgpu: NCCL's plugin for GPUDirect-TCPX"),
    Allowed(path="/var/lib/tcpxo/lib64", why="GKE a3-megagpu: NCCL's plugin for GPUDirect-TCPXO"),
    Allowed(
        path="/dev/aperture_devices",
        writable=True,
        why="GKE a3-megagpu: devices through which GPUDirect-TCPXO reaches GPU memory",
    ),
    Allowed(path="/usr/local/nvidia", why="on-premises: a driver installed by its .run file"),
    Allowed(path="/opt/nvidia", why="on-premises: NVIDIA's programs and libraries"),
    Allowed(path="/usr/local/cuda", why="on-premises: the CUDA toolkit"),
    Allowed(path="/usr/lib/nvidia", why="Debian: the driver's libraries next to Mesa's"),
    Allowed(path="/usr/lib/x86_64-linux-gnu", why="Debian and Ubuntu: the driver's libraries"),
    Allowed(path="/usr/lib/aarch64-linux-gnu", why="the same on Arm"),
    Allowed(path="/usr/lib64", why="RHEL, Amazon Linux and SUSE: the driver's libraries"),
    Allowed(path="/run/nvidia/driver", why="NVIDIA's GPU operator: root of its driver container"),
    Allowed(path="/mnt/disks", writable=True, why="GKE: local SSDs, each at /mnt/disks/ssd..."),
    Allowed(path="/mnt/data", writable=True, why="on-premises: data sets and checkpoints"),
    Allowed(path="/data", writable=True, why="on-premises: data sets and checkpoints"),
    Allowed(path="/datasets", writable=True, why="on-premises: data sets"),
    Allowed(path="/scratch", writable=True, why="on-premises: scratch space"),
)
"""/mnt/k8s-disks is not allowed: EKS nodes with a RAID store the kubelet's and containerd's data on
it. Neither is /dev/shm: an `emptyDir` with medium Memory belongs to the pod."""

_EXEMPT = ", or exempt the pods there (host-paths: exempt)"


def host_paths(
    resource: Resource, *, paths: Sequence[str], exempt: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Pods mount only host directories that GPU programs need.

    `paths`: more directories that may be mounted, also for writing. `exempt`: patterns of
    `namespace/kind/name` -> controls; here `hostPath`.
    """
    for pods in pods_of(resource):
        if UNKNOWN in (pods.namespace, pods.name) or "hostPath" in exempt_by(pods, exempt):
            continue  # It is not known whether it is exempt.
        exempt_pods = exemption(pods)
        own_paths = exempt_pods.paths if exempt_pods is not None else ()
        for volume in items(pods.spec, "volumes"):
            path = get(volume, "hostPath", "path")
            if isinstance(path, str) and _normal(path) not in own_paths:
                writes = _writes(pods, get(volume, "name"))
                who = f"{pods.title} in namespace {pods.namespace}"
                yield from _judged(who, path, writes, paths, _EXEMPT)
    if resource.type.startswith("kubernetes:core/v1:PersistentVolume"):
        spec = get(resource.props, "spec")
        modes = items(spec, "accessModes")
        writes = None if UNKNOWN in modes else any(mode != "ReadOnlyMany" for mode in modes)
        for kind in ("hostPath", "local"):
            path = get(spec, kind, "path")
            if isinstance(path, str):
                yield from _judged(f"PersistentVolume {resource.name}", path, writes, paths)


def exempt_by(pods: Pods, exempt: Mapping[str, Sequence[str]]) -> set[str]:
    """The controls from which the configuration exempts these pods."""
    return {
        control
        for pattern, controls in exempt.items()
        if pods.fits(pattern)
        for control in controls
    }


def _judged(
    who: str, path: str, writes: bool | None, more: Sequence[str], otherwise: str = ""
) -> Iterator[str]:
    whole = _normal(path)
    allowed = next((allowed for allowed in ALLOWED if _below(whole, allowed.path)), None)
    if any(_below(whole, _normal(other)) for other in more):
        return
    if allowed is None:
        yield (
            f"{who} mounts {path} of its node; drop it, or allow the directory in "
            f"policy/config.json (host-paths: paths){otherwise}"
        )
    elif writes and not allowed.writable:
        yield f"{who} mounts {path} of its node for writing; set readOnly on each volumeMount"


def _writes(pods: Pods, volume: Any) -> bool | None:
    """Whether a container may write to the volume; None if that is not known."""
    mounts = [mount for container in pods.containers for mount in items(container, "volumeMounts")]
    if volume is UNKNOWN or any(UNKNOWN in (mount, get(mount, "name")) for mount in mounts):
        return None
    mine = [get(mount, "readOnly") for mount in mounts if get(mount, "name") == volume]
    if any(read_only is not UNKNOWN and not is_on(read_only) for read_only in mine):
        return True
    return None if UNKNOWN in mine else False


def _normal(path: str) -> str:
    return posixpath.normpath(f"/{path.strip('/')}")


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root.rstrip('/')}/")
