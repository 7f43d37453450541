"""What GKE's autoscaler expects of a pool's first node if pods claim its GPUs."""

from typing import Any

import pytest

from tests.unit.simulators.google_stack import GoogleStack
from tests.unit.simulators.test_google_node_pool import group_of

LABEL = {"cloud.google.com/gke-nvidia-gpu-dra-driver": "true"}
T4 = {"type": "nvidia-tesla-t4", "count": 2}
OLD = {"minMasterVersion": "1.33", "releaseChannel": {"channel": "EXTENDED"}}


@pytest.mark.parametrize(
    ("cluster", "labels", "devices", "product"),
    [
        ({}, LABEL, {"gpu.nvidia.com": 2}, "Tesla T4"),
        ({}, {}, {}, None),
        ({}, {next(iter(LABEL)): "yes"}, {}, None),
        (OLD, LABEL, {}, None),
    ],
)
def test_it_expects_devices_by_the_label(
    cluster: dict[str, Any], labels: dict[str, str], devices: dict[str, int], product: str | None
) -> None:
    """From 1.34 on; what the node then offers depends on the driver."""
    stack = GoogleStack.with_cluster(**cluster)
    stack.pool(
        nodeConfig={
            "machineType": "n1-standard-8", "guestAccelerators": [T4], "labels": labels,
        }
    )  # fmt: skip
    group = group_of(stack)
    assert group.template.devices == devices
    assert (group.template.expected or {}).get("productName") == product
    assert group.node.devices == (None if devices else {})
    assert group.gpu_model == "T4"
    assert ("nvidia.com/gpu" in group.template.capacity) == (not devices)


def test_it_knows_no_newer_gpus() -> None:
    """Only those of nodes that exist."""
    stack = GoogleStack.with_cluster()
    config = {"machineType": "a3-ultragpu-8g", "diskType": "hyperdisk-balanced", "labels": LABEL}
    stack.pool(nodeConfig=config, nodeLocations=["us-central1-b"])
    assert (group_of(stack).template.devices, group_of(stack).template.expected) == ({}, {})
