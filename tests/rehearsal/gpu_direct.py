"""A training job on two machines whose GPUs reach each other."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.rehearsal.sandbox import SandboxOptions
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import whole_life

QUEUES = Path(__file__).with_name("queues.yaml")


def two_workers(config: dict[str, Any], pool: Mapping[str, Any]) -> None:
    """Changes a stack's config to a job with two workers in a queue, on two machines of this pool,
    and no other workload."""
    ddp = yaml.safe_load(QUEUES.read_text())["gpu-cluster:trainingJobs"]["ddp"]
    queues = {"training": {"pools": ["train-gpu"]}}
    config["gpu-cluster:gpuPools"] = {"train-gpu": {"maxNodes": 2, **pool}}
    config["gpu-cluster:batch"] = {"jobSet": True, "queues": queues}
    config["gpu-cluster:trainingJobs"] = {"ddp": {**ddp, "nodes": 2}}
    config["gpu-cluster:workloads"] = {}


def two_machines(pool: Mapping[str, Any], **cluster: str) -> Callable[[dict[str, Any]], None]:
    """The same on spot machines of GKE with GPUDirect, without monitoring."""

    def change(config: dict[str, Any]) -> None:
        two_workers(config, {"capacityType": "spot", **pool})
        config["gpu-cluster:cluster"] |= {"location": "us-central1", **cluster}
        config["gpu-cluster:monitoring"] = {}

    return change


def runs_and_leaves_nothing(folder: Path, mutation: Mutation) -> None:
    """From no node to two and back; a second up changes nothing, and nothing is left."""
    options = SandboxOptions(job_seconds=2)
    with whole_life("train-gke", folder, mutation, options=options):
        pass
