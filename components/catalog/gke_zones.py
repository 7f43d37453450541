"""Zones of Google Cloud that have an accelerator or a machine type: snapshots, never a promise.

Read on 2026-11-21 from skypilot-catalog v8 (commit 006059e0f18acb1341e22a27751e9f80df6ba92f, the
older) and v9 (commit 2c3d7ea7d76bf84cf80d382e946c1609571485fd, 2026); each row names which.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


def _zones(text: str) -> tuple[str, ...]:
    return tuple(text.split())


REGIONS: Final = _zones("""
    africa-south1 asia-east1 asia-east2 asia-northeast1 asia-northeast2 asia-northeast3
    asia-south1 asia-south2 asia-southeast1 asia-southeast2 asia-southeast3
    australia-southeast1 australia-southeast2 europe-central2 europe-north1 europe-north2
    europe-southwest1 europe-west1 europe-west10 europe-west12 europe-west2 europe-west3
    europe-west4 europe-west6 europe-west8 europe-west9 me-central1 me-central2 me-west1
    northamerica-northeast1 northamerica-northeast2 northamerica-south1 southamerica-east1
    southamerica-west1 us-central1 us-east1 us-east4 us-east5 us-south1 us-west1 us-west2
    us-west3 us-west4
""")
"""Regions of Google Cloud, with GPUs or without: cloud.google.com/compute/docs/regions-zones, and
asia-southeast3 of public programs of 2026; read on 2026-11-21. Others open: suggest by it."""

# v9; A3 High, A3 Mega and A3 Edge together
_A3 = _zones("""
        asia-east1-c asia-northeast1-b asia-northeast3-a asia-northeast3-c asia-south1-c
        asia-south2-b asia-southeast1-b asia-southeast1-c australia-southeast1-c europe-north1-c
        europe-west1-b europe-west1-c europe-west2-b europe-west3-a europe-west3-c europe-west4-b
        europe-west4-c europe-west9-c northamerica-northeast2-c us-central1-a us-central1-b
        us-central1-c us-east4-a us-east4-b us-east4-c us-east5-a us-west1-a us-west1-b us-west4-a
    """)

ACCELERATOR_ZONES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        # v8
        "nvidia-tesla-t4": _zones("""
        asia-east1-a asia-east1-c asia-east2-a asia-east2-c asia-northeast1-a asia-northeast1-c
        asia-northeast3-b asia-northeast3-c asia-south1-a asia-south1-b asia-southeast1-a
        asia-southeast1-b asia-southeast1-c asia-southeast2-a asia-southeast2-b
        australia-southeast1-a australia-southeast1-c europe-central2-b europe-central2-c
        europe-west1-b europe-west1-c europe-west1-d europe-west2-a europe-west2-b europe-west3-b
        europe-west4-a europe-west4-b europe-west4-c me-west1-b me-west1-c
        northamerica-northeast1-c southamerica-east1-a southamerica-east1-b southamerica-east1-c
        us-central1-a us-central1-b us-central1-c us-central1-f us-east1-b us-east1-c us-east1-d
        us-east4-a us-east4-b us-east4-c us-west1-a us-west1-b us-west2-b us-west2-c us-west3-b
        us-west4-a us-west4-b
    """),
        # v9
        "nvidia-l4": _zones("""
        asia-east1-a asia-east1-b asia-east1-c asia-northeast1-a asia-northeast1-b
        asia-northeast1-c asia-northeast3-a asia-northeast3-b asia-south1-a asia-south1-b
        asia-south1-c asia-southeast1-a asia-southeast1-b asia-southeast1-c europe-west1-b
        europe-west1-c europe-west2-a europe-west2-b europe-west3-a europe-west3-b europe-west4-a
        europe-west4-b europe-west4-c europe-west6-b europe-west6-c me-central2-a me-central2-c
        northamerica-northeast1-b northamerica-northeast1-c northamerica-northeast2-a
        northamerica-northeast2-b us-central1-a us-central1-b us-central1-c us-east1-b us-east1-c
        us-east1-d us-east4-a us-east4-c us-west1-a us-west1-b us-west1-c us-west4-a us-west4-c
    """),
        # v9, g4-standard-48 and larger
        "nvidia-rtx-pro-6000": _zones("""
        asia-east1-a asia-east1-b asia-south1-c asia-south2-a asia-south2-c asia-southeast1-a
        asia-southeast1-b asia-southeast1-c asia-southeast2-b asia-southeast2-c europe-north1-a
        europe-north1-b europe-north1-c europe-west1-c europe-west2-b europe-west2-c
        europe-west4-a europe-west4-b europe-west4-c europe-west8-b me-central2-a us-central1-b
        us-central1-f us-east1-b us-east1-d us-east4-b us-east4-c us-east5-a us-east5-b us-east5-c
        us-south1-a us-south1-b us-west1-a us-west1-b us-west1-c us-west3-a us-west4-a us-west4-c
    """),
        # v8 and v9
        "nvidia-tesla-a100": _zones("""
        asia-northeast1-a asia-northeast1-c asia-northeast3-a asia-northeast3-b asia-southeast1-a
        asia-southeast1-b asia-southeast1-c europe-west4-a europe-west4-b me-west1-a me-west1-c
        us-central1-a us-central1-b us-central1-c us-central1-f us-east1-b us-west1-b us-west3-b
        us-west4-b
    """),
        # v9
        "nvidia-a100-80gb": _zones("""
        asia-southeast1-c europe-west4-a us-central1-a us-central1-c us-east4-c us-east5-a
        us-east5-b
    """),
        # the last one is in the a3-highgpu-1g rows only
        "nvidia-h100-80gb": (*_A3, "europe-west8-c"),
        "nvidia-h100-mega-80gb": _A3,
        # v9
        "nvidia-h200-141gb": _zones("""
        asia-south1-b asia-south2-c europe-west1-b europe-west4-a us-central1-b us-east4-b
        us-east5-a us-south1-b us-west1-c
    """),
        # v9
        "nvidia-b200": _zones("""
        asia-northeast1-b asia-southeast1-b europe-north1-b europe-north1-c europe-west4-b
        us-central1-b us-east1-b us-east4-b us-south1-b us-west2-c us-west3-b us-west3-c
    """),
        # a third party's plan; incomplete
        "nvidia-gb200": ("us-central1-a", "us-central1-b"),
        # a third party's note; incomplete
        "nvidia-gb300": ("us-central1-b",),
        # v8
        "nvidia-tesla-v100": _zones("""
        asia-east1-c europe-west4-a europe-west4-b europe-west4-c us-central1-a us-central1-b
        us-central1-c us-central1-f us-east1-b us-east1-c us-west1-a us-west1-b
    """),
        # v9
        "nvidia-tesla-p100": _zones("""
        asia-east1-a asia-east1-c australia-southeast1-b europe-west1-b europe-west1-d
        europe-west4-a us-central1-c us-central1-f us-east1-b us-east1-c us-west1-a us-west1-b
    """),
        # v9
        "nvidia-tesla-p4": _zones("""
        asia-southeast1-a asia-southeast1-b asia-southeast1-c australia-southeast1-a
        australia-southeast1-b europe-west4-b europe-west4-c northamerica-northeast1-a
        northamerica-northeast1-b northamerica-northeast1-c us-central1-a us-central1-c us-east4-a
        us-east4-b us-east4-c us-west2-b us-west2-c
    """),
        # retired
        "nvidia-tesla-k80": (),
    }
)
"""Accelerator name -> every zone known to have it. H100 zones include those with A3 Edge only."""

# v9
_FRACTIONAL_G4 = _zones("""
        asia-east1-a europe-north1-b europe-west2-c europe-west4-a us-central1-b us-east1-d
        us-east5-a us-east5-b us-east5-c us-south1-b
    """)

MACHINE_ZONES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "g4-standard-6": _FRACTIONAL_G4,
        "g4-standard-12": _FRACTIONAL_G4,
        "g4-standard-24": _FRACTIONAL_G4,
        # v9
        "a2-megagpu-16g": _zones("""
        asia-southeast1-a asia-southeast1-c europe-west4-a europe-west4-b us-central1-a
        us-central1-b us-central1-c us-central1-f
    """),
        # v9
        "a3-highgpu-1g": _zones("""
        asia-east1-c asia-northeast1-b asia-south1-c asia-south2-b asia-southeast1-b
        asia-southeast1-c australia-southeast1-c europe-north1-c europe-west1-b europe-west1-c
        europe-west3-c europe-west4-b europe-west4-c europe-west8-c europe-west9-c us-central1-a
        us-central1-b us-central1-c us-east4-a us-east4-b us-east4-c us-east5-a us-west1-a
        us-west1-b us-west4-a
    """),
        # v9
        "a3-edgegpu-8g": _zones("""
        asia-northeast1-b asia-northeast3-a asia-northeast3-c asia-south1-c asia-southeast1-b
        asia-southeast1-c europe-west2-b europe-west3-a europe-west3-c europe-west4-b
        europe-west4-c europe-west9-c northamerica-northeast2-c us-central1-a us-central1-b
        us-central1-c us-east4-a us-east4-b us-east4-c us-east5-a us-west1-a us-west1-b us-west4-a
    """),
    }
)
"""Machine types whose zones are fewer than, or other than, those of their accelerator."""
