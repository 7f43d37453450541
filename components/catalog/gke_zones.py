"""Zones of Google Cloud that have an accelerator or a machine type: a snapshot, not a promise.

The data is in gke_zones.json, with its source, of which `python -m quality zones VERSION FILE`
reads a newer version.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

FILE: Final = Path(__file__).with_suffix(".json")
_DATA: Final = json.loads(FILE.read_text())

REGIONS: Final = tuple(_DATA["regions"].split())
"""Regions of Google Cloud, with or without GPUs: cloud.google.com/compute/docs/regions-zones, and
asia-southeast3 from public programs of 2026; read on 2026-11-21. Incomplete: only for
suggestions."""


def _zones(section: str) -> Mapping[str, tuple[str, ...]]:
    rows = _DATA[section].items()
    return MappingProxyType({name: tuple(row["zones"].split()) for name, row in rows})


ACCELERATOR_ZONES: Final = _zones("accelerators")
"""Accelerator name -> every zone known to have it. H100 zones include those with A3 Edge only."""
MACHINE_ZONES: Final = _zones("machine_types")
"""Machine types whose zones differ from those of their accelerator."""
