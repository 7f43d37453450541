"""Regions whose EC2 offers a GPU instance type: a snapshot, not a promise.

The data is in eks_regions.json, with its source: a row for a family, and one for a type that is in
other regions than the rest of its family. `gpu-cluster capacity` asks EC2 itself.
"""

import json
from pathlib import Path
from typing import Final

_DATA: Final = json.loads(Path(__file__).with_suffix(".json").read_text())
READ: Final = str(_DATA["read"])
"""The day on which the snapshot was taken."""


def regions_of(instance_type: str) -> tuple[str, ...]:
    """The regions that offered a type; empty if none is known to."""
    rows = _DATA["regions"]
    return tuple(rows.get(instance_type, rows.get(instance_type.partition(".")[0], "")).split())


def is_known(region: str) -> bool:
    """Whether the snapshot has the region, with or without GPUs."""
    rows = (_DATA["without"], *_DATA["regions"].values())
    return any(region in row.split() for row in rows)
