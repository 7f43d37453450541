"""The catalog's zones of Google Cloud are read from the file of their source."""

import json
from pathlib import Path

import pytest

from gpu_cluster.components.catalog.gke_zones import FILE
from gpu_cluster.stacks.outcome import CheckError
from quality import zones

HEAD = (
    "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,"
    "AvailabilityZone,Price,SpotPrice\n"
)
LINES = """a3-megagpu-8g,208.0,1872.0,,,,us-east9,us-east9-a,1.0,0.5
a3-highgpu-8g,208.0,1872.0,,,,us-east9,us-east9-b,1.0,0.5
,,,T4,1.0,,us-east9,us-east9-c,0.3,0.1
,,,T4,2.0,,us-east9,us-east9-c,0.6,0.2
"""


def test_each_row_takes_the_lines_that_it_names(tmp_path: Path) -> None:
    """By machine type or by accelerator; other rows stay as they are, with their version."""
    source, file = tmp_path / "vms.csv", tmp_path / "zones.json"
    source.write_text(HEAD + LINES)
    file.write_text(FILE.read_text())
    changes = zones.update_zones("v10", source, file)
    data = json.loads(file.read_text())
    rows = data["accelerators"]
    assert rows["nvidia-h100-mega-80gb"]["zones"] == "us-east9-a"
    assert rows["nvidia-h100-80gb"]["zones"] == "us-east9-b"
    assert rows["nvidia-tesla-t4"]["zones"] == "us-east9-c"
    assert rows["nvidia-tesla-t4"]["version"] == "v10"
    assert rows["nvidia-l4"] == json.loads(FILE.read_text())["accelerators"]["nvidia-l4"]
    named = {line.partition(":")[0] for line in changes}
    assert named == {"nvidia-h100-mega-80gb", "nvidia-h100-80gb", "nvidia-tesla-t4"}
    assert any("+us-east9-c" in line and "-us-west1-a" in line for line in changes)


def test_the_file_is_written_as_the_command_writes_it() -> None:
    """One line for each row: an update changes the lines of what has changed."""
    assert zones.zones_text(json.loads(FILE.read_text())) == FILE.read_text()


def test_another_file_is_refused(tmp_path: Path) -> None:
    """The message names the column that is missing."""
    source = tmp_path / "vms.csv"
    source.write_text("InstanceType,AvailabilityZone\n")
    with pytest.raises(CheckError, match="there is no column AcceleratorName"):
        zones.update_zones("v10", source, tmp_path / "zones.json")
