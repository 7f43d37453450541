"""What of the acceptance test's config is accepted, and what is refused in one line."""

from typing import Any

import pytest

from gpu_cluster.components.catalog.data_sheets import DATA_SHEETS
from gpu_cluster.components.gpu.acceptance_request import ThresholdsArgs
from gpu_cluster.components.settings import load as settings
from gpu_cluster.components.settings import model
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
    ("model", "least"),
    [
        ("H100", {"matrix": 0.6, "fp32": 0.6, "memory": 0.8, "host": 0.6, "allReduce": 0.6}),
        ("T4", {"matrix": 0.3, "fp32": 0.3, "memory": 0.7, "host": 0.6, "allReduce": 0.6}),
        ("A10G", {"matrix": 0.6, "fp32": 0.6, "memory": 0.7, "host": 0.6, "allReduce": 0.6}),
    ],
)
def test_thresholds_follow_the_card(model: str, least: dict[str, float]) -> None:
    """A GPU of 75 W cannot hold its clocks, and GDDR gives up bandwidth for error correction."""
    assert ThresholdsArgs().on(DATA_SHEETS[model]) == {**least, "network": 0.5}
    assert ThresholdsArgs(matmul=0.5, memory=0.9).on(DATA_SHEETS[model]) == {
        **least,
        "matrix": 0.5,
        "memory": 0.9,
        "network": 0.5,
    }
