"""What `pip install` puts into somebody's environment works without the checkout."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from quality import release
from quality.__main__ import main
from stacks.outcome import CheckError
from tests import packaged
from tools.sections import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release.wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packaged.environment(tmp_path_factory.mktemp("fresh") / "venv", wheel)


def test_the_wheel_has_one_top_level_name_and_every_file_of_it(wheel: Path) -> None:
    """Modules and the data that they read; nothing of the checkout's other packages."""
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {
        "gpu_cluster"
    }
    listed = subprocess.run(
        ["git", "ls-files", "components"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    ours = {name.replace("components/", "gpu_cluster/", 1) for name in listed.stdout.splitlines()}
    assert ours - set(names) == set()


EVERY_MODULE = """
import importlib, pkgutil, sys
import gpu_cluster
for module in pkgutil.walk_packages(gpu_cluster.__path__, "gpu_cluster."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name in ("components", "policy", "stacks", "cli", "rehearsal"):
    assert name not in sys.modules, name
    assert importlib.util.find_spec(name) is None, name
print(gpu_cluster.GpuStack, gpu_cluster.EksGpuNodeGroupArgs, gpu_cluster.TrainingArgs)
"""


def test_every_module_is_imported_without_the_checkout(python: Path, tmp_path: Path) -> None:
    """The components, and the args of platforms and blocks by their names."""
    done = subprocess.run(
        [str(python), "-c", EVERY_MODULE], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "gpu_cluster.stack.GpuStack" in done.stdout
    assert "gpu_cluster.eks.pool_args.EksGpuNodeGroupArgs" in done.stdout


def test_a_release_has_the_packages_its_notes_and_checksums(tmp_path: Path) -> None:
    """A folder that holds something is refused, and so is a version without a section."""
    assert main(["release", str(tmp_path / "out")]) == 0
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == {
        "CHANGELOG.md",
        "SHA256SUMS",
        "gpu_cluster-0.1.0-py3-none-any.whl",
        "pulumi-resource-gpu-cluster-v0.1.0.tar.gz",
    }
    assert (tmp_path / "out" / "CHANGELOG.md").read_text().startswith("## 0.1.0")
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    subprocess.run(check, cwd=tmp_path / "out", check=True, capture_output=True)
    assert main(["release", str(tmp_path / "out")]) != 0
    with pytest.raises(CheckError, match="has no section"):
        release.section("# Changelog\n\n## Unreleased\n", "9.9.9")
