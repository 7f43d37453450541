"""How GKE shares GPUs, Standard and Autopilot: what nodes offer, and who gets which."""

from typing import Any

import pytest

from gpu_cluster.rehearsal.simulators.cloud import GpuSharing, NodeGroup
from gpu_cluster.rehearsal.simulators.google.autopilot import GpuRequestShape, gpu_request_shapes
from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import AUTOPILOT, GoogleStack, t4

ACCELERATOR = "cloud.google.com/gke-accelerator"
STRATEGY = "cloud.google.com/gke-gpu-sharing-strategy"
CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
PARTITION = "cloud.google.com/gke-gpu-partition-size"
GPU = "nvidia.com/gpu"


def shared(strategy: str, clients: int, **fields: Any) -> dict[str, Any]:
    """The `guestAccelerators[]` of a pool whose GPUs are shared."""
    sharing = {"gpuSharingStrategy": strategy, "maxSharedClientsPerGpu": clients}
    return {"type": "nvidia-tesla-t4", "count": 1, "gpuSharingConfig": sharing, **fields}


def made(accelerator: dict[str, Any], **config: Any) -> NodeGroup:
    """The only pool of a cluster, with this accelerator."""
    stack = GoogleStack.with_cluster()
    stack.pool(nodeConfig=t4(guestAccelerators=[accelerator], **config))
    (group,) = stack.cloud.node_groups()
    return group


@pytest.mark.parametrize(
    ("accelerator", "sharing"),
    [
        (shared("TIME_SHARING", 4), GpuSharing(strategy="time-slicing", replicas=4, most=1)),
        (shared("MPS", 4), GpuSharing(strategy="mps", replicas=4, host_ipc=True)),
        (shared("MPS", 4, count=2), GpuSharing(strategy="mps", replicas=4, most=1, host_ipc=True)),
        ({"type": "nvidia-tesla-t4", "count": 2}, GpuSharing()),
    ],
)
def test_gkes_own_plugin_shares_as_the_pools_fields_say(
    accelerator: dict[str, Any], sharing: GpuSharing
) -> None:
    """A container gets one share; of MPS more where the node has one device only."""
    group = made(accelerator)
    assert (group.sharing, group.gpus) == (sharing, accelerator["count"])
    assert group.node.capacity[GPU] == str(accelerator["count"] * sharing.replicas)


def test_gkes_fields_are_nothing_to_another_plugin() -> None:
    """Where the node's label turns GKE's device plugin off, its sharing is off as well."""
    opted_out = {"gke-no-default-nvidia-gpu-device-plugin": "true"}
    group = made(shared("TIME_SHARING", 4), labels=opted_out)
    assert (group.plugin, group.sharing, group.node.capacity[GPU]) == ("pod", GpuSharing(), "1")


def test_mps_on_partitions_is_refused() -> None:
    """Time-sharing has them, MPS not."""
    part = {"type": "nvidia-tesla-a100", "gpuPartitionSize": "1g.5gb"}
    assert made(
        shared("TIME_SHARING", 2, **part), machineType="a2-highgpu-1g"
    ).node.capacity[GPU] == "14"  # fmt: skip
    with pytest.raises(Refused, match=r"MPS does not run on partitions \(here 1g\.5gb\)"):
        made(shared("MPS", 2, **part), machineType="a2-highgpu-1g")


T4 = {ACCELERATOR: "nvidia-tesla-t4"}
A100 = {ACCELERATOR: "nvidia-tesla-a100"}


@pytest.mark.parametrize(
    ("selector", "shape"),
    [
        (T4 | {STRATEGY: "time-sharing", CLIENTS: "4"},
         GpuRequestShape(accelerator="nvidia-tesla-t4", clients=4)),
        (T4 | {CLIENTS: "4"}, GpuRequestShape(accelerator="nvidia-tesla-t4", clients=4)),
        (T4 | {STRATEGY: "time-sharing"},
         GpuRequestShape(accelerator="nvidia-tesla-t4", clients=2)),
        (A100 | {PARTITION: "1g.5gb"},
         GpuRequestShape(accelerator="nvidia-tesla-a100", partition="1g.5gb")),
        (T4, None),
        ({STRATEGY: "time-sharing", CLIENTS: "4"}, None),
        (T4 | {STRATEGY: "mps", CLIENTS: "4"}, None),
        (T4 | {STRATEGY: "TIME_SHARING", CLIENTS: "4"}, None),
        (T4 | {CLIENTS: "49"}, None),
        (T4 | {CLIENTS: "many"}, None),
        (T4 | {PARTITION: "1g.5gb"}, None),
    ],
)  # fmt: skip
def test_autopilot_shares_what_a_pod_selects(
    selector: dict[str, str], shape: GpuRequestShape | None
) -> None:
    """One label of two is enough; what Autopilot does not have brings no node."""
    assert gpu_request_shapes([selector]) == ({shape} if shape else set())


def test_autopilot_makes_shapes_for_the_pods_that_ask() -> None:
    """Shared shapes are there once a pod selected them, beside those of whole GPUs."""
    stack = GoogleStack.with_cluster(quota={"NVIDIA_T4_GPUS": 1}, **AUTOPILOT)
    before = {group.name for group in stack.cloud.node_groups()}
    stack.cloud.asked([T4, T4 | {CLIENTS: "4"}, A100 | {PARTITION: "1g.5gb", CLIENTS: "2"}])
    groups = {group.name: group for group in stack.cloud.node_groups()}
    assert before < groups.keys()
    t4 = groups["autopilot-nvidia-tesla-t4-2-shared-4"]
    assert (t4.gpus, t4.node.capacity[GPU], t4.sharing.most) == (2, "8", 1)
    assert t4.node.labels.items() >= {STRATEGY: "time-sharing", CLIENTS: "4"}.items()
    parts = groups["autopilot-nvidia-tesla-a100-1-1g.5gb-shared-2-spot"]
    assert (parts.spot, parts.node.capacity[GPU]) == (True, "14")
    stack.cloud.set_size("autopilot-nvidia-tesla-t4-1-shared-4", 1)
    with pytest.raises(Exception, match="Quota 'NVIDIA_T4_GPUS' exceeded"):
        stack.cloud.set_size("autopilot-nvidia-tesla-t4-1-shared-4", 2)
