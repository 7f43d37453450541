"""What `pip install` puts into somebody's environment works without the checkout."""

import json
import os
import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_cluster import tools
from gpu_cluster.stacks.definition.files import EXAMPLES
from gpu_cluster.stacks.outcome import CheckError
from gpu_cluster.tools.programs import cache_folder
from gpu_cluster.tools.sections import ROOT
from quality import release
from quality.__main__ import main
from tests import packaged
from tests.unit.stacks.test_job_cluster import CONFIG_MAPS, Server
from tests.unit.stacks.test_job_cluster import kubeconfig as kubeconfig
from tests.unit.stacks.test_job_cluster import server as server
from tests.unit.stacks.test_jobs import published


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


Command = Callable[[Path, str], tuple[int, str, str]]
JOB = {"pool": "train-gpu", "nodes": 2, "queue": "training", "image": "a/b:1", "command": ["a.py"]}


@pytest.fixture(scope="module")
def client(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Runs `gpu-cluster` from a wheel without Pulumi: the folder, the arguments."""
    home = tmp_path_factory.mktemp("client")
    python = packaged.environment(home / "venv", wheel, pulumi=False)

    def command(folder: Path, line: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [str(python.parent / "gpu-cluster"), *line.split()],
            cwd=folder,
            env={"KUBECONFIG": "config", "HOME": str(home), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr

    return command


def test_the_job_client_needs_neither_pulumi_nor_a_checkout(
    client: Command, server: Server, kubeconfig: str, tmp_path: Path
) -> None:
    """Its whole life of a job; other commands name in one line what they lack, in any folder."""
    files = {"config": kubeconfig, "job.yaml": json.dumps({"trainingJobs": {"first": JOB}})}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    server.objects[f"{CONFIG_MAPS}/gpu-cluster"] = {"data": {"settings": published().text()}}
    assert client(tmp_path, "job submit job.yaml") == (0, "first: submitted\n", "")
    code, rows, _ = client(tmp_path, "job list")
    assert (code, rows.splitlines()[-1].split()[:3]) == (0, ["first", "training", "2"])
    assert client(tmp_path, "job cancel first") == (0, "first: cancelled\n", "")
    where = f"in {tmp_path}, which has no Pulumi.yaml,"
    none = f"there is no Pulumi.dev.yaml: the stacks {where} are none"
    for line, says in {
        "job logs first": "job logs: namespace default has no job first; its jobs: none; give "
        "--namespace if it is in another",
        **{f"{verb} dev": f"{verb}: {none}" for verb in ("validate", "cost", "capacity", "gpus")},
    }.items():
        code, out, error = client(tmp_path, line)
        assert (code, out, error.splitlines()) == (2, "", [f"gpu-cluster {says}"])
    for verb in ("recover", "rehearse"):
        assert "has no package pulumi; install the wheel with" in client(tmp_path, f"{verb} dev")[2]
    assert all(client(tmp_path, f"{name} --help")[0] == 0 for name in ("job submit", "rehearse"))


def test_commands_read_the_stack_files_of_the_project_that_one_is_in(
    client: Command, tmp_path: Path
) -> None:
    """From its subfolders too; the cost policies judge by its own settings, if it has some."""
    (tmp_path / "Pulumi.yaml").write_text("name: mine\nruntime: python\n")
    (tmp_path / "Pulumi.mine.yaml").write_text((EXAMPLES / "Pulumi.dev.yaml").read_text())
    (folder := tmp_path / "folder").mkdir()
    for line in ("validate mine", "images mine", "cost mine"):
        code, out, _ = client(folder, line)
        assert (code, "policy monthly-ceiling" in out) == (0, False), line
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "config.json").write_text("{}")
    assert "policy monthly-ceiling" in client(folder, "cost mine")[1]
    assert "the stacks here are mine" in client(folder, "cost dev")[2]


PULUMI = """#!/bin/sh
case "$*" in "stack output kubeconfig "*" --stack dev "*) cat "$HOME/kubeconfig"; exit;; esac
exit 1
"""


def test_a_new_project_has_every_command(
    python: Path, server: Server, kubeconfig: str, tmp_path: Path
) -> None:
    """In an empty folder and an empty home, with the wheel alone; those that ask a cluster read its
    kubeconfig with the `pulumi` of PATH, and say how to get one."""
    home, folder = tmp_path / "home", tmp_path / "gpus"
    home.mkdir()

    def command(line: str, path: str = "/usr/bin:/bin") -> tuple[int, str]:
        done = subprocess.run(
            [str(python.parent / "gpu-cluster"), *line.split()],
            cwd=folder if folder.exists() else tmp_path,
            env={"HOME": str(home), "PATH": path},
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    code, out = command("init gpus")
    assert (code, out.splitlines()[-2]) == (0, "next: cd gpus, then gpu-cluster rehearse dev")
    assert "gpus/Pulumi.yaml already exists" in command(f"init {folder}")[1]
    for line in ("validate dev", "cost dev", "images dev", "list", "ci offline dev copy"):
        assert command(line)[0] == 0, line
    assert "policy monthly-ceiling" in command("cost dev")[1]
    assert {"__main__.py", "kubeconfig", ".venv"} <= {f.name for f in (folder / "copy").iterdir()}
    assert command("new second --platform eks --yes")[0] == 0
    schema = (folder / "Pulumi.second.yaml").read_text().splitlines()[0]
    assert schema == "# yaml-language-server: $schema=stack.schema.json"
    code, out = command("capacity dev")
    assert (code, "no Google Cloud credentials" in out) == (2, True)
    code, out = command("rehearse dev --node gpu")
    assert (code, "--node: needs a checkout" in out) == (2, True)
    for line in ("gpus dev", "leftovers dev", "test-gpus dev", "recover dev"):
        code, out = command(line)
        missing = "pulumi is not on PATH; install it: https://www.pulumi.com/docs/install"
        assert (code, missing in out) == (2, True), out
    (tmp_path / "bin").mkdir()
    for name in ("pulumi", "pulumi-language-python"):
        (tmp_path / "bin" / name).write_text(PULUMI)
        (tmp_path / "bin" / name).chmod(0o755)
    (home / "kubeconfig").write_text(kubeconfig)
    code, out = command("gpus dev", f"{tmp_path}/bin:/usr/bin:/bin")
    assert code != 2, out


def test_the_engine_starts_the_component_package_of_a_release(
    released: Path, tmp_path: Path
) -> None:
    """Once the wheel that the archive brings is installed, `pulumi` gets the schema from it."""
    (archive,) = released.glob("*.tar.gz")
    folder = tmp_path / "gpu-cluster"
    folder.mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)
    (requirement,) = re.findall(r"(.*)\[stack\]\n", (folder / "requirements.txt").read_text())
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
