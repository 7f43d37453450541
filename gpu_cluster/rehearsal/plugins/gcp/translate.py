"""Translates the provider's properties to the API's fields and back, by Google's API documents.

Most have the same name, or a list is plural here and singular there; `renamed` has the rest. A
block that is a list in the API becomes its only element, and vice versa.
"""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.clouds.rows.google import Names
from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError
from gpu_cluster.rehearsal.plugins.cloud.schema import element_of, plain
from gpu_cluster.tools.google_discovery import Document


def to_api(document: Document, schema: str, inputs: Mapping[str, Any], renamed: Names) -> Any:
    """The body of a request. Raises CloudError for a property without a field."""
    return _to_api(document, {"$ref": schema}, inputs, renamed, "")


def _to_api(
    document: Document, kind: Mapping[str, Any], value: Any, renamed: Names, path: str
) -> Any:
    kind = document.schemas[kind["$ref"]] if "$ref" in kind else kind
    if isinstance(value, Mapping) and "items" in kind:
        return [_to_api(document, kind["items"], value, renamed, path)]
    if isinstance(value, list) and "properties" in kind:
        return _to_api(document, kind, value[0], renamed, f"{path}[]") if value else None
    if isinstance(value, list) and "items" in kind:
        return [
            _to_api(document, kind["items"], inner, renamed, f"{path}[]")
            for inner in value
            if inner is not None
        ]
    if isinstance(value, Mapping) and "properties" in kind:
        body: dict[str, Any] = {}
        for name, item in value.items():
            inner = f"{path}.{name}" if path else name
            field = renamed.get(inner, name)
            if inner not in renamed and name not in kind["properties"]:
                field = _singular(name)
            if field is not None and item is not None:
                _put(document, kind, body, field, item, renamed, inner)
        return body
    if kind.get("type") == "string" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # 64-bit integers are strings
    return value


def _put(
    document: Document,
    kind: Mapping[str, Any],
    body: dict[str, Any],
    field: str,
    value: Any,
    renamed: Names,
    path: str,
) -> None:
    first, _, rest = field.partition(".")
    inner = kind.get("properties", {}).get(first)
    if inner is None:
        raise CloudError(f"the offline plugin does not know the API's field for '{path}'")
    if rest:
        block = document.schemas[inner["$ref"]] if "$ref" in inner else inner
        _put(document, block, body.setdefault(first, {}), rest, value, renamed, path)
    else:
        body[first] = _to_api(document, inner, value, renamed, path)


def from_api(kinds: Mapping[str, Any], body: Mapping[str, Any], renamed: Names) -> dict[str, Any]:
    """The properties in a body, with the SDK's types (`schema.resource_schema`)."""
    return _block(kinds, body, renamed, "")


def _block(
    kinds: Mapping[str, Any], body: Mapping[str, Any], renamed: Names, path: str
) -> dict[str, Any]:
    found = {}
    for name, kind in kinds.items():
        inner = f"{path}.{name}" if path else name
        field = renamed.get(inner, name)
        value = at(body, field) if field is not None else None
        if value is None and inner not in renamed:
            value = body.get(_singular(name)) if element_of(plain(kind)) else None
            value = value if isinstance(value, list | Mapping) else None
        if value is not None:
            value = _from_api(plain(kind), value, renamed, inner)
        if value is not None:
            found[name] = value
    return found


def at(body: Mapping[str, Any], field: str) -> Any:
    """The value at a path of fields; None if there is none."""
    first, _, rest = field.partition(".")
    value = body.get(first)
    return at(value, rest) if rest and isinstance(value, Mapping) else None if rest else value


def _from_api(kind: Any, value: Any, renamed: Names, path: str) -> Any:
    if (element := element_of(kind)) and isinstance(value, list):
        return [_from_api(element, inner, renamed, f"{path}[]") for inner in value]
    if sdk.is_output_type(element) and isinstance(value, Mapping):
        return [_from_api(element, value, renamed, f"{path}[]")]
    if sdk.is_output_type(kind) and isinstance(value, list):
        return _from_api(kind, value[0], renamed, path) if value else None
    if sdk.is_output_type(kind) and isinstance(value, Mapping):
        return _block(sdk.output_types(kind), value, renamed, path)
    if kind is int and isinstance(value, str):
        return int(value)
    if kind is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _singular(name: str) -> str:
    """The singular, by the rules with which Pulumi's bridge pluralises the names of lists."""
    return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")
