"""What nodes of each machine family of GKE can have: boot disks, attached disks, placement, NUMA.

GoogleCloudPlatform/cluster-autoscaler 7d250507 (GKE's own), pkg/cloudprovider/gke/machinetypes/
deprecated_machine_types_config.go, read on 2026-11-28. Disk types that this program does not offer,
and families of TPUs, are omitted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

_PD: Final = ("pd-standard", "pd-balanced", "pd-ssd")
_HYPERDISK: Final = ("hyperdisk-balanced",)
_FASTER: Final = ("pd-balanced", "pd-ssd", "hyperdisk-balanced")
DISK_TYPES: Final = (*_PD, *_HYPERDISK)
DEFAULT_DISK_TYPE: Final = "pd-balanced"


COMPACT_NODES: Final[Mapping[str, int]] = MappingProxyType(
    {"a2": 150, "a3": 96, "a4": 1500, "g2": 150, "g4": 1500}
)
"""Family of GPU machines -> the most nodes that GKE's autoscaler places close together."""
COMPACT_MOST: Final = max(COMPACT_NODES.values())


@dataclass(frozen=True, slots=True)
class Family:
    """The features of a machine family's nodes."""

    boot_disks: tuple[str, ...]
    """The types of boot disks."""
    compact: bool = False
    """Whether nodes can be placed close together."""
    gigantic_pages: bool = False
    """Whether nodes can have huge pages of 1 GiB."""
    numa: bool = True
    """Whether the kubelet can align memory and CPUs of a pod."""
    attached: tuple[str, ...] = ()
    """The types of the disks of claims, if they differ from those of boot disks."""

    @property
    def attachable(self) -> tuple[str, ...]:
        """The types of the disks of claims."""
        return self.attached or self.boot_disks

    @property
    def boot_disk(self) -> str:
        """The type of a boot disk by default."""
        default = DEFAULT_DISK_TYPE
        return default if default in self.boot_disks else self.boot_disks[0]


FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "e2": Family(_PD, numa=False),
        "e4": Family(_HYPERDISK),
        "e4a": Family(_HYPERDISK),
        "n1": Family(_PD, numa=False),
        "n2": Family(_PD, compact=True, numa=False),
        "n2d": Family(_PD, compact=True, numa=False),
        "n4": Family(_HYPERDISK),
        "n4a": Family(_HYPERDISK),
        "n4d": Family(_HYPERDISK),
        "t2a": Family(_PD),
        "t2d": Family(_PD, numa=False),
        "c2": Family(_PD, compact=True),
        "c2d": Family(_PD, compact=True, gigantic_pages=True),
        "c3": Family(_FASTER, compact=True, gigantic_pages=True),
        "c3d": Family(_FASTER, compact=True, gigantic_pages=True),
        "c4": Family(_HYPERDISK, compact=True, gigantic_pages=True),
        "c4a": Family(_HYPERDISK),
        "c4d": Family(_HYPERDISK, compact=True, gigantic_pages=True),
        "c4n": Family(_HYPERDISK, compact=True, gigantic_pages=True),
        "h3": Family(("pd-balanced", *_HYPERDISK), compact=True, gigantic_pages=True),
        "h4d": Family(_HYPERDISK, compact=True, gigantic_pages=True),
        "m1": Family((*_PD, *_HYPERDISK)),
        "m2": Family((*_PD, *_HYPERDISK), gigantic_pages=True),
        "m3": Family((*_PD, *_HYPERDISK), gigantic_pages=True),
        "m4": Family(_HYPERDISK, compact=True, gigantic_pages=True),
        "z3": Family(_FASTER, gigantic_pages=True),
        "z4d": Family(_HYPERDISK, compact=True, gigantic_pages=True),
        "g2": Family(_FASTER[:2], compact=True, attached=_PD),
        "g4": Family(_HYPERDISK, compact=True, gigantic_pages=True),
        "a2": Family(_PD, compact=True),
        "a3": Family(_FASTER, compact=True, gigantic_pages=True),
        "a3-ultragpu": Family(_HYPERDISK, compact=True, gigantic_pages=True),
        "a4": Family(_HYPERDISK, compact=True, gigantic_pages=True),
        "a4x": Family(_HYPERDISK, gigantic_pages=True),
    }
)
"""Family, or its machine types of one name if they differ, -> its features."""


def family_of(machine_type: str) -> Family:
    """The features of a machine type's nodes."""
    series = "-".join(machine_type.split("-")[:2])
    row = FAMILIES.get(series) or FAMILIES[series.partition("-")[0].replace("custom", "n1")]
    # OpenShift 4.20, "GCP PD CSI Driver Operator": C3 for bare metal has Hyperdisk only.
    return replace(row, boot_disks=_HYPERDISK) if machine_type.endswith("-metal") else row
