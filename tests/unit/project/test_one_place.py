"""A version, a taint: each is one constant, and a change of it is a change of one file."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpu_cluster.components.catalog.images import DEVICE_PLUGIN
from gpu_cluster.components.catalog.kubernetes import ZONE
from gpu_cluster.components.cluster import GPU_TAINT
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.settings.blocks import BLOCKS, RUNNING
from gpu_cluster.stacks.definition.files import ROOT
from tests.toy import python
from tests.tree import sources

TESTS = (
    "tests/components/test_batch.py",
    "tests/components/test_compute_classes.py",
    "tests/components/test_device_plugin.py",
    "tests/components/test_eks_node_group.py",
    "tests/components/test_eks_nodes.py",
    "tests/components/test_gke.py",
    "tests/components/test_gpu_layer.py",
    "tests/policy",
    "tests/unit/components/test_catalog.py",
    "tests/unit/components/test_catalog_kubernetes.py",
    "tests/unit/simulators/test_inventory.py",
    "tests/unit/stacks/test_gpu_survey.py",
)
"""Those that see the device plugin's image, or the taint of GPU nodes, on any platform."""


@pytest.mark.prove(reason="the tests that it runs in the copy take half a minute")
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("components/cluster.py", f'value="{GPU_TAINT.value}"', 'value="reserved"'),
        ("components/catalog/images.py", f'tag="{DEVICE_PLUGIN.tag}"', 'tag="v1.2.3"'),
    ],
)
def test_one_file_changes(tmp_path: Path, file: str, old: str, new: str) -> None:
    """The tests of the area pass in a copy of the tree where only this file is changed."""
    copy = tmp_path / "tree"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    (copy / ".venv").symlink_to(ROOT / ".venv")
    text = (copy / file).read_text()
    assert text.count(old) == 1
    (copy / file).write_text(text.replace(old, new))
    done = python(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, seconds=600)
    assert done.returncode == 0, done.stdout[-3000:]


def test_no_other_file_names_the_device_plugins_version() -> None:
    """Docstrings name the constant; the program that a rehearsal builds has its own version."""
    assert DEVICE_PLUGIN.tag is not None
    version = DEVICE_PLUGIN.tag.removeprefix("v")
    found = [
        path.relative_to(ROOT)
        for path in sources()
        if f"device-plugin {version}" in " ".join(path.read_text().split())
    ]
    assert found == []


def test_no_component_writes_the_label_of_a_zone_again() -> None:
    """Simulated clouds do: they share no protocol strings with the program."""
    paths = (ROOT / "components").rglob("*.py")
    assert [path.name for path in paths if f'"{ZONE}"' in path.read_text()] == ["kubernetes.py"]


_COMPARES: Mapping[str, tuple[Mapping[str, object], Mapping[str, int]]] = {
    "scaler": (SCALERS, {}),
    "platform": (PLATFORMS, {}),
    # What is left of a stack without a declared namespace, or without queues.
    "block": (BLOCKS, {"components/settings/remaining.py": 1}),
}
"""Table -> its keys, and file -> lines that compare a value with one of them; what follows from a
key belongs in its row."""


@pytest.mark.parametrize("table", _COMPARES)
def test_few_lines_compare_a_name_of_a_table(table: str) -> None:
    """A feature that asks for a name forgets the other rows."""
    rows, expected = _COMPARES[table]
    keys = f"(?:{'|'.join(map(re.escape, rows))})"
    compared = re.compile(rf"(?:[!=]=|\bin) [(\[\"']*{keys}\"|\"{keys}\" (?:[!=]=|in)\b")
    found = {
        str(path.relative_to(ROOT)): count
        for path in sources()
        if (count := sum(table in line and bool(compared.search(line))
                         for line in path.read_text().splitlines()))
    }  # fmt: skip
    assert found == expected


def test_warnings_name_no_block_of_pods() -> None:
    """They ask a block's entries, so that a new block gets all of them."""
    text = (ROOT / "components/settings/validate.py").read_text()
    assert [key for key in RUNNING if re.search(rf'["\'.]{key}\b["\'.\[]', text)] == []
