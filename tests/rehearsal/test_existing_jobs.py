"""A training job, submitted by a user on each platform; test_batch.py has GKE Standard."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.existing.inventory_file import write_cluster
from gpu_cluster.rehearsal.sandbox import SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES
from gpu_cluster.stacks.outcome import ExitCode
from tests.rehearsal.conftest import configured, entered, rehearsed, said, with_inventory
from tests.rehearsal.test_batch import User

pytestmark = pytest.mark.prove
SECONDS = 180.0


def with_a_queue(config: dict[str, Any]) -> None:
    """What a platform team declares: its pools, a queue for one of them, and no job."""
    config["gpu-cluster:workloads"] = {}
    pool, args = next(iter(config["gpu-cluster:gpuPools"].items()))
    queue: dict[str, Any] = {"pools": [pool], "namespaces": ["default"]}
    if "maxNodes" not in args:
        queue["nominalQuota"] = {pool: 2}
    config["gpu-cluster:batch"] = {"jobSet": True, "queues": {"training": queue}}


def completed(user: User, **job: Any) -> None:
    """Submits a job and waits until it is completed."""
    assert user.submit(**job) == (ExitCode.OK, "first: submitted\n", "")
    deadline = time.monotonic() + SECONDS
    while (states := user.states()) != ["completed"]:
        assert time.monotonic() < deadline, states
        time.sleep(0.5)


@pytest.mark.parametrize("stack", ["autopilot", "onprem", "train"])
def test_a_user_submits_a_job_on_every_platform(
    stack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no pool has a maximum number of nodes, too; the job is checked, admitted and run."""
    with entered(
        stack, tmp_path / "sandbox", configured(with_a_queue), options=SandboxOptions(job_seconds=4)
    ) as sandbox:
        run = Rehearsal(sandbox=sandbox, deadline=90)
        assert run.run_up_only(), run.failures
        assert sandbox.program.settings is not None
        pool = next(iter(sandbox.program.settings.pools))
        completed(User(run, tmp_path, capsys), pool=pool, nodes=1, gpus=1)


@pytest.mark.parametrize("stack", ["on-eks", "on-gke"])
def test_a_user_submits_a_job_that_completes(
    stack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves its queue, gets two nodes and completes. Meanwhile `gpu-cluster inventory` reads
    what the cluster was made from, without anything of the stack; destroy leaves that."""
    with entered(
        stack, tmp_path / "sandbox", configured(with_a_queue), options=SandboxOptions(job_seconds=4)
    ) as sandbox:
        run = Rehearsal(sandbox=sandbox, deadline=90)
        assert run.run_up_only(), run.failures
        user = User(run, tmp_path, capsys)
        completed(user)
        settings, plane = sandbox.program.settings, sandbox.control_plane
        assert settings is not None
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "simulated")
        file = write_cluster(
            stack, settings, tmp_path, endpoint=sandbox.cloud_api,
            kubeconfig=plane.kubeconfig.read_text(),
        )  # fmt: skip
        found, written = (yaml.safe_load(one.read_text()) for one in (
            file, INVENTORIES / f"{stack}.yaml"))  # fmt: skip
        assert found["cluster"].get("securityGroups") == written["cluster"].get("securityGroups")
        assert found["cluster"]["nodeGroups" if stack == "on-eks" else "nodePools"].keys() == (
            written["cluster"]["nodeGroups" if stack == "on-eks" else "nodePools"].keys()
        )
        shared = written["objects"] if stack == "on-eks" else []
        assert found["objects"] == shared
        assert "controllers" not in found

        user.run("cancel", "first")
        assert run.teardown(), run.failures
        assert sandbox.cloud.list_resources() == sandbox.disturbed() == []


def with_adapters(config: dict[str, Any]) -> None:
    """Two pods that each want half of a machine's adapters, which the pool says it has."""
    config["gpu-cluster:gpuPools"]["gpus"]["extendedResources"] = {"rdma/hca": 2}
    workload = config["gpu-cluster:workloads"]["gpu-k8s"] | {"extendedResources": {"rdma/hca": 1}}
    config["gpu-cluster:workloads"] = {"first": workload, "second": workload}


@pytest.mark.parametrize("adapters", ["2", None])
def test_machines_offer_what_the_inventory_says(tmp_path: Path, adapters: str | None) -> None:
    """Other devices than GPUs among it; a pod that wants what no machine has is named."""
    machines = yaml.safe_load((INVENTORIES / "onprem.yaml").read_text())
    for machine in machines if adapters else ():
        machine["capacity"]["rdma/hca"] = adapters
    run = rehearsed(
        "onprem", tmp_path / "sandbox", configured(with_adapters), whole=False, deadline=45,
        options=with_inventory(tmp_path, "onprem", machines),
    )  # fmt: skip
    assert (not run.failures) == bool(adapters), run.failures
    assert any("rdma/hca" in line for line in said(run)) != bool(adapters)
