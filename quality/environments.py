"""The committed environments and variations of them, with their config in the engine's form."""

from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.stacks.definition import settings
from gpu_cluster.stacks.definition.files import ROOT, stack_file


def values_of(stack: str) -> dict[str, Any]:
    """The stack file's config as parsed YAML."""
    return _values(stack_file(ROOT, stack))


def platform_of(stack: str) -> str:
    """The environment's platform."""
    return platform_at(stack_file(ROOT, stack))


def platform_at(file: Path) -> str:
    """The platform in a stack file."""
    return settings.platform_of(_values(file))


def _values(file: Path) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(file.read_text())["config"]
    return config
