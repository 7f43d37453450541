"""The state after a failed, perhaps partial, update, as Terraform's SDK leaves it.

A property that is None was not created.
"""

import typing
from collections import abc
from collections.abc import Collection, Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.cloud.schema import element_of, plain


def partial(
    old: Mapping[str, Any],
    planned: Mapping[str, Any],
    kinds: Mapping[str, Any],
    sets: Collection[str],
    parent: str = "",
) -> dict[str, Any]:
    """The old state, if the provider requested that (`d.Partial(true)`). Sets nevertheless have
    their planned value, and so does a top-level map that had none (helper/schema/grpc_provider.go,
    normalizeNullValues; resource_data.go, State). `kinds`: property -> type; `sets`: patterns."""
    kept = dict.fromkeys(planned) | dict(old)
    for name, value in planned.items():
        pattern = f"{parent}.{name}" if parent else name
        kind, before = plain(kinds.get(name)), old.get(name)
        if pattern in sets or (not parent and not before and _is_map(kind)):
            kept[name] = value
        elif isinstance(before, Mapping) and isinstance(value, Mapping):
            if sdk.is_output_type(kind):
                kept[name] = partial(before, value, sdk.output_types(kind), sets, pattern)
        elif isinstance(before, list) and isinstance(value, list) and len(before) == len(value):
            element = element_of(kind)
            if element and sdk.is_output_type(element):
                inner = sdk.output_types(element)
                kept[name] = [
                    partial(*both, inner, sets, f"{pattern}[]")
                    for both in zip(before, value, strict=True)
                ]
    return kept


def _is_map(kind: Any) -> bool:
    return typing.get_origin(kind) in (dict, abc.Mapping)
