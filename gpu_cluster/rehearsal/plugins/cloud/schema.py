"""The inputs that a resource type accepts, read from the SDK's classes, and a check of them."""

import difflib
import inspect
import re
import types
import typing
from collections import abc
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.cloud.wire import UNKNOWN as UNKNOWN

_SCALARS: Mapping[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in the inputs: its path and the reason, in one line."""

    path: str
    reason: str

    @property
    def line(self) -> str:
        """The reason, prefixed by the path unless it already has it."""
        named = re.search(rf"[' :]{re.escape(self.path)}[' ]", self.reason)
        return self.reason if named else f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Block:
    """A nested object type, or a resource's inputs: property -> its type."""

    properties: Mapping[str, Any]
    required: frozenset[str]


@dataclass(frozen=True, slots=True)
class ResourceSchema:
    """A resource type's inputs, and the names of properties that only the cloud fills in."""

    inputs: Block
    output_only: frozenset[str]
    kinds: Mapping[str, Any]
    """Property -> its type in the resource's state."""
    always_set: frozenset[str]
    """Properties that have a value in every state."""

    def misshaped(self, state: Mapping[str, Any]) -> list[str]:
        """Properties that are text in the state but a map, an object or a list in the resource
        type."""
        return [
            name
            for name, value in state.items()
            if isinstance(value, str) and value != UNKNOWN and _is_structure(self.kinds.get(name))
        ]


class UnknownTypeError(Exception):
    """The SDK has no such resource type."""


@cache
def resource_schema(token: str) -> ResourceSchema:
    """The schema of a type such as `gcp:container/nodePool:NodePool`; loads only that SDK
    module."""
    package, module, name = token.split(":")
    try:
        part = f"pulumi_{package.replace('-', '_')}.{module.partition('/')[0].lower()}"
        resource, args = sdk.members(part, name, f"{name}Args")
    except ImportError:
        resource = args = None
    if resource is None or args is None:
        raise UnknownTypeError(f"the SDK pulumi_{package} has no resource type {token}")
    inputs = block(args)
    kinds = dict(sdk.resource_types(resource))
    outputs = frozenset(kinds) - frozenset(inputs.properties)
    return ResourceSchema(
        inputs=inputs, output_only=outputs, kinds=kinds, always_set=sdk.always_set(resource)
    )


def _is_structure(kind: Any) -> bool:
    if typing.get_origin(kind) in (list, dict, abc.Sequence, abc.Mapping):
        return True
    return sdk.is_output_type(kind)


@cache
def block(args: type) -> Block:
    """The block that an SDK's `<X>Args` class describes."""
    names = sdk.input_names(args)
    parameters = inspect.signature(args).parameters
    return Block(
        properties={name: plain(kind) for name, kind in sdk.input_types(args).items()},
        required=frozenset(
            pulumi_name
            for python_name, pulumi_name in names.items()
            if parameters[python_name].default is inspect.Parameter.empty
        ),
    )


def property_at(shape: Block, pattern: str) -> Any:
    """The type of the property at `a.b[].c`; None if there is none."""
    name, _, rest = pattern.partition(".")
    kind = shape.properties.get(name.removesuffix("[]"))
    kind = element_of(kind) or kind
    if not rest:
        return kind
    nested = sdk.is_input_type(kind)
    return property_at(block(kind), rest) if nested else None


def element_of(kind: Any) -> Any | None:
    """The type of a list's elements; None for any other type."""
    listed = typing.get_origin(kind) in (list, abc.Sequence)
    return plain(typing.get_args(kind)[0]) if listed else None


def plain(hint: Any) -> Any:
    """A type without the `Input`, `Optional` and dict-literal alternatives that SDKs add."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    kept = [
        member
        for member in typing.get_args(hint)
        if member is not type(None)
        and typing.get_origin(member) is not abc.Awaitable
        and "Output[" not in str(member)
        and not typing.is_typeddict(member)
    ]
    return plain(kept[0]) if len(kept) == 1 else Any if Any in kept else typing.Union[tuple(kept)]  # noqa: UP007


def fit(value: Any, kind: Any, path: str, problems: list[Problem]) -> Any:
    """Converts `value` to the form that the provider accepts; adds what does not fit `kind` to
    `problems`.

    As in the official bridge, a number or a boolean becomes a string if one is expected.
    """
    if value is None or kind is Any or (isinstance(value, str) and value == UNKNOWN):
        return value
    origin = typing.get_origin(kind)
    if origin in (list, abc.Sequence) and isinstance(value, str | int | float):
        value = [value]  # the official bridge accepts it, too
    if origin in (list, abc.Sequence) and isinstance(value, list):
        (element,) = typing.get_args(kind)
        return [
            fit(inner, plain(element), f"{path}[{index}]", problems)
            for index, inner in enumerate(value)
        ]
    if origin in (dict, abc.Mapping) and isinstance(value, dict):
        element = plain(typing.get_args(kind)[1])
        return {
            key: fit(item, element, key_path(path, key), problems) for key, item in value.items()
        }
    if sdk.is_input_type(kind) and isinstance(value, dict):
        return fit_block(value, block(kind), path, problems)
    if origin in (typing.Union, types.UnionType):
        for member in typing.get_args(kind):
            mismatches: list[Problem] = []
            fitted = fit(value, member, path, mismatches)
            if not mismatches:
                return fitted
    elif kind is str and isinstance(value, bool):
        return str(value).lower()
    elif kind is str and isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    elif _is_scalar(value, kind):
        return value
    problems.append(Problem(path, f"expected {_describe(kind)}, got {_show(value)}"))
    return value


def fit_block(
    value: Mapping[str, Any], shape: Block, path: str, problems: list[Problem]
) -> dict[str, Any]:
    """Like `fit`, for a block: every property must exist, and every required one must be given."""
    fitted = {}
    for name, item in value.items():
        inner = f"{path}.{name}" if path else name
        if name in shape.properties:
            fitted[name] = fit(item, shape.properties[name], inner, problems)
        elif not name.startswith("__"):
            hint = did_you_mean(name, shape.properties)
            problems.append(Problem(inner, f"unknown property '{inner}'{hint}"))
    for name in sorted(shape.required):
        if value.get(name) is None:
            inner = f"{path}.{name}" if path else name
            problems.append(Problem(inner, f"missing required property '{inner}'"))
    return fitted


def unread(
    package: str, known: Collection[str], read: Collection[str], inputs: Iterable[str]
) -> list[Problem]:
    """Settings of a provider's configuration that the provider does not have, or that are not read
    here."""
    return [
        Problem(name, f"a rehearsal does not simulate '{package}:{name}'")
        if name in known
        else Problem(
            name, f"the provider has no setting '{package}:{name}'{did_you_mean(name, known)}"
        )
        for name in inputs
        if name not in read and not name.startswith("__")
    ]


def did_you_mean(name: str, allowed: Collection[str]) -> str:
    """`: did you mean 'x'?`, or the properties that exist."""
    if close := difflib.get_close_matches(name, allowed, n=1):
        return f": did you mean '{close[0]}'?"
    names = sorted(allowed)
    return f": there is {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"


def _is_scalar(value: Any, kind: Any) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float)
    if isinstance(kind, type) and not sdk.is_input_type(kind):
        return isinstance(value, kind) if kind in _SCALARS else isinstance(value, str | int)
    return False


def _describe(kind: Any) -> str:
    origin = typing.get_origin(kind)
    if origin in (list, abc.Sequence):
        return "a list"
    if origin in (dict, abc.Mapping):
        return "a map"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_describe(member) for member in typing.get_args(kind))
    return _SCALARS.get(kind, "an object")


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else repr(value)


def key_path(path: str, key: str) -> str:
    """The property path of a map's entry: `labels.role`, `labels["a.b/c"]`."""
    return f"{path}.{key}" if key.replace("_", "").isalnum() else f'{path}["{key}"]'
