"""A resource's state as a plugin would have written it on creation."""

import typing
from collections import abc
from collections.abc import Callable, Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, element_of, plain, resource_schema


def from_preview(token: str, preview: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """A preview's outputs, with an empty value of its type for each unknown one."""
    kinds = resource_schema(token).kinds
    state = {name: _filled(value, plain(kinds.get(name))) for name, value in preview().items()}
    return {**state, "id": "an-id"}


def kubernetes_object(token: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The object as declared, with the provider's own fields."""
    metadata = inputs.get("metadata", {})
    return {
        **inputs,
        "__inputs": dict(inputs),
        "__initialApiVersion": inputs.get("apiVersion"),
        "__fieldManager": "pulumi-kubernetes-00000000",
        "id": "/".join(filter(None, (metadata.get("namespace"), metadata.get("name")))),
    }


def _filled(value: Any, kind: Any) -> Any:
    element = element_of(kind)
    if value == UNKNOWN:
        if element:
            return []
        if typing.get_origin(kind) in (dict, abc.Mapping):
            return {}
        return {bool: False, int: 0, float: 0.0, str: ""}.get(kind)
    if isinstance(value, list) and element:
        return [_filled(inner, element) for inner in value]
    if isinstance(value, Mapping) and sdk.is_output_type(kind):
        kinds = sdk.output_types(kind)
        return {name: _filled(item, plain(kinds.get(name))) for name, item in value.items()}
    return value
