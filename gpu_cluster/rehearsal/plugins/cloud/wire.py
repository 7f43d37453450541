"""Property values between the engine's protobuf structs and plain Python values."""

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import struct_pb2

# The engine's signatures: https://github.com/pulumi/pulumi/blob/master/sdk/go/common/resource/sig
SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""The placeholder in a preview for a value that is not known yet."""
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"


def decode(struct: struct_pb2.Struct, *, secrets: bool = False) -> dict[str, Any]:
    """The properties as plain values, integers as int. Outputs are unwrapped; secrets are too,
    unless `secrets`, which keeps the engine's mark (`secret`)."""
    return {name: _decode(value, secrets) for name, value in struct.fields.items()}


def _decode(value: struct_pb2.Value, secrets: bool) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "struct_value":
        fields = decode(value.struct_value, secrets=secrets)
        if is_secret(fields) and not secrets:
            return fields.get("value")
        if fields.get(SIGNATURE) == _OUTPUT:
            return fields.get("value", UNKNOWN)
        return fields
    if kind == "list_value":
        return [_decode(element, secrets) for element in value.list_value.values]
    return getattr(value, kind) if kind in ("string_value", "bool_value") else None


def encode(properties: Mapping[str, Any], *, nulls: bool = False) -> struct_pb2.Struct:
    """The properties for the engine; None values are omitted, unless `nulls`."""
    struct = struct_pb2.Struct()
    struct.update(properties if nulls else _without_nulls(properties))
    return struct


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    return [_without_nulls(item) for item in value]


def mark_secrets(properties: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """The properties with the values at `paths` (`masterAuth.clientKey`) wrapped as secrets."""
    marked = dict(properties)
    for path in paths:
        name, _, rest = path.partition(".")
        value = marked.get(name)
        if value is None:
            continue
        if rest:
            marked[name] = mark_secrets(value, [rest]) if isinstance(value, Mapping) else value
        else:
            marked[name] = secret(value)
    return marked


def secret(value: Any) -> dict[str, Any]:
    """The value with the mark by which the engine keeps it encrypted."""
    return {SIGNATURE: SECRET, "value": value}


def is_secret(value: Any) -> bool:
    """Whether a value has that mark."""
    return isinstance(value, Mapping) and value.get(SIGNATURE) == SECRET
