"""The sandbox holds everything: nothing outlives it, and sandboxes do not disturb each other.

Only real processes show that.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpu_cluster.rehearsal.engine.engine import Engine
from gpu_cluster.rehearsal.engine.fork_server import launcher
from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox
from gpu_cluster.rehearsal.scenario import Rehearsal
from tests.rehearsal.conftest import changed


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gpu_cluster.cli", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def marked(folder: Path) -> set[str]:
    """The command lines of the processes that belong to a sandbox."""
    wanted = f"REHEARSAL={folder}".encode()
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                found.add((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # somebody else's, or gone
            continue
    return found


def until_nothing_is_left(folder: Path) -> None:
    deadline = time.monotonic() + 10
    while left := marked(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_the_whole_rehearsal_of_dev(tmp_path: Path) -> None:
    """GPU nodes go 0, 1, 0; the sample runs on that node; nothing changes twice or is left."""
    folder = tmp_path / "sandbox"
    run = start("rehearse", "dev", "--folder", str(folder))
    said, _ = run.communicate(timeout=300)
    assert run.returncode == 0, said
    report = json.loads((folder / "report.json").read_text())
    assert report["failures"] == []
    assert [count for _, count in report["gpu_nodes"]] == [0, 1, 0]
    pods = {pod["workload"]: pod for pod in report["pods"]}
    sample = pods["Deployment default/sample-gpu-pod"]
    installer = pods["DaemonSet kube-system/nvidia-driver-installer-cos"]
    (gpu_node,) = [node for node in report["nodes"] if node["gpus"]]
    assert sample["node"] == installer["node"] == gpu_node["name"]
    assert sample["gpus"] == 1
    assert gpu_node["joined"] < installer["ready"] <= gpu_node["gpus_at"] <= sample["bound"]
    steps = {step["name"]: step["detail"] for step in report["steps"]}
    assert steps["idempotency"] == "no changes"
    assert steps["leak check"] == (
        "nothing left in the state, nothing left in the cloud, no cluster"
    )
    assert "<svg" in (folder / "timeline.svg").read_text()
    assert not (folder / "pki").exists()
    until_nothing_is_left(folder)


def kill(folder: Path, point: str) -> None:
    """SIGKILL to a rehearsal that has got so far."""
    run = start("rehearse", "dev", "--folder", str(folder))
    assert run.stdout is not None
    for line in run.stdout:
        if point in line:
            break
    else:
        pytest.fail(f"ended before {point!r}")
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()


@pytest.mark.prove(reason="test_documented_commands.py has one of the points")
def test_killed_at_any_point_the_next_run_starts_clean(tmp_path: Path) -> None:
    """SIGKILL takes every process along, and a new sandbox takes over what lies there."""
    folder = tmp_path / "sandbox"
    for point in ("starting the sandbox", "pulumi preview ...", "workloads run ..."):
        kill(folder, point)
    with Sandbox("dev", folder=folder) as sandbox:
        rehearsal = Rehearsal(sandbox=sandbox)
        assert rehearsal.run_up_only(), rehearsal.failures
    until_nothing_is_left(folder)


def test_nobody_reads_on_and_it_ends(tmp_path: Path) -> None:
    """`gpu-cluster rehearse dev | head -4` is no reason for a traceback, nor for keys that stay."""
    folder = tmp_path / "sandbox"
    command = [sys.executable, "-m", "gpu_cluster.cli", "rehearse", "dev", "--folder", str(folder)]
    line = f"{shlex.join(command)} | head -2"
    done = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.count("\n") == 2
    assert done.stderr == ""
    until_nothing_is_left(folder)
    # At once, not when the preview, which takes minutes on a busy machine, has something to print.
    assert '"ended"' not in (folder / "events.jsonl").read_text()


@pytest.mark.prove(reason="two at once is how the tests themselves run")
def test_two_sandboxes_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """One fails, the other passes, each with its own cluster and cloud."""
    dropped = changed(
        "kubernetes:apps/v1:Deployment", 'props["spec"]["template"]["spec"]["tolerations"] = []'
    )
    with (
        Sandbox("dev", folder=tmp_path / "right") as right,
        Sandbox("dev", folder=tmp_path / "wrong", mutate=dropped) as wrong,
    ):
        rehearsals = [Rehearsal(sandbox=sandbox) for sandbox in (right, wrong)]
        threads = [threading.Thread(target=rehearsal.run_up_only) for rehearsal in rehearsals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert rehearsals[0].failures == []
        assert len(rehearsals[1].failures) == 1
        assert right.control_plane.endpoint != wrong.control_plane.endpoint


def test_without_its_file_a_stack_is_refused(tmp_path: Path) -> None:
    """Nothing is started, and the stacks that exist are named."""
    run = start("rehearse", "nowhere", "--folder", str(tmp_path / "sandbox"))
    said, _ = run.communicate(timeout=30)
    assert run.returncode == 2
    assert "there is no Pulumi.nowhere.yaml: the stacks here are " in said
    assert "Traceback" not in said
    assert not (tmp_path / "sandbox").exists()


def test_no_credential_reaches_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever cloud or cluster the caller is logged in to, a rehearsal cannot touch it."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "AWS_ACCESS_KEY_ID", "AWS_PROFILE",
                 "KUBECONFIG", "PULUMI_ACCESS_TOKEN", "CLOUDSDK_CONFIG"):  # fmt: skip
        monkeypatch.setenv(name, "precious")
    engine = Engine(
        tmp_path, tmp_path, "dev", providers={"gcp": 1}, token_file=tmp_path / "t", mark="m"
    )
    assert "precious" not in engine.environment.values()
    assert engine.environment["HOME"].startswith(str(tmp_path))
    assert engine.environment["KUBECONFIG"] == os.devnull


def test_a_program_s_own_interpreter_is_used(tmp_path: Path) -> None:
    """Where it is not the command's, it may have other packages."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    engine = Engine(tmp_path, tmp_path, "dev", providers={}, token_file=tmp_path / "t", mark="m")
    own = str(tmp_path / ".venv" / "bin" / "python")
    assert engine.environment["GPU_CLUSTER_PYTHON"] == own
    (tmp_path / ".venv" / "bin").rmdir()
    (tmp_path / ".venv").rmdir()
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    engine = Engine(tmp_path, tmp_path, "dev", providers={}, token_file=tmp_path / "t", mark="m")
    assert engine.environment["GPU_CLUSTER_PYTHON"] == str(launcher())
