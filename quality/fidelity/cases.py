"""Inputs and single changes of a resource, from the SDK's types and the sample stacks.

Each input path is added, removed, changed, emptied, unknown, reordered, and given a wrong type.
Nothing is random: the same SDK and samples give the same cases.
"""

import copy
import re
import typing
from collections import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.facts import Facts
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, Block, block, element_of
from quality.fidelity.declared import Declared
from quality.fidelity.packages import Package

VALUES = Path(__file__).with_name("values.yaml")
"""Two values for each text that must have a certain form; `path` ends with the key."""

Inputs = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request: from which inputs to which. Without `before`, only `Check` and a preview."""

    of: Declared
    kind: str
    path: str
    before: Inputs | None
    after: Inputs

    @property
    def label(self) -> str:
        """A short label, the same in every run: `gcp:...:Cluster dev/gpu-dev add nodeLocations`."""
        return f"{self.of.token} {self.of.stack or '-'}/{self.of.name} {self.kind} {self.path}"


class _Nothing:
    """Stands for a value that is removed."""


NOTHING = _Nothing()
_WRONG: Mapping[type, Any] = {str: {"a": "b"}, bool: "perhaps", int: "many", float: "much"}


def all_cases(package: Package, declared: Sequence[Declared]) -> Iterator[Case]:
    """For each type, the largest resource with all paths, and the others with their own."""
    asked: set[str] = set()
    for of in sorted(declared, key=lambda case: (case.token, -len(repr(case.inputs)))):
        yield from _of_resource(package, of, given_alone=of.token in asked)
        asked.add(of.token)


def _of_resource(package: Package, of: Declared, *, given_alone: bool) -> Iterator[Case]:
    shape, known = package.shape(of.token), facts.of(of.token)
    base: Inputs = copy.deepcopy(dict(of.inputs))
    yield Case(of=of, kind="declared", path="", before=base, after=base)
    more = base | {"noSuchInput": 1}
    yield Case(of=of, kind="wrong", path="noSuchInput", before=None, after=more)
    for name in () if given_alone else NAMES:
        given = {key: value for key, value in base.items() if key not in known.auto_named}
        named = Declared(stack=of.stack, token=of.token, name=name, inputs=of.inputs)
        yield Case(of=named, kind="name", path="", before=None, after=given)
    for path, kind, needed in _paths(shape, "", of.token, package.deepest):
        if path in package.fixed:
            continue
        if not given_alone or Values.at(base, path) is not None:
            yield from _of_path(of, base, shape, known, path, kind, needed)


ELSEWHERE = {"gcp:container/cluster:Cluster": ("nodePools",)}
"""Blocks whose content is covered by another type, and that a rehearsal refuses here."""
NAMES = ("Caps", "under_score", "a" * 21, "a" * 22, "a" * 54, "a" * 55, "a" * 60, "1x", "x.y", "x-")
"""Names of resources, from which physical names are generated."""


def _paths(shape: Block, parent: str, token: str, levels: int) -> Iterator[tuple[str, Any, bool]]:
    """Every input path (`a[].b`), its type, and whether its block requires it."""
    for name, kind in shape.properties.items():
        path = f"{parent}.{name}" if parent else name
        yield path, kind, name in shape.required
        element, inner = _element(kind)
        inside = sdk.is_input_type(element) and path not in ELSEWHERE.get(token, ())
        if inside and levels > 1:
            yield from _paths(block(element), path + inner, token, levels - 1)


def _element(kind: Any) -> tuple[Any, str]:
    """The type of a list's elements and `[]`; other types are returned unchanged."""
    element = element_of(kind)
    return (element, "[]") if element else (kind, "")


def _of_path(
    of: Declared, base: Inputs, shape: Block, known: Facts, path: str, kind: Any, needed: bool
) -> Iterator[Case]:
    values = Values(of.token, known)
    left, other = values.two(path, kind)
    given = values.at(base, path)
    if isinstance(given, type(left)) or (given is not None and isinstance(left, type(given))):
        left = given
        other = next(value for value in (*values.two(path, kind), NOTHING) if value != left)

    def put(value: Any) -> Inputs:
        return values.put(base, shape, path, value)

    def case(what: str, before: Any, after: Any) -> Case:
        return Case(of=of, kind=what, path=path, before=put(before), after=put(after))

    if not needed:
        yield case("add", NOTHING, left)
        yield case("remove", left, NOTHING)
    if other is not NOTHING and other != left:
        yield case("change", left, other)
    yield case("unknown", left, UNKNOWN)
    element, listed = _element(kind)
    empty = {bool: False, int: 0, float: 0, str: ""}.get(kind, [] if listed else {})
    if empty != left:
        yield case("empty", left, empty)
    if not needed:
        yield case("add-empty", NOTHING, empty)
    if listed:
        first, second = values.two(f"{path}[]", element)
        if first != second:
            yield case("longer", [first], [first, second])
            yield case("shorter", [first, second], [first])
            yield case("reorder", [first, second], [second, first])
    elif typing.get_origin(kind) in (dict, abc.Mapping):
        yield case("longer", {"a": "x"}, {"a": "x", "b": "y"})
        yield case("shorter", {"a": "x", "b": "y"}, {"a": "x"})
    wrong = [1] if not listed and sdk.is_input_type(element) else _WRONG.get(kind, "a text")
    yield Case(of=of, kind="wrong", path=path, before=None, after=put(wrong))
    if path in known.enums or path in known.bounds or path in known.patterns:
        bad = -7 if kind in (int, float) else "no such value"
        yield Case(of=of, kind="wrong value", path=path, before=None, after=put(bad))


@cache
def _forms() -> Mapping[str, Any]:
    rows: Mapping[str, Any] = yaml.safe_load(VALUES.read_text())
    return rows


class Values:
    """Values for input paths."""

    def __init__(self, token: str, known: Facts) -> None:
        self._known = known
        rows = _forms()
        self._forms: Mapping[str, Any] = rows.get("*", {}) | rows.get(token, {})

    def two(self, path: str, kind: Any) -> tuple[Any, Any]:
        """Two different values, if the type has two."""
        for key in sorted(self._forms, key=len, reverse=True):
            if path == key or path.endswith(f".{key}"):
                first, other = self._forms[key]
                return first, other
        if path in self._known.enums:
            allowed = [value for value in self._known.enums[path] if value]
            return allowed[0], allowed[-1]
        element, listed = _element(kind)
        if listed:
            first, other = self.two(f"{path}[]", element)
            return [first], [other]
        if sdk.is_input_type(kind):
            minimal = self._minimal(block(kind), path)
            return minimal, minimal
        if typing.get_origin(kind) in (dict, abc.Mapping):
            return {"a": "x"}, {"a": "y"}
        if kind is bool:
            return True, False
        if kind in (int, float):
            low = self._known.bounds.get(path, {}).get("min", 1)
            return max(low, 1), max(low, 1) + 1
        return "a-value", "another"

    def _minimal(self, shape: Block, path: str) -> Inputs:
        """A block with its required properties, or with its first plain property if it has none."""
        found = {
            name: self.two(f"{path}.{name}", kind)[0]
            for name, kind in shape.properties.items()
            if name in shape.required
        }
        if found or not shape.properties:
            return found
        names = [n for n in shape.properties if f"{path}.{n}" not in self._known.not_inputs]
        plain_ones = [name for name in names if shape.properties[name] in (bool, int, str)]
        first = (plain_ones or names or list(shape.properties))[0]
        return {first: self.two(f"{path}.{first}", shape.properties[first])[0]}

    @staticmethod
    def at(inputs: Mapping[str, Any], path: str) -> Any:
        """The inputs' value at a path, in lists in the first element; None if there is none."""
        value: Any = inputs
        for step in re.findall(r"\[\]|[^.\[]+", path):
            if step == "[]":
                value = value[0] if isinstance(value, list) and value else None
            else:
                value = value.get(step) if isinstance(value, Mapping) else None
        return value

    def put(self, inputs: Inputs, shape: Block, path: str, value: Any) -> Inputs:
        """The inputs with a value at a path, in minimal blocks."""
        made = copy.deepcopy(inputs)
        where: Any = made
        *parents, last = path.split(".")
        for depth, step in enumerate(parents):
            name, listed = step.removesuffix("[]"), step.endswith("[]")
            kind, _ = _element(shape.properties[name])
            shape = block(kind)
            if not where.get(name):
                pattern = ".".join([*parents[:depth], step])
                minimal = self._minimal(shape, pattern)
                where[name] = [minimal] if listed else minimal
            where = where[name][0] if listed else where[name]
        if value is NOTHING:
            where.pop(last, None)
        else:
            where[last] = copy.deepcopy(value)
        return made
