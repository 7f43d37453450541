"""The CPU and memory that a node has left for pods.

DaemonSets use part of it: a pod that requests this much may still not fit.
"""

from collections.abc import Sequence
from typing import Final

_Tiers = Sequence[tuple[float, float]]
_REST: Final = float("inf")
_CPU: Final[_Tiers] = ((1, 0.06), (1, 0.01), (2, 0.005), (_REST, 0.0025))
"""(cores, share of each that is reserved), the first cores first: the same on GKE and EKS."""
_GKE_MEMORY: Final[_Tiers] = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (_REST, 0.02))
"""(GiB, share of them that is reserved)."""
_GKE_EVICTION_MIB: Final = 100
_EKS_MIB: Final = 255
_EKS_EVICTION_MIB: Final = 100
"""Free memory below which pods are evicted."""
_EKS_POD_MIB: Final = 11
"""Reserved for each pod that a node may have."""
_EC2_KERNEL: Final = 0.075
"""The largest share of an instance's memory that the kernel does not report: what Karpenter assumes
for all instance types (karpenter-provider-aws, vmMemoryOverheadPercent)."""


def gke(vcpu: int, memory_gib: float) -> tuple[int, int]:
    """Thousandths of a core, and MiB: cloud.google.com/kubernetes-engine/docs/concepts, "Plan node
    sizes" (read 2026-11-21)."""
    memory = (memory_gib - _kept(memory_gib, _GKE_MEMORY)) * 1024 - _GKE_EVICTION_MIB
    return _millis(vcpu), round(memory)


def gke_disk(disk_gb: int) -> int:
    """The MiB of a boot disk that GKE leaves for pods: a tenth is kept free, and the system has
    half of it, 6 GiB and 35 %, or 100 GiB, whichever is less (the same page)."""
    system = min(disk_gb * 0.5, 6 + disk_gb * 0.35, 100)
    return int((disk_gb * 0.9 - system) * 1024)


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


def _millis(vcpu: int) -> int:
    return round((vcpu - _kept(vcpu, _CPU)) * 1000)


def _kept(amount: float, tiers: _Tiers) -> float:
    reserved = 0.0
    for size, share in tiers:
        reserved += min(amount, size) * share
        amount = max(amount - size, 0.0)
    return reserved
