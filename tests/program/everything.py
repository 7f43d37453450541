"""`everything.yaml`: for each scaler a stack with all that it can do, own and existing cluster."""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

_STACKS: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())


def config_of(stack: str) -> dict[str, Any]:
    """The stack's config, as a stack file has it."""
    config: dict[str, Any] = {}
    for layer in _layers(stack):
        _merge(config, layer)
    return config


def _layers(stack: str) -> Iterator[Mapping[str, Any]]:
    own = dict(_STACKS[stack])
    for other in own.pop("like", ()):
        yield from _layers(other)
    yield own


def _merge(config: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if value == "absent":
            config.pop(key, None)
        elif isinstance(value, Mapping):
            if not isinstance(config.get(key), dict):
                config[key] = {}
            _merge(config[key], value)
        else:
            config[key] = copy.deepcopy(value)


EVERYTHING = [
    stack for stack in _STACKS if "platform" in config_of(stack).get("gpu-cluster:cluster", ())
]
"""The stacks; those that others are only derived from have no platform."""
