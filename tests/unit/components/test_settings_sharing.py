"""Shared GPUs in config: what cannot be is refused in a line, what can follows from one value."""

import json
from typing import Any

import pytest

from components.settings import load as settings
from components.settings import model
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


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("dev", {"strategy": "mps", "replicas": 4, "partition": "1g.5gb"}, A100,
     "sharing.partition: MPS does not run on MIG partitions; use time-slicing or mig"),
    ("dev", {"strategy": "mig", "partition": "1g.10gb"}, A100,
     "sharing.partition: '1g.10gb' is not a partition of nvidia-tesla-a100; allowed: 1g.5gb, "
     "2g.10gb, 3g.20gb, 7g.40gb"),
    ("dev", {"strategy": "mig", "partition": "1g.5gb", "replicas": 2}, A100,
     "sharing.replicas: 2 needs strategy time-slicing, which may have a partition too"),
    ("dev", {"strategy": "time-slicing", "replicas": 49}, {},
     "sharing.replicas: 49 is out of range; allowed: 1 to 48"),
    ("dev", {"strategy": "time-slicing"}, {},
     "sharing.replicas: 1 is out of range; allowed: 2 to 48"),
    ("dev", SLICED, {"devicePlugin": "nvidia"},
     "sharing: is done by GKE on this platform; set devicePlugin: gke"),
    ("dev", SLICED, {"devicePlugin": "none"},
     "sharing: is done by GKE on this platform; set devicePlugin: gke"),
    ("train", SLICED, {"devicePlugin": "none"},
     "sharing: is done by the device plugin; set devicePlugin: nvidia, or drop the key"),
    ("dev", {"strategy": "timeslicing", "replicas": 4}, {},
     "sharing.strategy: 'timeslicing' is not known; did you mean 'time-slicing'? allowed: mig, "
     "mps, time-slicing"),
    ("autopilot", {"strategy": "mps", "replicas": 4}, {},
     "sharing.strategy: mps is only available on GKE Standard; use time-slicing, or platform gke"),
    ("autopilot", {"strategy": "mig", "partition": "1g.5gb"}, {},
     "sharing.partition: '1g.5gb' is not a partition of nvidia-tesla-t4; allowed: none, because "
     "it does not support MIG"),
    ("autopilot", {"strategy": "time-slicing", "replicas": 1}, {},
     "sharing.replicas: 1 is out of range; allowed: 2 to 48"),
    ("train", {"strategy": "time-slicing", "replicas": 49}, {},
     "sharing.replicas: 49 is out of range; allowed: 2 to 48"),
    ("train", {"strategy": "mig", "replicas": 4}, {},
     "sharing.strategy: mig is supported only on GKE; use time-slicing"),
    ("train", {"strategy": "time-slicing", "replicas": 4, "partition": "1g.5gb"}, {},
     "sharing.partition: is only available on gke and gke-autopilot; drop it"),
    ("onprem", {"strategy": "time-slicing", "replicas": 1}, {},
     "sharing.replicas: 1 is too small; allowed: 2 or more"),
    ("onprem", {"strategy": "mps", "replicas": 49}, {},
     "sharing.replicas: 49 is too many for MPS; allowed: 2 to 48"),
    ("onprem", {"strategy": "mig", "replicas": 2}, {},
     "sharing.strategy: 'mig' is not known; allowed: mps, time-slicing"),
    ("onprem", SLICED, {"devicePlugin": "none"},
     "sharing: is done by the device plugin; set devicePlugin: nvidia, or drop the key"),
]  # fmt: skip


@pytest.mark.parametrize(("stack", "sharing", "pool", "says"), REFUSED)
def test_what_cannot_be_shared_so_is_refused(
    stack: str, sharing: dict[str, Any], pool: dict[str, Any], says: str
) -> None:
    """One line: the key's path, what was given, what is allowed."""
    with pytest.raises(ValueError, match="sharing") as refusal:
        shared(stack, sharing, **pool)
    assert str(refusal.value) == f"gpu-cluster:gpuPools.{POOLS[stack]}.{says}"


@pytest.mark.parametrize("stack", POOLS)
def test_a_sample_asks_for_one_share(stack: str) -> None:
    """Two shares may be of one GPU: a sample that asks for two is refused on every platform."""
    with pytest.raises(ValueError, match=r"workloads\.") as refusal:
        shared(stack, SLICED, gpus=2)
    said = str(refusal.value)
    assert f"gpus: 2 shares of pool {POOLS[stack]} may all be of the same GPU; request 1" in said
    assert "\n" not in said


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
         {"os": "bottlerocket", "releaseVersion": "1.54.0-5a8d13d7"}, 8),
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
