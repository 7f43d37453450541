"""The inputs that a typed Kubernetes resource accepts, read from the SDK's input classes.

Custom resources have no class here; the API server checks them against their definition.
"""

import collections.abc
import difflib
import functools
import inspect
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal, Union

import pulumi

from rehearsal.plugins import sdk
from rehearsal.plugins.kubernetes.differences import Path
from rehearsal.plugins.kubernetes.differences import text as path_text
from rehearsal.plugins.kubernetes.objects import Kind
from rehearsal.plugins.kubernetes.wire import Properties, Secret, Unknown


@functools.cache
def input_class(token: str) -> type | None:
    """The class of a resource's inputs, by type token; None if the SDK has none."""
    _, module_name, name = token.split(":")
    group, _, version = module_name.rpartition("/")
    try:
        resource, init_args, args = sdk.members(
            f"pulumi_kubernetes.{group.split('.')[0]}.{version}",
            name,
            f"{name}InitArgs",
            f"{name}Args",
        )
    except ImportError:
        return None
    if getattr(resource, "pulumi_type", None) != token:
        return None  # a custom resource whose group only starts like a built-in one
    found = init_args or args
    return found if isinstance(found, type) else None


def class_of(kind: Kind) -> type | None:
    """The class of a kind's inputs; None if it is not a built-in kind."""
    return input_class(f"kubernetes:{kind.group or 'core'}/{kind.version}:{kind.kind}")


def is_builtin(kind: Kind) -> bool:
    """Whether the kind is built in, that is, whether the SDK has a class for it."""
    return class_of(kind) is not None


@functools.cache
def fields(struct: type) -> dict[str, list[Any]]:
    """The types that each property of an input class may have; [] is any."""
    return {name: _options(kind) for name, kind in sdk.input_types(struct).items()}


def items(options: list[Any]) -> list[Any]:
    """The types of a list's items, if one of these types is a list."""
    sequence = _generic(options, collections.abc.Sequence)
    return [] if sequence is None else _options(typing.get_args(sequence)[0])


def is_text(options: list[Any]) -> bool:
    """Whether one of these types is text, or a map of texts."""
    mapping = _generic(options, collections.abc.Mapping)
    return str in (options if mapping is None else _options(typing.get_args(mapping)[1]))


def faults(token: str, properties: Properties) -> Iterator[tuple[str, str]]:
    """Each invalid property's path and the reason, in one line."""
    wanted = input_class(token)
    if wanted is not None:
        yield from _faults((), properties, wanted)


def _faults(path: Path, value: Any, wanted: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Secret):
        value = value.value
    options = _options(wanted)
    if value is None or isinstance(value, Unknown) or not options:
        return
    if isinstance(value, dict):
        if (struct := next(filter(sdk.is_input_type, options), None)) is not None:
            yield from _struct_faults(path, value, struct)
        elif (mapping := _generic(options, collections.abc.Mapping)) is not None:
            for name, item in value.items():
                yield from _faults((*path, name), item, typing.get_args(mapping)[1])
        elif dict not in options:
            yield path_text(path), f"an object is given, {_names(options)} is wanted"
    elif isinstance(value, list):
        if (sequence := _generic(options, collections.abc.Sequence)) is not None:
            for index, item in enumerate(value):
                yield from _faults((*path, index), item, typing.get_args(sequence)[0])
        else:
            yield path_text(path), f"a list is given, {_names(options)} is wanted"
    else:
        yield from _scalar_faults(path, value, options)


def _struct_faults(path: Path, value: Properties, struct: type) -> Iterator[tuple[str, str]]:
    fields = sdk.input_types(struct)
    for name, item in value.items():
        if name in fields:
            yield from _faults((*path, name), item, fields[name])
        else:
            near = difflib.get_close_matches(name, fields) or sorted(fields)
            yield path_text((*path, name)), f"unknown property: use {' or '.join(near)}"
    for name in sorted(required(struct) - value.keys()):
        yield path_text((*path, name)), "missing: this property is required"


def _scalar_faults(path: Path, value: Any, options: list[Any]) -> Iterator[tuple[str, str]]:
    allowed = [item for option in options for item in _literals(option)]
    if allowed and value not in allowed:
        yield path_text(path), f"{value!r} is given, {' or '.join(map(repr, allowed))} is wanted"
    elif not allowed and not any(_fits(value, option) for option in options):
        yield path_text(path), f"{value!r} is given, {_names(options)} is wanted"


def _fits(value: Any, option: Any) -> bool:
    if option is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if option is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(option, type) and isinstance(value, option)


def _options(wanted: Any) -> list[Any]:
    """The types that a property may have, without the wrappers of `pulumi.Input`; [] is any."""
    if wanted is Any:
        return []
    if typing.get_origin(wanted) not in (Union, types.UnionType):
        return [wanted]
    found: list[Any] = []
    for option in typing.get_args(wanted):
        origin = typing.get_origin(option) or option
        if origin in (collections.abc.Awaitable, pulumi.Output, type(None)):
            continue
        if not (inner := _options(option)):
            return []
        found.extend(inner)
    return found


def _generic(options: list[Any], origin: type) -> Any:
    return next((option for option in options if typing.get_origin(option) is origin), None)


def _literals(option: Any) -> tuple[Any, ...]:
    return typing.get_args(option) if typing.get_origin(option) is Literal else ()


@functools.cache
def required(struct: type) -> frozenset[str]:
    """The required properties of an input class."""
    wire = sdk.input_names(struct)
    parameters = list(inspect.signature(struct.__init__).parameters.values())[1:]  # type: ignore[misc]
    needed = [each.name for each in parameters if each.default is inspect.Parameter.empty]
    return frozenset(wire[name] for name in needed if name in wire)


def _names(options: list[Any]) -> str:
    """The names of the types in YAML."""
    words = {str: "a string", int: "an integer", float: "a number", bool: "a boolean"}
    kinds = {collections.abc.Sequence: "a list", collections.abc.Mapping: "an object"}
    return " or ".join(
        words.get(option) or kinds.get(typing.get_origin(option) or option) or "an object"
        for option in options
    )
