"""Reads the properties of an SDK's classes, in one thread at a time.

An SDK loads its modules on first access. Before Python 3.12, another thread may see a module half
loaded: `importlib.util.LazyLoader` had no lock (cpython issue 114763).
"""

import importlib
import threading
import typing
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pulumi import _types
from pulumi._types import _PULUMI_NAME

_LOADING = threading.RLock()


def members(module: str, *names: str) -> list[Any]:
    """The members of an SDK's module with these names; None for a missing one.

    Raises ImportError if there is no such module.
    """
    with _LOADING:
        found: ModuleType = importlib.import_module(module)
        return [getattr(found, name, None) for name in names]


def input_types(kind: type) -> Mapping[str, Any]:
    """The types of an input class's properties, by their names in the engine."""
    with _LOADING:
        return _types.input_type_types(kind)


def input_names(kind: type) -> Mapping[str, str]:
    """The names of an input class's properties in Python -> in the engine."""
    with _LOADING:
        return _types.input_type_py_to_pulumi_names(kind)


def output_types(kind: type) -> Mapping[str, Any]:
    """Like `input_types`, for an output class."""
    with _LOADING:
        return _types.output_type_types(kind)


def resource_types(resource: type) -> Mapping[str, Any]:
    """The types of a resource's properties, by their names in the engine."""
    with _LOADING:
        return _types.resource_types(resource)


def always_set(resource: type) -> frozenset[str]:
    """A resource's properties whose output is never None."""
    with _LOADING:
        getters = [field.fget for field in vars(resource).values() if isinstance(field, property)]
        return frozenset(
            getattr(getter, _PULUMI_NAME, getter.__name__)
            for getter in getters
            if getter and not _optional(getter.__annotations__.get("return"))
        )


def _optional(output: Any) -> bool:
    """Whether this is `Output[X | None]`."""
    return any(type(None) in typing.get_args(inner) for inner in typing.get_args(output))


def is_input_type(kind: Any) -> bool:
    """Whether this is an input class."""
    return isinstance(kind, type) and _types.is_input_type(kind)


def is_output_type(kind: Any) -> bool:
    """Whether this is an output class."""
    return isinstance(kind, type) and _types.is_output_type(kind)
