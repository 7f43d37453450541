"""A user's own stack files change nothing for the program's own tests."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_cluster.stacks.definition.files import EXAMPLES, SAMPLES, stacks
from tests.program.environments import ROOT

OWN = {"staging": "dev", "lab": "onprem", "prod": "train", "qa": "autopilot"}
"""A user's stack -> the sample that it was copied from."""
EDITED = """
config:
  gcp:project: somebody-elses
  pulumi:disable-default-providers: [kubernetes]
  gpu-cluster:cluster:
    platform: gke
    name: mine
    location: europe-west4
    authorizedNetworks: { vpn: 198.51.100.0/24 }
  gpu-cluster:gpuPools:
    large: { machineType: a2-highgpu-1g, zones: [europe-west4-a] }
"""
"""What a user may make of `Pulumi.dev.yaml`: other pools, no workloads."""
READ_STACK_FILES = (
    "tests/unit/components/test_settings.py",
    "tests/unit/components/test_settings_batch.py",
    "tests/unit/quality/test_changes.py",
    "tests/unit/project/test_docs.py",
    "tests/unit/quality/test_faults.py",
    "tests/unit/stacks/test_cost.py",
    "tests/unit/stacks/test_capacity.py",
    "tests/policy/test_environments.py",
    "tests/program/test_environments.py",
    "tests/program/test_effects.py::test_every_start_is_accepted[gke]",
)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with four stacks that the developers do not know, and whose samples
    at the root a user has edited in place, broken or deleted."""
    clone = tmp_path_factory.mktemp("own") / "clone"
    skipped = shutil.ignore_patterns(".git", ".venv", ".rehearsal", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, clone, ignore=skipped)
    (clone / ".venv").symlink_to(ROOT / ".venv")
    for file in clone.glob("Pulumi.*.yaml"):
        file.unlink()  # whoever runs this test may have stacks of his own
    for sample in SAMPLES:
        shutil.copy(EXAMPLES / f"Pulumi.{sample}.yaml", clone)
    for stack, sample in OWN.items():
        shutil.copy(clone / f"Pulumi.{sample}.yaml", clone / f"Pulumi.{stack}.yaml")
    dev = clone / "Pulumi.dev.yaml"
    dev.write_text(EDITED)
    (clone / "Pulumi.train.yaml").write_text("config: [\n")
    (clone / "Pulumi.autopilot.yaml").unlink()
    return clone


def pytest_in(clone: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-4000:]}{done.stderr}"
    return done.stdout


def test_the_users_stacks_are_stacks(clone: Path) -> None:
    """What is tried below is what a user has."""
    assert {*SAMPLES, *OWN} - {"autopilot"} == set(stacks(clone))
    assert [file for file in READ_STACK_FILES if not (clone / file.split(":")[0]).is_file()] == []


def test_no_test_is_of_a_users_stack(clone: Path) -> None:
    """Whatever is collected, down to the slow ones, is of the samples."""
    # No test runs, so no assertion need be rewritten, which takes half the time in a new folder.
    collected = pytest_in(clone, "--collect-only", "--assert=plain", "tests")
    assert "[train-gke]" in collected
    own = re.compile(rf"\[(?:{'|'.join(OWN)})[]-]")
    assert [line for line in collected.splitlines() if own.search(line)] == []


@pytest.mark.prove(reason="the test above sees in every run whose stacks the tests are of")
def test_the_tests_that_read_stack_files_pass(clone: Path) -> None:
    """The README need not name it, nor `quality/tries.yaml` its settings."""
    assert " passed" in pytest_in(clone, *READ_STACK_FILES)


def test_faults_are_injected_into_the_samples(clone: Path) -> None:
    """`python -m quality inject-faults` proves what the project promises."""
    done = subprocess.run(
        [sys.executable, "-m", "quality", "inject-faults", "nothing"],
        cwd=clone,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "train-gke-kills" in done.stderr
    assert not any(f"{name}-kills" in done.stderr for name in OWN)
