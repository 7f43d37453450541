"""A training job on a queued pool gets all of its nodes or none."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal.report import gpu_nodes_over_time, node_lives, pod_lives
from rehearsal.sandbox import Sandbox, SandboxOptions
from rehearsal.scenario import Rehearsal
from stacks.definition.program import Mutation
from tests.rehearsal.conftest import configured, entered

GANG = 4
MACHINE = "g2-standard-4"
QUEUES = Path(__file__).with_name("queues.yaml")


def gang(config: dict[str, Any]) -> None:
    """One job, each of whose four workers has a node of its own."""
    ddp = yaml.safe_load(QUEUES.read_text())["gpu-cluster:trainingJobs"]["ddp"]
    config["gpu-cluster:batch"] = {
        "jobSet": True,
        "queues": {"training": {"pools": ["train-gpu"]}},
    }
    config["gpu-cluster:gpuPools"] = {
        "train-gpu": {
            "machineType": MACHINE,
            "capacityType": "flex-start",
            "queued": True,
            "maxNodes": GANG,
            "maxRunDurationSeconds": 86400,
            "zones": ["us-central1-a", "us-central1-b"],
        }
    }
    config["gpu-cluster:trainingJobs"] = {"ddp": {**ddp, "nodes": GANG, "gpus": 1}}
    config["gpu-cluster:workloads"] = {}


def rehearsed(
    tmp_path: Path,
    *mutations: Mutation,
    stock: int,
    between: Callable[[Sandbox], None] = lambda sandbox: None,
    deadline: float = 90,
) -> Rehearsal:
    """The gang where Compute Engine has so many machines; `between`: before everything leaves."""
    inventories = tmp_path / "inventories"
    inventories.mkdir()
    described = {"stock": [{"machineType": MACHINE, "nodes": stock}]}
    (inventories / "train-gke.yaml").write_text(yaml.safe_dump(described))
    with ExitStack() as sandboxes:
        sandbox = entered(
            sandboxes, "train-gke", tmp_path / "sandbox", configured(gang), *mutations,
            options=SandboxOptions(inventories=inventories, job_seconds=2),
        )  # fmt: skip
        rehearsal = Rehearsal(sandbox=sandbox, deadline=deadline)
        if stock < GANG or mutations:
            rehearsal.run_up_only()
            between(sandbox)
        elif rehearsal.run_until_ready():
            between(sandbox)
            rehearsal.teardown()
        return rehearsal


def gpu_nodes(rehearsal: Rehearsal) -> list[int]:
    """How many GPU nodes there were, one after the other."""
    lives = node_lives(rehearsal.sandbox.event_log.events)
    return [count for _, count in gpu_nodes_over_time(lives)]


@pytest.mark.prove(reason="test_queued_nodes.py has each step; this is a whole rehearsal")
def test_all_nodes_of_a_job_start_together(tmp_path: Path) -> None:
    """The four workers run at once, a second up changes nothing, and nothing is left."""
    rehearsal = rehearsed(tmp_path, stock=GANG)
    assert rehearsal.failures == []
    events = rehearsal.sandbox.event_log.events
    assert [event.detail["nodes"] for event in events if event.what == "together"] == [GANG]
    assert max(gpu_nodes(rehearsal)) == GANG
    assert gpu_nodes(rehearsal)[-1] == 0
    workers = [pod for pod in pod_lives(events) if pod.workload == "Job default/ddp-workers-0"]
    assert [pod.state for pod in workers] == ["succeeded"] * GANG
    steps = {step.name: step.detail for step in rehearsal.steps}
    assert steps["idempotency"] == "no changes"
    assert steps["leak check"] == "nothing in the state, nothing in the cloud, no cluster"


@pytest.mark.prove(reason="test_queued_nodes.py has each step; this is a whole rehearsal")
def test_no_node_starts_if_one_is_missing(tmp_path: Path) -> None:
    """Of four machines three can be had: none starts, no pod is created, the report says why."""
    rehearsal = rehearsed(tmp_path, stock=GANG - 1, deadline=20)
    events = rehearsal.sandbox.event_log.events
    assert gpu_nodes(rehearsal) in ([], [0])
    assert not [pod for pod in pod_lives(events) if "ddp" in pod.workload]
    (line,) = (line for line in rehearsal.failures if "Job default/ddp-workers-0" in line)
    assert "is still in its queue" in line
    assert "all of its nodes in pool train-gpu" in line
    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in line
