"""GPUs that Autopilot can get, and those that it cannot."""

import re
from typing import Any

import pytest

from components.catalog.gke import ACCELERATORS, autopilot_provisioning
from components.gke_autopilot.pool_args import GkeAutopilotPoolArgs


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
