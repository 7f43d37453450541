"""Schemas of a rule's settings."""

from collections.abc import Mapping
from typing import Any

LEVEL = "enforcementLevel"
"""The setting that every rule has, under the engine's name."""


def texts(*default: str, about: str) -> Mapping[str, Any]:
    """The schema of a list of texts."""
    return {
        "type": "array",
        "items": {"type": "string"},
        "default": list(default),
        "description": about,
    }


def prefix(default: int, about: str) -> Mapping[str, Any]:
    """The schema of the length of an IPv4 network's prefix, in bits."""
    return {
        "type": "integer", "minimum": 0, "maximum": 32, "default": default, "description": about,
    }  # fmt: skip


def exempt() -> Mapping[str, Any]:
    """The schema of pods that are exempt from controls."""
    return {
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
        "default": {},
        "description": "Pattern of `namespace/kind/name` -> controls that such pods need not keep.",
    }
