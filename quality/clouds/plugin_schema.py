"""What an official plugin's schema says of a resource type: which inputs replace it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from rehearsal.plugins import official

_MOST_BYTES = 512 << 20
"""Of a schema; that of AWS has more than a hundred megabytes."""

Node = Mapping[str, Any]


def ask(program: Path) -> Node:
    """The schema of a plugin, as it answers GetSchema. Raises CheckError."""
    options = [("grpc.max_receive_message_length", _MOST_BYTES)]
    with (
        official.running(program, {}) as port,
        grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel,
    ):
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        schema: Node = json.loads(stub.GetSchema(provider_pb2.GetSchemaRequest()).schema)
        return schema


def source(schema: Node) -> str:
    """What the rows are read from."""
    return f"the official plugin {schema['name']} {schema['version']}'s schema"


def row(schema: Node, token: str) -> dict[str, Any]:
    """The inputs that replace a resource of this type: `willReplaceOnChanges`."""
    found = list(_replacing(schema, schema["resources"][token]["inputProperties"], "", ()))
    return {"immutable": found} if found else {}


def _replacing(
    schema: Node, properties: Node, parent: str, above: tuple[str, ...]
) -> Iterator[str]:
    for name, each in properties.items():
        path, kind = f"{parent}{name}", each
        if each.get("willReplaceOnChanges"):
            yield path
        while "items" in kind:
            path, kind = f"{path}[]", kind["items"]
        reference = kind.get("$ref", "").removeprefix("#/types/")
        inner = schema.get("types", {}).get(reference, {}).get("properties", {})
        if reference not in above:
            yield from _replacing(schema, inner, f"{path}.", (*above, reference))
