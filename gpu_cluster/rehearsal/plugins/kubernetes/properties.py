"""A resource's property values: JSON, in which secrets have the engine's mark and unknown values
are `UNKNOWN`."""

from collections.abc import Callable
from typing import Any

from google.protobuf.struct_pb2 import Struct

from gpu_cluster.rehearsal.plugins.cloud import wire
from gpu_cluster.rehearsal.plugins.cloud.wire import UNKNOWN, is_secret, secret

Properties = dict[str, Any]

__all__ = [
    "UNKNOWN", "Properties", "decode", "has_unknown", "mark_secrets", "plain", "rename_keys",
]  # fmt: skip


def decode(struct: Struct) -> Properties:
    """The properties of a request; nulls are dropped, as in the official provider."""
    properties: Properties = _without_nulls(wire.decode(struct, secrets=True))
    return properties


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def plain(value: Any) -> Any:
    """A copy without secret marks; unknown values are kept."""
    if is_secret(value):
        return plain(value["value"])
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def has_unknown(value: Any) -> bool:
    """Whether it contains an unknown value."""
    if isinstance(value, dict):
        return any(map(has_unknown, value.values()))
    return any(map(has_unknown, value)) if isinstance(value, list) else value == UNKNOWN


def mark_secrets(value: Any, like: Any) -> Any:
    """`value` with a secret wherever `like` has one at the same path."""
    if is_secret(like):
        return value if is_secret(value) else secret(value)
    if isinstance(value, dict) and isinstance(like, dict):
        return {name: mark_secrets(item, like.get(name)) for name, item in value.items()}
    if isinstance(value, list) and isinstance(like, list):
        marks = [*like, *[None] * len(value)]
        return [mark_secrets(item, mark) for item, mark in zip(value, marks, strict=False)]
    return value


def rename_keys(value: Any, rename: Callable[[str], str]) -> Any:
    """A copy in which `rename` was applied to every object key."""
    if isinstance(value, dict):
        return {rename(name): rename_keys(item, rename) for name, item in value.items()}
    return [rename_keys(item, rename) for item in value] if isinstance(value, list) else value
