"""Shared GPUs in config: what cannot be is refused in a line, what can follows from one value."""

import json
from typing import Any

import pytest

from gpu_cluster.components.settings import load as settings
from gpu_cluster.components.settings import model
from tests.program.environments import as_engine_config, values_of

POOLS = {"dev": "train-gpu", "autopilot": "t4", "train": "train-gpu", "onprem": "gpus"}
A100 = {"machineType": "a2-highgpu-1g", "accelerator": None, "gpusPerNode": None,
        "driver": "managed"}  # fmt: skip
SLICED = {"strategy": "time-slicing", "replicas": 4}
KUBECONFIG = json.dumps(
    {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1"}}],
        "users": [{"name": "c", "user": {}}],
    }
)


def shared(stack: str, sharing: Any, *, gpus: int = 1, **pool: Any) -> model.Settings:
    """The settings of a committed stack whose pool shares its GPUs, and whose samples ask so."""
    values = values_of(stack)
    if stack == "onprem":
        values["gpu-cluster:cluster"]["kubeconfig"] = KUBECONFIG
    given = values["gpu-cluster:gpuPools"][POOLS[stack]]
    given |= {"sharing": sharing, **pool}
    for key in [key for key, value in given.items() if value is None]:
        del given[key]
    for workload in values["gpu-cluster:workloads"].values():
        workload["gpus"] = min(workload["gpus"], gpus) if gpus == 1 else gpus
    return settings.from_config(as_engine_config(values))


@pytest.mark.parametrize(
    ("stack", "sharing", "pool", "allocatable"),
    [
        ("dev", SLICED, {}, 4),
        ("dev", SLICED, {"gpusPerNode": 2}, 8),
        ("dev", {"strategy": "mig", "partition": "1g.5gb"}, A100, 7),
        ("dev", {**SLICED, "partition": "2g.10gb"}, A100, 12),
        ("train", SLICED, {}, 4),
        ("train", {"strategy": "mps", "replicas": 8}, {"instanceTypes": ["g5.12xlarge"]}, 32),
        ("train", {"strategy": "mps", "replicas": 8}, {"os": "bottlerocket"}, 8),
        ("train", {"strategy": "mps", "replicas": 8},
         {"os": "bottlerocket", "releaseVersion": "1.62.0-5a8d13d7"}, 8),
        ("autopilot", SLICED, {"gpusPerNode": 1}, 4),
        ("onprem", SLICED, {}, 36),
    ],
)  # fmt: skip
def test_what_a_node_offers_follows_from_the_pools_sharing(
    stack: str, sharing: dict[str, Any], pool: dict[str, Any], allocatable: int
) -> None:
    """GPUs times partitions times replicas; of shares a pod may ask for one."""
    made = shared(stack, sharing, **pool).pools[POOLS[stack]].pool
    contract = made.contract()
    assert made.allocatable == contract["allocatablePerNode"] == allocatable
    several = sharing["strategy"] == "mig"
    assert contract["gpusPerPod"] == (list(range(1, allocatable + 1)) if several else [1])


@pytest.mark.parametrize(
    ("stack", "strategy", "host_ipc"),
    [("dev", "mps", True), ("dev", "time-slicing", False), ("onprem", "mps", False)],
)
def test_gkes_mps_is_reached_through_the_hosts_ipc(
    stack: str, strategy: str, host_ipc: bool
) -> None:
    """NVIDIA's own plugin mounts what its clients need instead."""
    made = shared(stack, {"strategy": strategy, "replicas": 2}).pools[POOLS[stack]].pool
    assert made.host_ipc is made.contract()["hostIPC"] is host_ipc
    selects = made.node_selector.get("cloud.google.com/gke-gpu-sharing-strategy")
    assert selects == ("mps" if host_ipc else None)


def test_an_existing_autopilot_cluster_is_used_as_its_refusal_says() -> None:
    """With platform existing, whose pools select GPUs as Autopilot's pods do."""
    given = {"platform": "existing", "name": "ml", "context": "c", "kubeconfig": KUBECONFIG}
    pool = {"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"},
            "gpusPerNode": 1, "devicePlugin": "none"}  # fmt: skip
    values = {**values_of("autopilot"), "gpu-cluster:cluster": given}
    values |= {"gpu-cluster:gpuPools": {"t4": pool}, "gpu-cluster:monitoring": {}}
    assert [*settings.from_config(as_engine_config(values)).pools] == ["t4"]
