"""GPUs that Autopilot can get, and those that it cannot."""

import re
from contextlib import nullcontext
from typing import Any

import pytest

from gpu_cluster.components.catalog.gke import ACCELERATORS, autopilot_provisioning, autopilot_room
from gpu_cluster.components.gke_autopilot.pool_args import GkeAutopilotPoolArgs
from gpu_cluster.components.gpu.resources_args import ResourcesArgs
from gpu_cluster.components.gpu.workload_args import WorkloadArgs
from gpu_cluster.components.kube import quantity
from gpu_cluster.components.settings.load import from_config
from gpu_cluster.components.settings.validate import warnings
from gpu_cluster.rehearsal.simulators.google.autopilot import admitted
from tests.program.environments import as_engine_config, values_of


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        ({"accelerator": "nvidia-b200"},
            "capacityType: nodes with nvidia-b200 are not sold as on-demand; allowed: spot, "
            "flex-start, reservation"),
        ({"accelerator": "nvidia-h100-80gb", "gpus_per_node": 1},
            "capacityType: nodes with 1 nvidia-h100-80gb are not sold as on-demand; allowed: spot, "
            "flex-start"),
    ],
)  # fmt: skip
def test_refuses_nodes_that_are_not_sold_so(pool: dict[str, Any], says: str) -> None:
    """A pod that selects such nodes would wait for ever."""
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        GkeAutopilotPoolArgs(**pool)


def test_takes_nodes_that_are_sold_so() -> None:
    """A node with all eight, or of a size that the pod decides, can be had on demand."""
    GkeAutopilotPoolArgs(accelerator="nvidia-h100-80gb")
    GkeAutopilotPoolArgs(accelerator="nvidia-h100-80gb", gpus_per_node=8)
    GkeAutopilotPoolArgs(accelerator="nvidia-b200", capacity_type="spot")


def test_every_card_of_autopilot_can_be_had_in_each_of_its_counts() -> None:
    """No count that the catalog has for Autopilot is refused with every capacity."""
    for gpu_model in ACCELERATORS.values():
        for count in gpu_model.autopilot_counts:
            assert autopilot_provisioning(gpu_model.name, count), (gpu_model.name, count)


def test_a_reservation_is_selected_by_its_parts() -> None:
    """A pod names the owner's project, the reservation and its block by labels of their own."""
    theirs = GkeAutopilotPoolArgs(
        accelerator="nvidia-l4",
        capacity_type="reservation",
        reservation="projects/owner-1/reservations/theirs/reservationBlocks/block-1",
    )
    assert theirs.gpu_pool("l4").node_selector == {
        "cloud.google.com/gke-accelerator": "nvidia-l4",
        "cloud.google.com/reservation-name": "theirs",
        "cloud.google.com/reservation-affinity": "specific",
        "cloud.google.com/reservation-project": "owner-1",
        "cloud.google.com/reservation-blocks": "block-1",
    }


def test_a_spot_pod_does_not_ask_to_keep_its_node() -> None:
    """Autopilot grants an extended run time to others alone."""
    for capacity, keeps in (("spot", False), ("on-demand", True)):
        pool = GkeAutopilotPoolArgs(accelerator="nvidia-l4", capacity_type=capacity)
        assert bool(pool.gpu_pool("l4").stay_annotations) == keeps


@pytest.mark.parametrize(
    ("gpus", "requests", "says"),
    [
        # What GKE's own admission answers: argoproj/argo-workflows issue 13073.
        (1, {"cpu": "12"}, "requests.cpu: 12 is more than a node of pool a100 has"),
        (1, {"memory": "80Gi"}, "requests.memory: 80Gi is more than a node of pool a100 has"),
        (1, {"cpu": "11", "memory": "74Gi"}, None),
        (2, {"cpu": "22", "memory": "148Gi"}, None),
        (2, {"cpu": "25"}, "requests.cpu: 25 is more than a node of pool a100 has"),
        (16, {"memory": "1400Gi"}, "requests.memory: 1400Gi is more than"),
    ],
)
def test_a_pod_requests_no_more_than_a_node_with_its_gpus_has(
    gpus: int, requests: dict[str, str], says: str | None
) -> None:
    """GKE would refuse the pod, and a Deployment's pods would just never appear."""
    pods = WorkloadArgs(
        kind="job", pool="a100", gpus=gpus, image="a/b:1", requests=ResourcesArgs(**requests)
    )
    pool = GkeAutopilotPoolArgs(accelerator="nvidia-tesla-a100").gpu_pool("a100")
    with pytest.raises(ValueError, match=f"^{re.escape(says)}") if says else nullcontext():
        pods.check_fits(pool)


def test_every_count_of_gpus_has_a_maximum() -> None:
    """The program's is at most what the simulated admission lets pass, which has its own table."""
    for gpu_model in ACCELERATORS.values():
        limits = admitted(gpu_model.name)
        assert set(limits) == set(gpu_model.autopilot_counts), gpu_model.name
        for gpus, most in limits.items():
            cpu, memory = autopilot_room(gpu_model.name, gpus)
            whole = quantity.parse(most["cpu"]) * 1000, quantity.parse(most["memory"]) / 2**20
            assert 0.9 * float(whole[0]) < cpu <= whole[0], (gpu_model.name, gpus)
            assert 0.9 * float(whole[1]) < memory <= whole[1], (gpu_model.name, gpus)


@pytest.mark.parametrize(("gpus_per_node", "most"), [(None, 16), (1, 1), (4, 4)])
def test_a_worker_has_at_most_the_gpus_of_its_node(gpus_per_node: int | None, most: int) -> None:
    """A training job without `gpus` has all GPUs of a node of the size that the pool selects."""
    args = GkeAutopilotPoolArgs(accelerator="nvidia-tesla-a100", gpus_per_node=gpus_per_node)
    assert max(args.gpu_pool("a100").gpus_per_pod) == most


def test_disk_that_is_not_requested_is_warned_of() -> None:
    """Autopilot gives such a container 1 GiB, and evicts a pod that writes more."""
    values = values_of("autopilot")
    (name,) = values["gpu-cluster:workloads"]
    lines = []
    for requests in ({}, {"ephemeralStorage": "2Gi"}):
        values["gpu-cluster:workloads"][name]["requests"] = requests
        found = warnings(from_config(as_engine_config(values)))
        lines.append([line for line in found if "ephemeralStorage" in line])
    assert [len(line) for line in lines] == [1, 0]
    assert "gets 1Gi of disk" in lines[0][0]
