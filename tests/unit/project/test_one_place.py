"""A version, a taint: each is one constant, and a change of it is a change of one file."""

import re
import shutil
from pathlib import Path

import pytest

from gpu_cluster.components.catalog.images import DEVICE_PLUGIN
from gpu_cluster.components.catalog.kubernetes import ZONE
from gpu_cluster.components.cluster import GPU_TAINT
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.settings.blocks import RUNNING
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


_COMPARED = re.compile(
    r"(?:[!=]=|\bin) [(\"']*(" + "|".join(map(re.escape, SCALERS)) + r")\"|"
    r"\"(" + "|".join(map(re.escape, SCALERS)) + r")\" (?:[!=]=|in)\b"
)
_COMPARES = {
    # Options of one scaler, given with another.
    "components/eks/cluster_args.py": 3,
    "components/eks/existing_args.py": 1,
    "components/eks/reservation.py": 1,
    "components/gke/cluster_args.py": 1,
    # Karpenter's own permissions.
    "gpu_cluster/stacks/capacity/aws_account.py": 1,
    "gpu_cluster/rehearsal/control_plane/controllers.py": 1,
    "gpu_cluster/rehearsal/sandbox.py": 1,
    "gpu_cluster/rehearsal/simulators/inventory.py": 1,
}
"""File -> lines that compare the name of a scaler; what follows from one belongs in its row."""


def test_few_lines_compare_the_name_of_a_scaler() -> None:
    """A feature that asks for a name forgets the other scalers."""
    found = {
        str(path.relative_to(ROOT)): count
        for path in sources()
        if (count := sum("scaler" in line and bool(_COMPARED.search(line))
                         for line in path.read_text().splitlines()))
    }  # fmt: skip
    assert found == _COMPARES


def test_warnings_name_no_block_of_pods() -> None:
    """They ask a block's entries, so that a new block gets all of them."""
    text = (ROOT / "components/settings/validate.py").read_text()
    assert [key for key in RUNNING if re.search(rf'["\'.]{key}\b["\'.\[]', text)] == []
