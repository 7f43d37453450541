"""A rehearsal of `train` with a warm pool: its node boots ahead of time, and nothing stays."""

from pathlib import Path

import pytest
import yaml

from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox
from gpu_cluster.rehearsal.scenario import Rehearsal
from tests.rehearsal.own_stacks import folder_of


@pytest.mark.prove(reason="tests/simulators/test_aws_warm_pools.py has each step")
def test_the_node_of_a_job_comes_from_the_warm_pool(tmp_path: Path) -> None:
    """0, 1, 0 nodes; the second up changes nothing; the stopped instances end with the stack."""
    document = yaml.safe_load((ROOT / "Pulumi.train.yaml").read_text())
    pool = document["config"]["gpu-cluster:gpuPools"]["train-gpu"]
    pool["warmPool"] = {"maxGroupPreparedCapacity": 1}
    with Sandbox(
        "train",
        source=folder_of("train", tmp_path, yaml.safe_dump(document)),
        folder=tmp_path / "sandbox",
    ) as running:
        rehearsal = Rehearsal(sandbox=running, deadline=180)
        _ = rehearsal.run_until_ready() and rehearsal.teardown()
    assert rehearsal.failures == []
    events = running.event_log.events
    (start,) = [event for event in events if event.kind == "cloud" and event.what == "warm start"]
    assert start.detail == {"nodes": 1, "left": 0}
    details = {step.name: step.detail for step in rehearsal.steps}
    assert "came from its warm pool, where 0 more waited" in details["workloads run"]
    assert details["idempotency"] == "no changes"
    assert details["leak check"].startswith("nothing left in the state, nothing left in the cloud")
