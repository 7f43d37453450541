"""Google's own definitions of its APIs: the discovery documents in its API client's wheel.

Paths are ours, in camelCase with `[]` for list elements; a step finds the field of the same
letters, in the singular or plural.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from googleapiclient.discovery_cache import get_static_doc

Node = Mapping[str, Any]


@cache
def schemas(api: str) -> Node:
    """Schema name -> schema, of e.g. `container v1beta1`."""
    text = get_static_doc(*api.split())
    assert text, f"there is no document of {api}"
    return dict(json.loads(text)["schemas"])


def field_at(api: str, schema: str, path: str, *, exact: bool = False) -> Node | None:
    """The field at `a.b[].c`; None where there is none. `exact`: the names are the API's own."""
    at: Node = schemas(api)[schema]
    for step in path.split("."):
        at = _whole(api, at)
        if at.get("type") == "array" and not step.startswith("["):
            at = _whole(api, at["items"])
        if "additionalProperties" in at:
            at = at["additionalProperties"]
            continue
        name = step.removesuffix("[]")
        if not exact:
            name = _same(at.get("properties", {}), name) or name
        if name not in at.get("properties", {}):
            return None
        at = at["properties"][name]
        if step.endswith("[]") and at.get("type") == "array":
            at = _whole(api, at["items"])
    return _whole(api, at)


def _whole(api: str, at: Node) -> Node:
    return schemas(api)[at["$ref"]] if "$ref" in at else at


def _same(names: Node, wanted: str) -> str | None:
    for candidate in (wanted, f"{wanted}s", wanted.removesuffix("s"), wanted.removesuffix("es")):
        for name in names:
            if name.lower() == candidate.lower():
                return name
    return None
