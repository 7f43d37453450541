"""The JSON Schema of `Pulumi.<environment>.yaml`, which `make docs` writes.

It is generated from the classes to which the settings are decoded, like the table of keys. An
editor with a YAML language server uses it to complete keys, show their meaning and underline
errors. The program itself does not read it: it refuses more, such as contradictory settings.
"""

import dataclasses
import json
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.eks.provider_args import ENVIRONMENT_INSTEAD
from gpu_cluster.components.eks.regions import REGION
from gpu_cluster.components.gke.sign_in import PROJECT
from gpu_cluster.components.platforms import PLATFORMS, WRITTEN
from gpu_cluster.components.schema.decode import camel
from gpu_cluster.components.schema.limits import DNS_LABEL, fragment, pattern, unwrapped, words
from gpu_cluster.components.schema.outputs import NAMED
from gpu_cluster.components.settings.blocks import BLOCKS, ENTRY_NAMES
from gpu_cluster.stacks.definition.files import KEYS
from gpu_cluster.tools.sections import REFERENCE
from quality import keys

FILE = REFERENCE / "stack.schema.json"
CLUSTER = "gpu-cluster:cluster"
_SECRET = {
    "type": "object",
    "properties": {"secure": {"type": "string"}},
    "required": ["secure"],
    "additionalProperties": False,
}
_PROVIDERS = {"gcp:project": PROJECT.fragment, "aws:region": pattern(REGION)}
"""Keys of the providers' own config that the program reads, all of them strings."""
_ASSUMED_ROLES = {
    "type": "array",
    "maxItems": 1,
    "items": {"type": "object", "required": ["roleArn"], "properties": {"externalId": False}},
}
"""`aws:assumeRoles`, of which `aws eks get-token` can assume only one."""

Schema = dict[str, Any]


def schema() -> Schema:
    """The complete schema, in draft 7, which editors' language servers support."""
    rooms = dict(_rooms())
    platforms = sorted(PLATFORMS)
    common = {room: found for (platform, room), found in rooms.items() if not platform}
    config: Schema = {
        "type": "object",
        "required": [CLUSTER],
        "properties": {
            **{key: _text(limit) for key, limit in _PROVIDERS.items()},
            "aws:assumeRoles": _ASSUMED_ROLES,
            CLUSTER: {
                "type": "object",
                "required": ["platform"],
                "properties": {
                    "platform": {
                        "enum": sorted(WRITTEN),
                        "description": "Whose cluster: it decides which other keys there are.",
                    }
                },
            },
            "gpu-cluster:gpuPools": {"type": "object"},
            **{f"gpu-cluster:{room}": found for room, found in common.items()},
        },
        # The program does not know the keys of other providers and projects.
        "patternProperties": {"^(?!gpu-cluster:)": True},
        "additionalProperties": False,
        "allOf": [_platform(platform, rooms) for platform in platforms],
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Stack file of gpu-cluster",
        "description": "Pulumi.<environment>.yaml, as make docs reads it from the settings.",
        "type": "object",
        "required": ["config"],
        "properties": {**dict.fromkeys(KEYS, True), "config": config},
        "additionalProperties": False,
        "definitions": {"secret": _SECRET},
    }


def _rooms() -> Iterator[tuple[tuple[str, str], Schema]]:
    """(platform or "", config key) -> the schema of its value."""
    for platform, row in PLATFORMS.items():
        cluster = dataclass_schema(row.settings.CLUSTER)
        written = {"platform": {"const": platform.removesuffix("-existing")}}
        cluster["properties"] = written | cluster["properties"]
        cluster["required"] = ["platform", *cluster.get("required", ())]
        yield (platform, "cluster"), cluster
        pools = _named("gpuPools", row.settings.POOL)
        for key in keys.refused(row.settings.CLUSTER, row.settings.POOL):
            del pools["additionalProperties"]["properties"][key]
        yield (platform, "gpuPools"), pools
    for key, block in BLOCKS.items():
        named = block.names is not None
        yield ("", key), _named(key, block.args) if named else dataclass_schema(block.args)


def _named(key: str, kind: type) -> Schema:
    """The schema of a block whose entries have names."""
    return {
        "type": "object",
        "propertyNames": fragment(ENTRY_NAMES[key], "Length"),
        "additionalProperties": dataclass_schema(kind),
    }


def _platform(platform: str, rooms: Mapping[tuple[str, str], Schema]) -> Schema:
    """The schema for a cluster on this platform."""
    own: Schema = {
        f"gpu-cluster:{room}": found for (of, room), found in rooms.items() if of == platform
    }
    if PLATFORMS[platform].cloud == "aws":
        own |= {f"aws:{key}": False for key in ENVIRONMENT_INSTEAD}
    then: Schema = {"properties": own}
    if cloud := CLOUDS.get(PLATFORMS[platform].cloud or ""):
        home = PLATFORMS[platform].home
        then["required"] = [key for key in home if key.startswith(f"{cloud.package}:")]
    written = platform.removesuffix("-existing")
    named: Schema = {"type": "object", "properties": {"platform": {"const": written}}}
    named["required"] = ["platform", *(["existing"] if written != platform else [])]
    if f"{platform}-existing" in PLATFORMS:
        named["not"] = {"required": ["existing"]}
    return {"if": {"required": [CLUSTER], "properties": {CLUSTER: named}}, "then": then}


def dataclass_schema(kind: type) -> Schema:
    """The schema of a dataclass: its keys, and no others."""
    hints = typing.get_type_hints(kind, include_extras=True)
    meanings = keys.meanings(kind)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    properties = {}
    for field in fields:
        found = _value(hints[field.name])
        if meaning := meanings.get(field.name):
            found["description"] = meaning
        properties[camel(field.name)] = found | _default(field)
    needed = [
        camel(field.name)
        for field in fields
        if field.default is field.default_factory is dataclasses.MISSING
    ]
    return {
        "type": "object",
        "properties": properties,
        **({"required": needed} if needed else {}),
        "additionalProperties": False,
    }


def _value(hint: Any) -> Schema:
    """The schema of a value in a field."""
    if short := words(hint):
        return {"anyOf": [_value(part) for part in short]}
    hint, limits = unwrapped(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    entries = {Mapping: "Properties", str: "Length"}.get(origin or hint, "Items")
    limit = fragment(limits, entries)
    if origin is typing.Literal:
        return {"enum": list(limit.get("enum", inner))}
    if origin is Mapping:
        inner_ = _value(inner[1])
        allowed = fragment(unwrapped(inner[0])[1], "Length")
        named = {"propertyNames": allowed} if allowed else {}
        return {"type": "object", "additionalProperties": inner_} | named | limit
    if origin is Sequence:
        inner_ = _value(inner[0])
        if NAMED in limits:
            names = {"propertyNames": fragment([DNS_LABEL], "Length")}
            by_name = {"type": "object", "additionalProperties": inner_} | names
            named_limit = {"minProperties": 1} if "minItems" in limit else {}
            return {"anyOf": [{"type": "array", "items": inner_} | limit, by_name | named_limit]}
        return {"type": "array", "items": inner_} | limit
    if dataclasses.is_dataclass(hint):
        return dataclass_schema(typing.cast("type", hint)) | limit
    if hint is str:
        return _text(limit)
    if "enum" in limit:
        return {"enum": limit["enum"]}
    return {"type": keys.TYPES[hint]} | limit


def _text(limit: Mapping[str, Any]) -> Schema:
    """The schema of a string, which may be encrypted unless it is in a list."""
    if "enum" in limit:
        return {"enum": limit["enum"]}
    return {
        "if": {"type": "object"},
        "then": {"$ref": "#/definitions/secret"},
        "else": {"type": "string", **limit},
    }


def _default(field: "dataclasses.Field[Any]") -> Schema:
    """The default, if it is a value that a file can contain and that is informative."""
    value = field.default
    if isinstance(value, tuple) and value and all(isinstance(item, str) for item in value):
        return {"default": list(value)}
    return {"default": value} if isinstance(value, str | bool | int | float) else {}


def stack_schema_text() -> str:
    """The schema in the file's format."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
