"""The committed environments and others like them, as the engine hands their config over."""

from typing import Any

import yaml

from quality.bench.child import ROOT
from stacks.files import stack_file


def values_of(stack: str) -> dict[str, Any]:
    """The stack file's config, as YAML has it."""
    config: dict[str, Any] = yaml.safe_load(stack_file(ROOT, stack).read_text())["config"]
    return config


def platform_of(stack: str) -> str:
    """The platform that the environment names."""
    return str(values_of(stack)["gpu-cluster:cluster"]["platform"])


def with_pools(stack: str, count: int) -> dict[str, Any]:
    """The environment with so many copies of its first pool, and no workload."""
    values = values_of(stack)
    pool = next(iter(values["gpu-cluster:gpuPools"].values()))
    return {
        **values,
        "gpu-cluster:gpuPools": {f"pool-{number}": pool for number in range(count)},
        "gpu-cluster:workloads": {},
    }
