"""Pulumi's property values as gRPC carries them: JSON in which secrets and unknowns are marked.

The handshake does not request resource references and output values, so none are sent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.struct_pb2 import Struct, Value

from rehearsal.plugins.cloud import wire

Properties = dict[str, Any]
"""JSON values, `Secret` and `UNKNOWN`."""

_UNKNOWNS = {
    wire.UNKNOWN,
    "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
    "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
    "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
    "030794c1-ac77-496b-92df-f27374a8bd58",
    "e48ece36-62e2-4504-bad9-02848725956a",
    "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
}
"""One for each type that the value may have."""


class Unknown:
    """A value that a preview cannot know."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that the state keeps encrypted."""

    value: Any


def decode(struct: Struct) -> Properties:
    """The properties of a request; nulls are dropped, as in the official provider."""
    return {
        name: value for name, sent in struct.fields.items() if (value := _decode(sent)) is not None
    }


def _decode(sent: Value) -> Any:
    kind = sent.WhichOneof("kind")
    if kind == "struct_value":
        if sent.struct_value.fields.get(wire.SIGNATURE, Value()).string_value == wire.SECRET:
            return Secret(_decode(sent.struct_value.fields["value"]))
        return decode(sent.struct_value)
    if kind == "list_value":
        return [_decode(item) for item in sent.list_value.values]
    if kind == "string_value":
        return UNKNOWN if sent.string_value in _UNKNOWNS else sent.string_value
    if kind == "number_value":
        number = sent.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return sent.bool_value
    return None


def encode(properties: Properties) -> Struct:
    """The inverse of `decode`."""
    struct = Struct()
    struct.update(_encode(properties))
    return struct


def _encode(value: Any) -> Any:
    if isinstance(value, Secret):
        return {wire.SIGNATURE: wire.SECRET, "value": _encode(value.value)}
    if isinstance(value, Unknown):
        return wire.UNKNOWN
    if isinstance(value, dict):
        return {name: _encode(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_encode(item) for item in value]
    return value


def plain(value: Any) -> Any:
    """A copy without secret marks; unknown values are kept."""
    if isinstance(value, Secret):
        return plain(value.value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def has_unknown(value: Any) -> bool:
    """Whether it contains an unknown value."""
    if isinstance(value, Secret):
        return has_unknown(value.value)
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return isinstance(value, Unknown)


def mark_secrets(value: Any, like: Any) -> Any:
    """`value` with a secret wherever `like` has one at the same path."""
    if isinstance(like, Secret):
        return value if isinstance(value, Secret) else Secret(value)
    if isinstance(value, dict) and isinstance(like, dict):
        return {name: mark_secrets(item, like.get(name)) for name, item in value.items()}
    if isinstance(value, list) and isinstance(like, list):
        marks = [*like, *[None] * len(value)]
        return [mark_secrets(item, mark) for item, mark in zip(value, marks, strict=False)]
    return value


def rename_keys(value: Any, rename: Callable[[str], str]) -> Any:
    """A copy in which `rename` was applied to every object key."""
    if isinstance(value, Secret):
        return Secret(rename_keys(value.value, rename))
    if isinstance(value, dict):
        return {rename(name): rename_keys(item, rename) for name, item in value.items()}
    if isinstance(value, list):
        return [rename_keys(item, rename) for item in value]
    return value
