"""The CPU and memory that a node has left for pods.

DaemonSets use part of it: a pod that requests this much may still not fit.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

_Tiers = Sequence[tuple[float, float]]
_Points = Sequence[tuple[float, float]]
_REST: Final = float("inf")
_CPU: Final[_Tiers] = ((1, 0.06), (1, 0.01), (2, 0.005), (_REST, 0.0025))
"""(cores, share of each that is reserved), the first cores first: the same on GKE and EKS."""
_GKE_MEMORY: Final[_Tiers] = (
    (4000, 0.25), (4000, 0.20), (8000, 0.10), (112_000, 0.06), (_REST, 0.02)
)  # fmt: skip
"""(MiB, share of them that is reserved)."""
_GKE_KERNEL: Final[Mapping[str, _Points]] = {
    "cos": ((4, 177), (8, 247), (64, 1231), (256, 4222), (1922, 30_886)),
    "ubuntu": ((4, 183), (8, 253), (64, 1238), (256, 4233), (1922, 30_897)),
    "cos-arm64": ((4, 178), (16, 412), (64, 1350), (192, 3757)),
}
"""Image and architecture -> GiB of memory and MiB of it that the kernel does not report."""
_GKE_SYSTEM_DISK: Final[Mapping[str, _Points]] = {
    "cos": ((15, 4512), (100, 5885), (1000, 20_295), (10_000, 164_309)),
    "ubuntu": ((15, 1548), (100, 4279), (1000, 33_139), (10_000, 321_714)),
    "cos-arm64": ((15, 4577), (100, 5949), (1000, 20_359), (10_000, 164_373)),
}
"""The same of a boot disk and the image's own files: config/os-reserved.yaml of GKE 1.36 in
GoogleCloudPlatform/cluster-autoscaler (7d250507, read 2026-11-28), without the sizes in between
that lie on the line."""
_GKE_SSD_RESERVED: Final = {1: 50, 2: 75}
_GKE_SSDS_RESERVED: Final = 100
"""GiB by number of local SSDs: pkg/cloudprovider/gke/reserved.go there."""
_GKE_EVICTION_MIB: Final = 100
GKE_PODS: Final = 110
"""Pods on a node, by default (docs.cloud.google.com/kubernetes-engine/docs/how-to/
flexible-pod-cidr, read 2026-11-29)."""
_EKS_MIB: Final = 255
_EKS_EVICTION_MIB: Final = 100
"""Free memory below which pods are evicted."""
_EKS_POD_MIB: Final = 11
"""Reserved for each pod that a node may have."""
_EC2_KERNEL: Final = 0.075
"""The largest share of an instance's memory that the kernel does not report: what Karpenter assumes
for all instance types (karpenter-provider-aws, vmMemoryOverheadPercent)."""


def gke(vcpu: int, memory_gib: float, image: str = "cos") -> tuple[int, int]:
    """Thousandths of a core, and MiB: reserved.go in pkg/cloudprovider/gke of GKE's autoscaler,
    which has the shares of cloud.google.com, "Plan node sizes", for 1000 MiB instead of GiB.
    `image`: `cos`, `ubuntu` or `cos-arm64`."""
    total = memory_gib * 1024
    kept = _line(_GKE_KERNEL[image], memory_gib) + _kept(total, _GKE_MEMORY)
    return _millis(vcpu), int(total - kept - _GKE_EVICTION_MIB)


def gke_disk(disk_gb: int, image: str = "cos") -> int:
    """The MiB of a boot disk that GKE leaves for pods: a tenth of what the image leaves is kept
    free, and the system has half of the disk, 6 GiB and 35 %, or 100 GiB, whichever is less."""
    system = min(disk_gb // 2, 6 + int(disk_gb * 0.35), 100)
    image_mib = _line(_GKE_SYSTEM_DISK[image], disk_gb)
    return max(int((disk_gb * 1024 - image_mib) * 0.9 - system * 1024), 0)


def gke_ssds(count: int, total_gib: int) -> int:
    """The most MiB that GKE leaves for pods on a machine whose local SSDs it uses instead: their
    file system takes at least 1.6 % of up to 8 disks of 375 GiB, and 0.2 % of others
    (cloudprovider/gce/reserved.go of kubernetes/autoscaler)."""
    reserved = _GKE_SSD_RESERVED.get(count, _GKE_SSDS_RESERVED)
    system = 0.016 if total_gib <= 8 * 375 else 0.002
    return int((total_gib * (1 - system) * 0.9 - reserved) * 1024)


def eks(
    vcpu: int,
    memory_gib: float,
    pods: int | None,
    *,
    cpu: int | None = None,
    mib: int | None = None,
    eviction_mib: int | None = None,
    more_cpu: int = 0,
    more_mib: int = 0,
) -> tuple[int, int, int | None]:
    """Thousandths of a core, maximum MiB, and minimum MiB, which is None without `pods`, the
    maximum number of pods on a node: awslabs/amazon-eks-ami, nodeadm's kubelet defaults (read
    2026-11-23), which the keyword arguments override."""
    usual = _EKS_MIB + _EKS_POD_MIB * (pods or 0)
    reserved = (usual if mib is None else mib) + more_mib
    reserved += _EKS_EVICTION_MIB if eviction_mib is None else eviction_mib
    memory = memory_gib * 1024
    least = None if pods is None else int(memory * (1 - _EC2_KERNEL)) - reserved
    millis = _millis(vcpu) if cpu is None else vcpu * 1000 - cpu
    return millis - more_cpu, round(memory) - reserved, least


def _line(points: _Points, amount: float) -> float:
    """What belongs to `amount`, on the lines through the origin and the points."""
    (low, least), (high, most) = next(
        (pair for pair in pairwise([(0.0, 0.0), *points]) if amount <= pair[1][0]), points[-2:]
    )
    return least + (most - least) * (amount - low) / (high - low)


def _millis(vcpu: int) -> int:
    return round((vcpu - _kept(vcpu, _CPU)) * 1000)


def _kept(amount: float, tiers: _Tiers) -> float:
    reserved = 0.0
    for size, share in tiers:
        reserved += min(amount, size) * share
        amount = max(amount - size, 0.0)
    return reserved
