"""The inputs that replace a resource type, from an official plugin's schema."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from gpu_cluster.rehearsal.plugins import official

_MOST_BYTES = 512 << 20
"""The maximum size of a schema; AWS's has more than a hundred megabytes."""

Node = Mapping[str, Any]


def ask_schema(program: Path) -> Node:
    """The plugin's response to GetSchema. Raises CheckError."""
    options = [("grpc.max_receive_message_length", _MOST_BYTES)]
    with (
        official.running(program, {}) as port,
        grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel,
    ):
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        schema: Node = json.loads(stub.GetSchema(provider_pb2.GetSchemaRequest()).schema)
        return schema


def source(schema: Node) -> str:
    """The source of the rows, with its version."""
    return f"the official plugin {schema['name']} {schema['version']}'s schema"


def row(schema: Node, token: str) -> dict[str, Any]:
    """The inputs that replace a resource of this type: `willReplaceOnChanges`."""
    found = list(_replacing(schema, schema["resources"][token]["inputProperties"], "", ()))
    return {"immutable": found} if found else {}


def _replacing(
    schema: Node, properties: Node, parent: str, above: tuple[str, ...]
) -> Iterator[str]:
    for name, item in properties.items():
        path, kind = f"{parent}{name}", item
        if item.get("willReplaceOnChanges"):
            yield path
        while "items" in kind:
            path, kind = f"{path}[]", kind["items"]
        reference = kind.get("$ref", "").removeprefix("#/types/")
        inner = schema.get("types", {}).get(reference, {}).get("properties", {})
        if reference not in above:
            yield from _replacing(schema, inner, f"{path}.", (*above, reference))
