"""GKE's machine families, as its own autoscaler lists them, for the simulated GKE."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.clouds.read import long_yaml
from gpu_cluster.stacks.outcome import CheckError

FILE = (
    Path(__file__).parents[2]
    / "gpu_cluster/rehearsal/simulators/google/container/machine_families.yaml"
)
_SOURCES = "pkg/cloudprovider/gke/machinetypes"
_HEAD = """\
# Written by `python -m quality clouds --autoscaler FOLDER`, not by hand: GKE's machine families,
# and the machine types that include GPUs. `boot` and `attach`: disk types of nodes that are not
# confidential; `gigantic`: huge pages of 1 GiB; `ssds`: local SSDs that a machine always has,
# `ssd_gib`: the size of each. `counts`: how many others can have, or all of a family. `gib`: the
# memory of machines without accelerators.
# `reserved`: physical and reserved bytes, for GKE's newest version.
"""
_FAMILY = re.compile(
    r"RegisterMachineFamily\(MachineFamily\{(.*?)^\t\}\)", re.DOTALL | re.MULTILINE
)
_DISK = re.compile(r'(?:DiskType\w+|"[\w-]+"):\s+(?!Confidential)\w+')
_MACHINE = re.compile(
    r'NewMachineTypeInfo\("([\w-]+)", ([\d.]+), ([\d.]+)\)(.*?)(?=New\w*TypeInfo|$)', re.DOTALL
)


def write_families(folder: Path) -> list[str]:
    """Reads a checkout, or a bare one, of the autoscaler; returns the file's name if it changed.
    Raises CheckError if it is none."""
    revision = _git(folder, "rev-parse", "HEAD").strip()
    constants = dict(
        re.findall(r'(\w+)\s+= "([^"]+)"', _git(folder, "show", f"HEAD:{_SOURCES}/disks.go"))
    )
    code = _git(folder, "show", f"HEAD:{_SOURCES}/deprecated_machine_types_config.go")
    families: dict[str, Any] = {}
    machines: dict[str, Any] = {}
    memory: dict[str, float] = {}
    counts: dict[str, list[int]] = {}
    for body in _FAMILY.findall(code):
        name = re.search(r'name:\s+"([^"]+)"', body)
        assert name
        families[name[1]] = _family(body, constants)
        machines |= dict(_machines(body, constants))
        counts |= _counts(name[1], body)
        if not re.match(r"ct\d|tpu", name[1]):
            memory |= {row[0]: float(row[2]) for row in _MACHINE.findall(body)}
    for key, gib in re.findall(
        r"(\w+)\.Name\(\):\s+(\d+)", code[code.index("LocalSSDDiskSizes =") :]
    ):
        families[key.lower()]["ssd_gib"] = int(gib)
    reserved = _reserved(_git(folder, "show", "HEAD:config/os-reserved.yaml"))
    gib = {name: value for name, value in memory.items() if name not in machines}
    rows = {"families": families, "machines": machines, "counts": counts, "gib": gib}
    rows["reserved"] = reserved
    before = yaml.safe_load(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    if rows.items() <= before.items():
        return []
    about = {"source": f"GoogleCloudPlatform/cluster-autoscaler@{revision}", "read": date.today()}
    text = yaml.safe_dump({**about, **rows}, default_flow_style=None, sort_keys=False, width=100)
    FILE.write_text(_HEAD + text, encoding="utf-8")
    return [FILE.name]


def _reserved(text: str) -> dict[str, Any]:
    """Resource -> image and architecture -> physical and reserved bytes, by size."""
    result: dict[str, Any] = {}
    for resource, listed in long_yaml(text).items():
        # Confidential nodes are not simulated.
        rows = [row for row in listed if not row.get("confidential")]
        for image in sorted({(row["osDistribution"], row["architecture"]) for row in rows}):
            own = [row for row in rows if (row["osDistribution"], row["architecture"]) == image]
            newest = max({v for row in own for v in row["nodeVersions"]}, key=_numbers)
            result.setdefault(resource, {})["-".join(image)] = sorted(
                [row["physicalBytes"], row["reservedBytes"]]
                for row in own
                if newest in row["nodeVersions"]
            )
    return result


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _family(body: str, constants: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        key: _disks(body, f"supported{key.title()}DiskTypes", constants)
        for key in ("boot", "attach")
    }
    for key, field in (
        ("compact", "supportCompactPlacement"),
        ("gigantic", "supportHugepageSize1g"),
    ):
        row[key] = re.search(rf"{field}:\s+true", body) is not None
    if nodes := re.search(r"maxCompactPlacementNodes:\s+(?:int64\()?(\d+)", body):
        row["compact_nodes"] = int(nodes[1])
    return row | {"numa": re.search(r"numaAlignmentUnsupported:\s+true", body) is None}


def _counts(family: str, body: str) -> dict[str, list[int]]:
    """The numbers of local SSDs that machine types can have, or the family if all have the same."""
    counts = {
        row[0]: [int(count) for count in listed[1].split(",")]
        for row in _MACHINE.findall(body)
        if (listed := re.search(r"withAllowedEphemeralLocalSsdCounts\(([\d, ]+)\)", row[3]))
    }
    shared = next(iter(counts.values()), [])
    if shared and all(count == shared for count in counts.values()):
        return {family: shared}
    return {name: count for name, count in counts.items() if re.match("[ag]", name)}


def _disks(body: str, field: str, constants: Mapping[str, str]) -> list[str]:
    listed = re.search(rf"{field}:\s+map\[string\]\w+\{{(.*?)\}}", body, re.DOTALL)
    keys = (
        match.partition(":")[0].strip('"') for match in _DISK.findall(listed[1] if listed else "")
    )
    return sorted(constants.get(key, key) for key in keys)


def _machines(body: str, constants: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, vcpu, gib, calls in _MACHINE.findall(body):
        gpus = re.search(r"withGpuOverride\(\w+, ([\d.]+)\)", calls)
        if gpus is None:
            continue
        ssds = re.search(r"withAutomaticEphemeralLocalSsdCount\((\d+)\)", calls)
        disks = re.search(r"withSupportedDisksOverride\(\[\]string\{(.*?)\}\)", calls)
        yield (
            name,
            {
                "gpus": float(gpus[1]),
                "vcpu": float(vcpu),
                "gib": float(gib),
                "ssds": int(ssds[1]) if ssds else 0,
                **({"boot": [constants[key] for key in disks[1].split(", ")]} if disks else {}),
            },
        )


def _git(folder: Path, *command: str) -> str:
    asked = subprocess.run(
        ["git", "-C", folder, *command], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        raise CheckError(
            f"{folder} is not a checkout of cluster-autoscaler: {asked.stderr.strip()}"
        )
    return asked.stdout
