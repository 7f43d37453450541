"""`gpu-cluster prove` with the real engine and a real control plane, in simulated clouds."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.sandbox import Sandbox, SandboxOptions
from gpu_cluster.stacks.definition.files import INSTEAD, ROOT
from tests.rehearsal.conftest import configured, until
from tests.rehearsal.test_getting_started import clone, in_sandbox, run

pytestmark = pytest.mark.prove  # a minute and more each


def started(sandbox: Sandbox, folder: Path, *options: str) -> "subprocess.Popen[str]":
    """A proof of the sandbox's stack, with the engine's environment."""
    api = ["--endpoint", sandbox.cloud_api] if sandbox.cloud_api else []
    words = ["prove", sandbox.stack, "--yes", "--folder", str(folder), *api, *options]
    python = [sys.executable, "-P", "-m", "gpu_cluster.cli"]  # not the program's own package
    return subprocess.Popen(
        [*python, *words],
        cwd=sandbox.engine.program,
        env={**sandbox.engine.environment, INSTEAD: str(sandbox.engine.program)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def report_in(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "report.json").read_text()))


admitted = configured(
    lambda config: config["gpu-cluster:cluster"]["admins"].append(
        "arn:aws:iam::123456789012:user/rehearsal"
    )
)
"""The identity of a rehearsal is an admin, as capacity requires of the one that runs `up`."""
PAGE = ROOT / "docs" / "how-to" / "prove-a-stack.md"
LIMITS = ("--max-cost", "1000", "--max-minutes", "60")


@pytest.mark.parametrize("stack", ["dev", "train", "autopilot", "onprem"])
def test_a_proof_of_a_stack_leaves_nothing(stack: str, tmp_path: Path) -> None:
    """Every step passes but the test of GPUs, since no program runs in a simulated pod; on one's
    own machines no nodes come and go."""
    folder = tmp_path / "proof"
    options = SandboxOptions(job_seconds=1)
    admits = admitted if stack == "train" else None
    priced = ("--hourly", "2") if stack == "autopilot" else ()  # No list has it.
    with Sandbox(stack, folder=tmp_path / "s", mutate=admits, options=options) as sandbox:
        before = sandbox.cloud.list_resources()
        process = started(sandbox, folder, *LIMITS, *priced)
        said, _ = process.communicate(timeout=1500)
        assert process.returncode == 2, said
        assert sandbox.cloud.list_resources() == before
        assert sandbox.engine.resources() == []
        environment = [text for text in sandbox.engine.environment.values() if "rehearsal/" in text]
    report = report_in(folder)
    states = {step["name"]: step["state"] for step in report["steps"]}
    other = {"acceptance test": "unknown"}
    if stack in ("autopilot", "onprem"):
        other["change in place"] = "skipped"
    if stack == "onprem":
        other["0 to 1 to 0 nodes"] = "skipped"
    assert {name: state for name, state in states.items() if state != "passed"} == other, said
    assert len(states) == 9
    assert report["simulated"] is True
    written = (folder / "report.md").read_text() + json.dumps(report)
    assert "a simulated cloud" in written
    secrets = [*environment, "my-project", "127.0.0.1", str(Path.home()), "BEGIN CERT"]
    assert [secret for secret in secrets if secret in written] == []


def test_a_proof_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C while the real engine creates the cluster: what it had begun is deleted again."""
    folder = tmp_path / "proof"
    with Sandbox("dev", folder=tmp_path / "s") as sandbox:
        process = started(sandbox, folder, *LIMITS)
        until(sandbox.cloud.list_resources, "something is created", seconds=1200)
        os.kill(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 3, said
        assert sandbox.cloud.list_resources() == []
        assert sandbox.engine.resources() == []
    states = {step["name"]: step["state"] for step in report_in(folder)["steps"]}
    assert states == {
        "capacity": "passed", "pulumi up": "stopped", "leftovers": states["leftovers"],
        "pulumi destroy": "passed",
    }  # fmt: skip


def test_the_page_runs_in_a_kept_rehearsal(tmp_path: Path) -> None:
    """The commands of docs/how-to/prove-a-stack.md, in a copy of the repository, with the file that
    `gpu-cluster new` writes and what the page changes in it; the report compares with the
    rehearsal, and a second proof begins from an empty stack again."""
    folder = clone(tmp_path / "clone")
    (edited,) = re.findall(r"^[$] editor .*# (.*)$", PAGE.read_text(), re.MULTILINE)
    changes = {"another cluster.name": "gpu-trial", "deletionProtection: false": False}
    assert run(folder, ["new", "first", "--platform", "gke", "--yes"]).returncode == 0
    file = yaml.safe_load((folder / "Pulumi.first.yaml").read_text())
    cluster = file["config"]["gpu-cluster:cluster"]
    for change, value in changes.items():
        if change in edited:
            cluster[change.partition(":")[0].removeprefix("another cluster.")] = value
    (folder / "Pulumi.trial.yaml").write_text(yaml.safe_dump(file))
    try:
        assert run(folder, ["rehearse", "trial", "--keep"]).returncode == 0
        words = ["prove", "trial", "--rehearsal", "--yes", *LIMITS]
        refused = run(folder, words)
        assert refused.returncode == 2
        assert "resources, and a proof destroys all of a stack" in refused.stderr
        assert (
            in_sandbox(folder, "trial", *["pulumi", "destroy", "--yes", "-s", "trial"]).returncode
            == 0
        )
        done = run(folder, words)
        assert done.returncode == 2, done.stdout + done.stderr
        report = report_in(folder / ".rehearsal" / "trial" / "proof")
        assert report["rehearsal"]["found"] is True
        assert report["rehearsal"]["seconds"].keys() == {"pulumi up", "second up"}
        assert [line.partition(":")[0] for line in report["rehearsal"]["differences"]] == [
            "acceptance test"
        ]
    finally:
        run(folder, ["down", "trial"])
