"""What of the acceptance test's config is accepted, and what is refused in one line."""

from typing import Any

import pytest

from components.catalog.data_sheets import DATA_SHEETS
from components.gpu.acceptance_request import ThresholdsArgs
from components.settings import load as settings
from components.settings import model
from tests.program.environments import as_engine_config, values_of

KEY = "gpu-cluster:gpuTest"
IMAGE = "docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime"


def pool_of(stack: str) -> str:
    """The stack's first pool."""
    return next(iter(values_of(stack)["gpu-cluster:gpuPools"]))


def read(stack: str, check: Any, **pool: Any) -> model.Settings:
    """The stack's settings with this check; `pool` changes its first pool."""
    values = {**values_of(stack), KEY: check}
    pools = values["gpu-cluster:gpuPools"]
    values["gpu-cluster:gpuPools"] = {
        **pools,
        pool_of(stack): {**pools[pool_of(stack)], **pool},
    }
    return settings.from_config(as_engine_config(values))


@pytest.mark.parametrize("stack", ["dev", "train-gke", "train", "autopilot", "onprem"])
def test_there_is_none_unless_it_is_asked_for(stack: str) -> None:
    """No environment measures GPUs by itself: that takes a node."""
    assert read(stack, {}).gpu_test is None


@pytest.mark.parametrize(
    ("stack", "pool", "gpus"),
    [
        ("dev", {}, 1),
        ("dev", {"gpusPerNode": 4}, 4),
        ("train", {}, 1),
        ("autopilot", {}, 1),
        ("autopilot", {"gpusPerNode": 4}, 4),
        ("onprem", {}, 9),
    ],
)
def test_it_takes_every_gpu_of_a_node(stack: str, pool: dict[str, Any], gpus: int) -> None:
    """Left out, the number is the pool's; on Autopilot without a size, the least there is."""
    found = read(stack, {"pools": [pool_of(stack)], "image": IMAGE}, **pool)
    assert found.gpu_test is not None
    assert found.gpu_test.gpus_on(found.pools[pool_of(stack)].pool) == gpus


@pytest.mark.parametrize(
    ("stack", "check", "pool", "says"),
    [
        ("dev", {"image": IMAGE}, {}, "pools: is missing; set it"),
        ("dev", {"pools": ["train-gpu"]}, {}, "image: is missing; set it"),
        ("dev", {"pools": ["train-gpus"], "image": IMAGE}, {},
         "pools[0]: 'train-gpus' is not a pool; did you mean 'train-gpu'? allowed: train-gpu"),
        ("dev", {"pools": ["train-gpu"], "image": IMAGE, "gpus": 2}, {},
         "gpus: 2 is more than a node of pool train-gpu has (1); lower it, or drop the key"),
        ("dev", {"pools": ["train-gpu"], "image": IMAGE, "thresholds": {"matmul": 60}}, {},
         "thresholds.matmul: 60 is out of range; allowed: above 0 and up to 1, as a share of the "
         "data sheet's figure"),
        ("dev", {"pools": ["train-gpu"], "image": IMAGE, "thresholds": {"allReduce": 0}}, {},
         "thresholds.allReduce: 0 is out of range; allowed: above 0 and up to 1, as a share of "
         "the data sheet's figure"),
        ("dev", {"pools": ["train-gpu"], "image": IMAGE, "thresholds": {"bf16": 0.5}}, {},
         "thresholds.bf16: there is no such key; allowed: allReduce, fp32, matmul, memory, pcie"),
        ("train", {"pools": ["train-gpu"], "image": IMAGE},
         {"sharing": {"strategy": "time-slicing", "replicas": 4}},
         "pools: train-gpu shares its GPUs (time-slicing by 4), and a test of a share says "
         "nothing about the whole GPU; name a pool without sharing, or turn off its sharing for "
         "the test"),
        ("dev", {"pools": ["train-gpu"], "image": IMAGE},
         {"machineType": "a2-highgpu-1g", "accelerator": "nvidia-tesla-a100",
          "sharing": {"strategy": "mig", "partition": "1g.5gb"}},
         "pools: train-gpu shares its GPUs (1g.5gb), and a test of a share says nothing about "
         "the whole GPU; name a pool without sharing, or turn off its sharing for the test"),
    ],
)  # fmt: skip
def test_refuses_what_cannot_be_measured(
    stack: str, check: dict[str, Any], pool: dict[str, Any], says: str
) -> None:
    """Each refusal names the key, what was given and what to do, in one line."""
    with pytest.raises(ValueError, match=r"^gpu-cluster:gpuTest\.") as refused:
        read(stack, check, **pool)
    assert str(refused.value) == f"{KEY}.{says}"


def test_autopilot_mounts_nothing_of_the_host() -> None:
    """Said before GKE's admission does."""
    check = {"pools": [pool_of("autopilot")], "image": IMAGE, "mounts": {"/opt": "/opt"}}
    with pytest.raises(
        ValueError, match=r"gpuTest\.mounts: the platform does not allow directories"
    ):
        read("autopilot", check)


def test_autopilot_gives_a_pod_some_counts_only() -> None:
    """Three T4 are not to be had there."""
    check = {"pools": [pool_of("autopilot")], "image": IMAGE, "gpus": 3}
    with pytest.raises(ValueError, match=r"gpuTest\.gpus: 3 is not possible for a pod on pool"):
        read("autopilot", check)


def test_a_workload_may_not_take_the_job_s_name() -> None:
    """Two objects of one name would be one object with two owners."""
    values = {**values_of("dev"), KEY: {"pools": ["train-gpu"], "image": IMAGE}}
    sample = next(iter(values["gpu-cluster:workloads"].values()))
    values["gpu-cluster:workloads"] = {"gpu-test-train-gpu": sample}
    with pytest.raises(ValueError, match="is the name of the Job that tests") as refused:
        settings.from_config(as_engine_config(values))
    assert str(refused.value).startswith("gpu-cluster:workloads.gpu-test-train-gpu: ")


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("H100", {"matrix": 0.6, "fp32": 0.6, "memory": 0.8, "host": 0.6, "allReduce": 0.6}),
        ("T4", {"matrix": 0.3, "fp32": 0.3, "memory": 0.7, "host": 0.6, "allReduce": 0.6}),
        ("A10G", {"matrix": 0.6, "fp32": 0.6, "memory": 0.7, "host": 0.6, "allReduce": 0.6}),
    ],
)
def test_thresholds_follow_the_card(model: str, least: dict[str, float]) -> None:
    """A GPU of 75 W cannot hold its clocks, and GDDR gives up bandwidth for error correction."""
    assert ThresholdsArgs().on(DATA_SHEETS[model]) == least
    assert ThresholdsArgs(matmul=0.5, memory=0.9).on(DATA_SHEETS[model]) == {
        **least,
        "matrix": 0.5,
        "memory": 0.9,
    }
