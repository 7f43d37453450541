"""`python -m quality zones`: updates Google Cloud's zones from a newer version of their source.

A row of components/catalog/gke_zones.json selects lines of the source: those of an `accelerator`,
or those whose machine type begins with one of `types`.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu_cluster.components.catalog.gke_zones import FILE
from gpu_cluster.stacks.outcome import CheckError

SECTIONS = ("accelerators", "machine_types")
_COLUMNS = ("InstanceType", "AcceleratorName", "AvailabilityZone")


def update_zones(version: str, source: Path, file: Path = FILE) -> list[str]:
    """Writes the zones in `source`, a vms.csv, to `file`; returns a line for each changed row.

    A row without lines in the source keeps its zones. Raises CheckError if `source` is not such a
    file.
    """
    with source.open(newline="") as stream:
        lines = csv.DictReader(stream)
        if missing := set(_COLUMNS) - set(lines.fieldnames or ()):
            raise CheckError(f"{source}: there is no column {', '.join(sorted(missing))}")
        offers = [tuple(line[column] for column in _COLUMNS) for line in lines]
    data = json.loads(file.read_text())
    changes = [
        f"{name}: {change}"
        for section in SECTIONS
        for name, row in data[section].items()
        for change in _updated(row, version, offers)
    ]
    file.write_text(zones_text(data))
    return changes


def _updated(row: dict[str, Any], version: str, offers: list[tuple[str, ...]]) -> Iterator[str]:
    types = tuple(row.get("types", ()))
    zones = {
        zone
        for machine_type, accelerator, zone in offers
        if zone and (machine_type.startswith(types) or accelerator == row.get("accelerator"))
    }
    if not zones:
        return
    before = set(row["zones"].split())
    row["version"], row["zones"] = version, " ".join(sorted(zones))
    if zones != before:
        signed = [f"+{zone}" for zone in zones - before] + [f"-{zone}" for zone in before - zones]
        yield " ".join(sorted(signed))


def zones_text(data: Mapping[str, Any]) -> str:
    """The file's text with one line for each row, so that a changed row is a changed line."""
    parts = []
    for key, value in data.items():
        if key in SECTIONS:
            rows = (f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in value.items())
            parts.append(f" {json.dumps(key)}: {{\n" + ",\n".join(rows) + "\n }")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
