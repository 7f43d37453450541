"""CPU machine types of Google Cloud, and which GPUs attach to N1.

Read on 2026-11-21. Prices per vCPU and GiB are kubernetes/autoscaler gce_price_info.go's
(2026-06-23, us-central1, US dollars per hour), which also names the sizes; the attach limits are
from the Compute Engine GPU pages (2026-04-14). Only families that a pool is likely to use.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Final

from . import gke_families
from .gke_accelerators import ACCELERATORS
from .gke_machines import MACHINE_TYPES, N1_SSDS, MachineType

_SOURCE: Final = "casprice"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """The shape of a family: its sizes, and the price of a vCPU and of a GiB per hour."""

    gib_per_vcpu: float
    vcpu: tuple[int, ...]
    price: tuple[float, float] | None
    """Dollars per vCPU and GiB; None if they are not known."""


def _shape(family: str, gib_per_vcpu: float, *vcpu: int) -> _Shape:
    return _Shape(gib_per_vcpu=gib_per_vcpu, vcpu=vcpu, price=_PRICES.get(family))


_PRICES: Final[Mapping[str, tuple[float, float]]] = {
    "e2": (0.021811, 0.002923),
    "n1": (0.031611, 0.004237),
    "n1-custom": (0.033174, 0.004446),
    "n2": (0.031611, 0.004237),
    "n2d": (0.027502, 0.003686),
    "n4": (0.03082073, 0.004131075),
    "t2d": (0.027502, 0.003686),
    "c2": (0.03398, 0.00455),
    "c2d": (0.029563, 0.003959),
    "c3": (0.03398, 0.00456),
    "c3d": (0.02956, 0.003956),
    "c4": (0.03465, 0.003938),
}
"""Family -> dollars per vCPU and GiB. C3, C4 and later: GoogleCloudPlatform/cluster-autoscaler
7d250507, deprecated_machine_types_config.go (2026-08-21), which has the same for the others."""

_SHAPES: Final[Mapping[str, _Shape]] = {
    "e2-standard": _shape("e2", 4, 2, 4, 8, 16, 32),
    "e2-highmem": _shape("e2", 8, 2, 4, 8, 16),
    "e2-highcpu": _shape("e2", 1, 2, 4, 8, 16, 32),
    "n1-standard": _shape("n1", 3.75, 1, 2, 4, 8, 16, 32, 64, 96),
    "n1-highmem": _shape("n1", 6.5, 2, 4, 8, 16, 32, 64, 96),
    "n1-highcpu": _shape("n1", 0.9, 2, 4, 8, 16, 32, 64, 96),
    "n2-standard": _shape("n2", 4, 2, 4, 8, 16, 32, 48, 64, 80, 96, 128),
    "n2-highmem": _shape("n2", 8, 2, 4, 8, 16, 32, 48, 64, 80, 96),
    "n2-highcpu": _shape("n2", 1, 2, 4, 8, 16, 32, 48, 64, 80, 96),
    "n2d-standard": _shape("n2d", 4, 2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 224),
    "n4-standard": _shape("n4", 4, 2, 4, 8, 16, 32, 48, 64, 80),
    "n4-highmem": _shape("n4", 8, 2, 4, 8, 16, 32, 48, 64, 80),
    "t2d-standard": _shape("t2d", 4, 1, 2, 4, 8, 16, 32, 48, 60),
    "c2-standard": _shape("c2", 4, 4, 8, 16, 30, 60),
    "c2d-standard": _shape("c2d", 4, 2, 4, 8, 16, 32, 56, 112),
    "c3-standard": _shape("c3", 4, 4, 8, 22, 44, 88, 176),
    "c3d-standard": _shape("c3d", 4, 4, 8, 16, 30, 60, 90, 180, 360),
    "c4-standard": _shape("c4", 3.75, 4, 8, 16, 32, 48, 96, 192),
}

_GIB_PER_VCPU: Final[Mapping[str, float]] = {
    "standard": 4,
    "highmem": 8,
    "highcpu": 2,
    "ultramem": 30.5,
    "hypermem": 21.25,
    "megamem": 15.75,
    **dict.fromkeys(("e2-highcpu", "e4-highcpu", "n2-highcpu", "n2d-highcpu"), 1),
    **dict.fromkeys(("c4-standard", "c4n-standard", "h4d-standard"), 3.75),
    **dict.fromkeys(("c4-highmem", "c4n-highmem", "h4d-highmem"), 7.75),
    **dict.fromkeys(("c4d-standard", "z4d-standard"), 3.875),
    **dict.fromkeys(("c4d-highmem", "z4d-highmem"), 7.875),
    "c3d-highcpu": 59 / 30,
    "c4d-highcpu": 1.875,
    "m1-ultramem": 961 / 40,
    "m2-hypermem": 8832 / 416,
    "m2-megamem": 5888 / 416,
    "m2-ultramem": 5888 / 208,
    "m3-megamem": 15.25,
    "m4-megamem": 372 / 28,
    "m4-ultramem": 1488 / 56,
}
"""GiB per vCPU of machines whose sizes are not listed above, in whole GiB: of a shape, and of a
family's shape where it differs. Where Google has no such machine, the most of any family."""

_GIB: Final[Mapping[str, float]] = {
    "e2-micro": 1,
    "e4-medium": 4,
    **{f"c3d-highcpu-{vcpu}": vcpu * 2 for vcpu in (4, 8, 16)},
    "c3d-standard-90-12TB": 720,
    "c3-highcpu-192-metal": 512,
    "m1-megamem-96": 1433.6,
    "n2-highmem-128": 864,
}
"""Machines of another size. Both: the autoscaler's table of `_PRICES`, read on 2026-11-28."""

FAMILIES: Final[tuple[str, ...]] = tuple(
    name for name in gke_families.FAMILIES if name[0] not in "ag"
)
"""Families without GPUs of which unlisted sizes are accepted, because Google Cloud adds sizes. N1
is complete, since GPUs attach to it."""

_SHARED_CORE: Final[Mapping[str, tuple[float, float]]] = {
    "e2-small": (2, 0.01675),
    "e2-medium": (4, 0.03351),
}
"""Shared-core machine -> GiB, price. They show 2 vCPUs but are entitled to half of one or one."""

_FURTHER: Final = re.compile(
    rf"({'|'.join(sorted({*FAMILIES} - {'n1'}))})-(?:micro|medium"
    rf"|(?:[48]t-)?({'|'.join(shape for shape in _GIB_PER_VCPU if '-' not in shape)})-([1-9][0-9]*)"
    r"(?:-\w*lssd(?:-v1)?|-[0-9]+TB)?(?:-metal)?"
    r"|custom-(?:micro|small|medium|([1-9][0-9]*))-([1-9][0-9]*)(?:-ext)?)"
)
_ARM: Final = ("n4a", "t2a", "c4a", "e4a")

_CUSTOM_N1: Final = re.compile(r"(?:n1-)?custom-([0-9]+)-([0-9]+)")

CPU_MACHINE_TYPES: Final[tuple[str, ...]] = (
    *_SHARED_CORE,
    *(f"{shape}-{vcpu}" for shape, row in _SHAPES.items() for vcpu in row.vcpu),
)
"""Every listed machine type without GPUs."""

N1_ATTACH_LIMITS: Final[Mapping[str, Mapping[int, tuple[int, int]]]] = MappingProxyType(
    {
        "nvidia-tesla-t4": {1: (48, 312), 2: (48, 312), 4: (96, 624)},
        "nvidia-tesla-p4": {1: (24, 156), 2: (48, 312), 4: (96, 624)},
        "nvidia-tesla-v100": {1: (12, 78), 2: (24, 156), 4: (48, 312), 8: (96, 624)},
        "nvidia-tesla-p100": {1: (16, 104), 2: (32, 208), 4: (96, 624)},
        "nvidia-tesla-k80": {1: (8, 52), 2: (16, 104), 4: (32, 208), 8: (64, 208)},
    }
)
"""Accelerator -> GPUs -> maximum (vCPU, GiB) of the N1 machine."""

N1_ATTACH_LIMITS_BY_ZONE: Final[Mapping[tuple[str, int, str], tuple[int, int]]] = MappingProxyType(
    {
        ("nvidia-tesla-p100", 4, zone): (64, 208)
        for zone in ("us-east1-c", "europe-west1-d", "europe-west1-b")
    }
)
"""(accelerator, GPUs, zone) with a lower limit -> that limit."""


@cache
def machine_type(name: str) -> MachineType | None:
    """The machine type with this name, with or without GPUs; None if it is not listed.

    An unlisted size of a family without GPUs is `uncertain`: without a price.
    """
    if name in MACHINE_TYPES:
        return MACHINE_TYPES[name]
    if name in _SHARED_CORE:
        memory_gib, price = _SHARED_CORE[name]
        return MachineType(
            name=name,
            family="e2",
            vcpu=2,
            memory_gib=memory_gib,
            on_demand=price,
            price_source=_SOURCE,
        )
    if custom := _CUSTOM_N1.fullmatch(name):
        return _custom_n1(name, int(custom[1]), int(custom[2]))
    shape_name, _, size = name.rpartition("-")
    shape = _SHAPES.get(shape_name)
    if shape is None or size not in map(str, shape.vcpu):
        return _further(name)
    return _priced(name, int(size), int(size) * shape.gib_per_vcpu, shape.price)


def _further(name: str) -> MachineType | None:
    match = _FURTHER.fullmatch(name)
    if match is None:
        return None
    family, shape, size, custom, mib = match.groups()
    vcpu = int(size or custom or 2)
    if mib:
        memory_gib = int(mib) / 1024
    elif name in _GIB:
        memory_gib = _GIB[name]
    elif shape:
        ratio = _GIB_PER_VCPU.get(f"{family}-{shape}", _GIB_PER_VCPU[shape])
        memory_gib = float(math.floor(vcpu * ratio))
    else:
        return None
    machine = _priced(name, vcpu, memory_gib, None)
    return replace(machine, uncertain=True, arch="arm64" if family in _ARM else "amd64")


def _custom_n1(name: str, vcpu: int, memory_mib: int) -> MachineType | None:
    even = vcpu == 1 or (vcpu % 2 == 0 and 2 <= vcpu <= 96)
    if not even or memory_mib % 256 or not 0.9 * 1024 <= memory_mib / vcpu <= 6.5 * 1024:
        return None
    return _priced(name, vcpu, memory_mib / 1024, _PRICES["n1-custom"])


def _priced(
    name: str, vcpu: int, memory_gib: float, price: tuple[float, float] | None
) -> MachineType:
    family = "n1" if name.startswith("custom-") else name.partition("-")[0]
    return MachineType(
        name=name,
        family=family,
        vcpu=vcpu,
        memory_gib=memory_gib,
        ssd_counts=N1_SSDS if family == "n1" else (),
        on_demand=None if price is None else round(vcpu * price[0] + memory_gib * price[1], 5),
        price_source="" if price is None else _SOURCE,
    )


def n1_attach_limit(
    accelerator: str, count: int, *, zone: str | None = None
) -> tuple[int, int] | None:
    """The maximum (vCPU, GiB) of an N1 machine with `count` of these GPUs.

    None if this accelerator does not attach to N1, or not in this number. Without `zone`, the
    general limit; three zones have a lower one for four P100.
    """
    if zone is not None and (accelerator, count, zone) in N1_ATTACH_LIMITS_BY_ZONE:
        return N1_ATTACH_LIMITS_BY_ZONE[accelerator, count, zone]
    return N1_ATTACH_LIMITS.get(accelerator, {}).get(count)


def gpu_counts_for(
    name: str, accelerator: str | None = None, *, zone: str | None = None
) -> tuple[int, ...]:
    """How many GPUs a node of this machine type can have, ascending; empty if none.

    For a machine type that includes GPUs, this is one number, or none if it has only a share of a
    GPU or another GPU than `accelerator`. For N1, it is every count of `accelerator` (of any, if
    None) whose limit the machine satisfies.
    """
    machine = machine_type(name)
    if machine is None:
        return ()
    if machine.accelerator is not None:
        fits = accelerator in (None, machine.accelerator) and not machine.fractional
        return (int(machine.gpus),) if fits else ()
    if machine.family != "n1":
        return ()
    candidates = [accelerator] if accelerator is not None else list(N1_ATTACH_LIMITS)
    counts = {
        count
        for candidate in candidates
        if candidate in ACCELERATORS
        for count in ACCELERATORS[candidate].counts
        if (limit := n1_attach_limit(candidate, count, zone=zone)) is not None
        and machine.vcpu <= limit[0]
        and machine.memory_gib <= limit[1]
    }
    return tuple(sorted(counts))


def largest_with(accelerator: str, count: int) -> MachineType | None:
    """The machine type that GKE may take for `count` of these GPUs: one that Autopilot offers if
    there is any, otherwise the largest. It takes one without local SSDs only if it is named
    (`withExplicitReqOnly`, see `gke_machines`)."""
    attached = (machine_type(f"n1-standard-{vcpu}") for vcpu in _SHAPES["n1-standard"].vcpu)
    fitting = [
        machine
        for machine in (*attached, *MACHINE_TYPES.values())
        if machine is not None and count in gpu_counts_for(machine.name, accelerator)
    ]
    return max(fitting, key=lambda row: (row.autopilot, row.vcpu, row.local_ssds), default=None)
