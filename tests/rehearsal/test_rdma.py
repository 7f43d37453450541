"""A training job on two machines with GPUDirect RDMA on GKE, and one mistake at a time."""

from pathlib import Path

import pytest

from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal import gpu_direct
from tests.rehearsal.conftest import Rehearse, changed, configured, found_by_its_words, without_pods

pytestmark = pytest.mark.prove(reason="rehearsals; test_gke_rdma.py has what the program declares")
two_machines = gpu_direct.two_machines({
    "machineType": "a3-ultragpu-8g", "zones": ["us-central1-b"], "gpuDirect": "rdma",
})  # fmt: skip


def test_a_job_on_two_machines_runs_with_their_interfaces(tmp_path: Path) -> None:
    """And they go when it has ended."""
    gpu_direct.runs_and_leaves_nothing(tmp_path / "sandbox", configured(two_machines))


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
        without_pods("gib-installer"),
        "nothing has copied NCCL's plugin for them to its node",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_wrong_thing_about_interfaces_is_named(rehearse: Rehearse, mistake: str) -> None:
    """Each by its own words."""
    found_by_its_words(rehearse, two_machines, MISTAKES[mistake], stack="train-gke")
