"""What `pip install` puts into somebody's environment works without the checkout."""

import json
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from gpu_cluster import tools
from gpu_cluster.stacks.outcome import CheckError
from gpu_cluster.tools.programs import cache_folder
from gpu_cluster.tools.sections import ROOT
from quality import release
from quality.__main__ import main
from tests import packaged


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "out"
    assert main(["release", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def wheel(released: Path) -> Path:
    (wheel,) = released.glob("*.whl")
    return wheel


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
        ["git", "ls-files", "components", "gpu_cluster"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    ours = {re.sub("^components/", "gpu_cluster/components/", file)
            for file in listed.stdout.splitlines()}  # fmt: skip
    assert ours - set(names) == {"gpu_cluster/components"}  # in the checkout, a link


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
    assert "gpu_cluster.components.stack.GpuStack" in done.stdout
    assert "gpu_cluster.components.eks.pool_args.EksGpuNodeGroupArgs" in done.stdout


def test_the_engine_starts_the_component_package_of_a_release(
    released: Path, tmp_path: Path
) -> None:
    """Once the wheel that the archive brings is installed, `pulumi` gets the schema from it."""
    (archive,) = released.glob("*.tar.gz")
    folder = tmp_path / "gpu-cluster"
    folder.mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)
    requirement = (folder / "requirements.txt").read_text().strip()
    packaged.environment(folder / ".venv", folder / requirement)
    command, in_front = tools.pulumi()
    environment = {
        "PATH": os.pathsep.join([*map(str, in_front), os.environ["PATH"]]),
        "PULUMI_HOME": str(tmp_path / "home"),
        "GPU_CLUSTER_CACHE": str(cache_folder()),
        "HOME": str(tmp_path),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
    (tmp_path / "elsewhere").mkdir()
    schema = subprocess.run(
        [command, "package", "get-schema", folder],
        cwd=tmp_path / "elsewhere",
        env=environment,
        capture_output=True,
        text=True,
    )
    assert schema.returncode == 0, schema.stderr
    assert (
        json.loads(schema.stdout)["resources"]
        == json.loads((folder / "schema.json").read_text())["resources"]
    )
    checked = [command, "schema", "check", folder / "schema.json"]
    subprocess.run(checked, env=environment, check=True)


def test_a_release_has_the_packages_its_notes_and_checksums(released: Path) -> None:
    """A folder that holds something is refused, and so is a version without a section."""
    names = {file.name for file in released.iterdir()}
    assert names == {
        "CHANGELOG.md",
        "SHA256SUMS",
        "gpu_cluster-0.2.0-py3-none-any.whl",
        "pulumi-resource-gpu-cluster-v0.2.0.tar.gz",
    }
    assert (released / "CHANGELOG.md").read_text().startswith("## 0.2.0")
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    subprocess.run(check, cwd=released, check=True, capture_output=True)
    assert main(["release", str(released)]) != 0
    with pytest.raises(CheckError, match="has no section"):
        release.section("# Changelog\n\n## Unreleased\n", "9.9.9")
