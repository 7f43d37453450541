"""What a node has left for pods, of CPU and memory: never less than it really is.

The kernel keeps some of the memory as well, and DaemonSets take their part: a pod that asks for
this much may still find too little, and one that asks for more never finds it.
"""

from collections.abc import Sequence
from typing import Final

_Tiers = Sequence[tuple[float, float]]
_REST: Final = float("inf")
_CPU: Final[_Tiers] = ((1, 0.06), (1, 0.01), (2, 0.005), (_REST, 0.0025))
"""Share of each core that is kept, the first cores first: GKE and EKS alike."""
_GKE_MEMORY: Final[_Tiers] = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (_REST, 0.02))
"""GiB, and the share of them that is kept."""
_GKE_EVICTION_MIB: Final = 100
_EKS_MIB: Final = 255 + 100
"""Kept, and the limit below which pods are evicted; 11 MiB more for each pod that a node may have,
a number that is not in the catalog."""


def gke(vcpu: int, memory_gib: float) -> tuple[int, int]:
    """Thousandths of a core, and MiB: cloud.google.com/kubernetes-engine/docs/concepts,
    "Plan node sizes" (read 2026-11-21)."""
    memory = (memory_gib - _kept(memory_gib, _GKE_MEMORY)) * 1024 - _GKE_EVICTION_MIB
    return _millis(vcpu), round(memory)


def eks(vcpu: int, memory_gib: float) -> tuple[int, int]:
    """Thousandths of a core, and MiB: awslabs/amazon-eks-ami, nodeadm's kubelet defaults (read
    2026-11-21)."""
    return _millis(vcpu), round(memory_gib * 1024) - _EKS_MIB


def _millis(vcpu: int) -> int:
    return round((vcpu - _kept(vcpu, _CPU)) * 1000)


def _kept(amount: float, tiers: _Tiers) -> float:
    kept = 0.0
    for size, share in tiers:
        kept += min(amount, size) * share
        amount = max(amount - size, 0.0)
    return kept
