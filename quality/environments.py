"""The committed environments and others like them, as the engine hands their config over."""

from pathlib import Path
from typing import Any

import yaml

from stacks.definition import settings
from stacks.definition.files import ROOT, stack_file


def values_of(stack: str) -> dict[str, Any]:
    """The stack file's config, as YAML has it."""
    return _values(stack_file(ROOT, stack))


def platform_of(stack: str) -> str:
    """The platform that the environment names."""
    return platform_at(stack_file(ROOT, stack))


def platform_at(file: Path) -> str:
    """The platform that a stack file names."""
    return settings.platform_of(_values(file))


def _values(file: Path) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(file.read_text())["config"]
    return config


def with_pools(stack: str, count: int) -> dict[str, Any]:
    """The environment with so many copies of its first pool, and no workload."""
    values = values_of(stack)
    pool = next(iter(values["gpu-cluster:gpuPools"].values()))
    return {
        **values,
        "gpu-cluster:gpuPools": {f"pool-{number}": pool for number in range(count)},
        "gpu-cluster:workloads": {},
    }
