"""Reads the properties of an SDK's classes, in one thread at a time.

An SDK loads its parts when they are first looked at. Before Python 3.12 another thread may see such
a part half loaded: `importlib.util.LazyLoader` had no lock (cpython issue 114763).
"""

import importlib
import threading
import typing
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pulumi import _types

_LOADING = threading.RLock()


def members(module: str, *names: str) -> list[Any]:
    """The member of an SDK's module with this name, None if it has none.

    Raises ImportError if there is no such module.
    """
    with _LOADING:
        found: ModuleType = importlib.import_module(module)
        return [getattr(found, name, None) for name in names]


def input_types(kind: type) -> Mapping[str, Any]:
    """Property, as the engine spells it, -> type."""
    with _LOADING:
        return _types.input_type_types(kind)


def input_names(kind: type) -> Mapping[str, str]:
    """Name of a property in Python -> as the engine spells it."""
    with _LOADING:
        return _types.input_type_py_to_pulumi_names(kind)


def output_types(kind: type) -> Mapping[str, Any]:
    """As `input_types`, of a class of outputs."""
    with _LOADING:
        return _types.output_type_types(kind)


def resource_types(resource: type) -> Mapping[str, Any]:
    """Property of a resource, as the engine spells it, -> type."""
    with _LOADING:
        return _types.resource_types(resource)


def always_set(resource: type) -> frozenset[str]:
    """Properties of a resource whose output is never None."""
    with _LOADING:
        getters = [each.fget for each in vars(resource).values() if isinstance(each, property)]
        return frozenset(
            getattr(getter, _types._PULUMI_NAME, getter.__name__)
            for getter in getters
            if getter and not _optional(getter.__annotations__.get("return"))
        )


def _optional(output: Any) -> bool:
    """Whether this is `Output[X | None]`."""
    return any(type(None) in typing.get_args(inner) for inner in typing.get_args(output))


def is_input_type(kind: Any) -> bool:
    """Whether this is a class of inputs."""
    return isinstance(kind, type) and _types.is_input_type(kind)


def is_output_type(kind: Any) -> bool:
    """Whether this is a class of outputs."""
    return isinstance(kind, type) and _types.is_output_type(kind)
