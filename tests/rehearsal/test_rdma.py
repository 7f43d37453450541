"""A training job on two machines with GPUDirect RDMA on GKE, and one mistake at a time."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.sandbox import SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import Rehearse, changed, configured, entered, nothing_stays, said

pytestmark = pytest.mark.prove(reason="rehearsals; test_gke_rdma.py has what the program declares")
QUEUES = Path(__file__).with_name("queues.yaml")


def two_machines(config: dict[str, Any]) -> None:
    """A job with two workers in a queue, on a3-ultragpu-8g, and nothing else."""
    ddp = yaml.safe_load(QUEUES.read_text())["gpu-cluster:trainingJobs"]["ddp"]
    config["gpu-cluster:cluster"]["location"] = "us-central1"
    config["gpu-cluster:gpuPools"] = {
        "train-gpu": {
            "machineType": "a3-ultragpu-8g", "capacityType": "spot", "zones": ["us-central1-b"],
            "maxNodes": 2, "gpuDirect": "rdma",
        }
    }  # fmt: skip
    config["gpu-cluster:batch"] = {"jobSet": True, "queues": {"training": {"pools": ["train-gpu"]}}}
    config["gpu-cluster:trainingJobs"] = {"ddp": {**ddp, "nodes": 2}}
    config["gpu-cluster:workloads"] = {}
    config["gpu-cluster:monitoring"] = {}


def test_a_job_on_two_machines_runs_with_their_interfaces(tmp_path: Path) -> None:
    """From no node to two and back; a second up changes nothing, and nothing is left."""
    with ExitStack() as sandboxes:
        sandbox = entered(
            sandboxes, "train-gke", tmp_path / "sandbox", configured(two_machines),
            options=SandboxOptions(job_seconds=2),
        )  # fmt: skip
        rehearsal = Rehearsal(sandbox=sandbox, deadline=180)
        assert rehearsal.run_until_ready(), rehearsal.failures
        rehearsal.teardown()
        assert rehearsal.failures == []
        nothing_stays(rehearsal)


POOL = "gcp:container/nodePool:NodePool"
_LABEL = "cloud.google.com/gke-networking-dra-driver"
MISTAKES: dict[str, tuple[Mutation, str]] = {
    "a zone too many": (
        changed(POOL, 'props["node_locations"].append("us-central1-a")', name="train-gpu"),
        "us-central1-a",
    ),
    "a machine type without RDMA": (
        changed(POOL, 'props["node_config"]["machine_type"] = "a3-ultragpu-16g"', name="train-gpu"),
        "a3-ultragpu-16g",
    ),
    "no Dataplane V2": (
        changed("gcp:container/cluster:Cluster", 'props["datapath_provider"] = None'),
        "acceleratorNetworkProfile needs GKE Dataplane V2 in the cluster",
    ),
    "no networks": (
        changed(POOL, 'del props["network_config"]', name="train-gpu"),
        "claims devices, and a node there offers none",
    ),
    "no label for GKE's driver": (
        changed(POOL, f'del props["node_config"]["labels"]["{_LABEL}"]', name="train-gpu"),
        "claims devices, and a node there offers none",
    ),
    "no plugin of NCCL": (
        changed(
            "kubernetes:apps/v1:DaemonSet",
            'props["spec"]["template"]["spec"]["node_selector"] = {"no": "node"}',
            name="gib-installer",
        ),
        "nothing has copied NCCL's plugin for them to its node",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_wrong_thing_about_interfaces_is_named(rehearse: Rehearse, mistake: str) -> None:
    """Each by its own words."""
    mutation, words = MISTAKES[mistake]
    rehearsal = rehearse(configured(two_machines), mutation, stack="train-gke", deadline=90)
    assert any(words in line for line in said(rehearsal)), said(rehearsal)
