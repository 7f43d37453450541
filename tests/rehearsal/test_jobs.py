"""A user's training job on the JobSet and Kueue of a stack, with a kubeconfig and a job file."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.main import main
from rehearsal.scenario import Rehearsal
from stacks.outcome import ExitCode
from tests.rehearsal.conftest import Rehearse, configured

JOB = {
    "pool": "train-gpu",
    "nodes": 2,
    "queue": "training",
    "image": "docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime",
    "command": ["/code/train.py"],
    "volumes": {"code": {"mountPath": "/code", "files": ["train.py"]}},
}
SECONDS = 60.0


def platform(config: dict[str, Any]) -> None:
    """What a platform team declares: a pool, a queue, and no job."""
    config["gpu-cluster:gpuPools"]["train-gpu"]["maxNodes"] = 2
    config["gpu-cluster:batch"] = {
        "jobSet": True,
        "queues": {"training": {"pools": ["train-gpu"]}},
    }
    config["gpu-cluster:workloads"] = {}


class User:
    """Has a kubeconfig, and nothing of the stack."""

    def __init__(
        self, rehearsal: Rehearsal, folder: Path, printed: pytest.CaptureFixture[str]
    ) -> None:
        self.kubeconfig = rehearsal.sandbox.control_plane.kubeconfig
        self.folder, self._printed = folder, printed
        (folder / "train.py").write_text("print('hello')\n")

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output and errors of `gpu-cluster job ...`."""
        self._printed.readouterr()
        code = main(["job", *arguments, "--kubeconfig", str(self.kubeconfig)])
        said = self._printed.readouterr()
        return code, said.out, said.err

    def submit(self, **job: Any) -> tuple[int, str, str]:
        """The outcome for a file with this job."""
        file = self.folder / "job.yaml"
        file.write_text(yaml.safe_dump({"trainingJobs": {"first": {**JOB, **job}}}))
        return self.run("submit", str(file))

    def states(self) -> list[str]:
        """How far each job is."""
        return [row["state"] for row in json.loads(self.run("list", "--json")[1])["jobs"]]


def test_a_user_submits_lists_and_cancels_a_job(
    rehearse: Rehearse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It leaves its queue, gets its nodes and completes; what could never run is refused before,
    and a cancelled one leaves nothing."""
    rehearsal = rehearse(configured(platform), stack="train-gke", deadline=90)
    assert rehearsal.failures == []
    api = rehearsal.sandbox.control_plane.api
    user = User(rehearsal, tmp_path, capsys)
    assert user.run("list")[:2] == (ExitCode.OK, "no jobs\n")
    code, _, said = user.submit(nodes=3)
    assert (code, said) == (
        ExitCode.UNKNOWN,
        "gpu-cluster job submit: trainingJobs.first.nodes: 3 are more than pool train-gpu can "
        "have, 2; ask for fewer, or raise its maxNodes\n",
    )
    assert user.submit() == (ExitCode.OK, "first: submitted\n", "")
    assert "has one of that name already" in user.submit()[2]
    until = time.monotonic() + SECONDS
    logs = []
    while (states := user.states()) != ["completed"]:
        assert time.monotonic() < until, states
        if states == ["running"]:
            logs.append(user.run("logs", "first"))
        time.sleep(0.5)
    # Its node is simulated, or gone again.
    for code, said, error in (*logs, user.run("logs", "first")):
        assert (code, said) == (ExitCode.UNKNOWN, "")
        assert re.fullmatch(
            r"gpu-cluster job logs: first: \S+ gives no log of worker 0: .+\n", error
        )
    policy = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/first"
    (owner,) = api.get(policy)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("JobSet", "first")
    assert user.run("cancel", "first")[:2] == (ExitCode.OK, "first: cancelled\n")
    until = time.monotonic() + SECONDS
    policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    while user.states() or any(one["metadata"]["name"] == "first" for one in api.items(policies)):
        assert time.monotonic() < until, user.states()
        time.sleep(0.5)
    assert "there is no job first" in user.run("cancel", "first")[2]
