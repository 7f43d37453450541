"""Converts a JSON value into a frozen dataclass, or raises the refusals of what is wrong.

Keys are camelCase in the value and snake_case in the class. A class checks its own values in
`__post_init__`; the path to it is prepended to its refusals. If a field is refused, those checks
are made that do not read it. A static method `check_given` checks which keys were written, which
the values do not show.
"""

import dataclasses
import functools
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ParamSpec, TypeVar

from ..catalog.spelling import camel as camel
from .limits import Example, refused_output, unwrapped, words
from .outputs import NAMED, OUTPUT, is_output
from .refusal import (
    UNKNOWN_KEY,
    Keys,
    Refusal,
    Refusals,
    keys_of,
    known_only,
    narrowed,
    output_refusal,
    refuse,
    shown,
    unknown_value,
    unset,
)
from .renamed import COUNTERPARTS, ELSEWHERE

T = TypeVar("T")
P = ParamSpec("P")
NAMESPACE = "gpu-cluster"
"""The prefix of this project's keys in a stack's config."""
_LARGEST = 2**31 - 1
"""The largest integer: no field of Kubernetes or a cloud that a setting fills has more bits."""
_BOOLEANS = {
    "true": "true",
    "yes": "true",
    "on": "true",
    "false": "false",
    "no": "false",
    "off": "false",
}
_WORDS = {str: "a string", int: "an integer", float: "a number", bool: "a boolean (true or false)"}

_SECONDS = {
    "s": 1, "m": 60, "h": 3600, "d": 86400,
    "Seconds": 1, "Minutes": 60, "Hours": 3600, "Days": 86400,
}  # fmt: skip
"""Unit of a duration, as in `2h` or as the last word of a key -> its seconds."""

type_hints = functools.cache(typing.get_type_hints)
"""The type hints of an args class, cached, because reading them takes longer than decoding."""


def annotations(kind: type, name: str) -> Sequence[Any]:
    """Those of the field of an args class, and of the types in its own."""
    return unwrapped(type_hints(kind, include_extras=True)[name])[1]


def classes_in(kind: Any) -> Iterator[type[Any]]:
    """The dataclasses in a type or an args class, itself included; a class may come twice."""
    if dataclasses.is_dataclass(kind):
        yield typing.cast("type[Any]", kind)
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    inner = [type_hints(kind)[field.name] for field in fields if field.init]
    for part in (*inner, *typing.get_args(kind)):
        yield from classes_in(part)


def no_such_key(path: str | Keys, key: str, allowed: Collection[str]) -> Refusal:
    """The refusal of the key at `path` that is not among `allowed`, with its name on this
    platform if it has one."""
    # Terraform and gcloud write min_size and min-size.
    plain = camel(key.replace("-", "_")) if key not in COUNTERPARTS else key
    names = (plain, *COUNTERPARTS.get(plain, ()))
    meant = next((name for name in names if name != key and name in allowed), "")
    refusal = refuse(path, key)("there is no such key", code=UNKNOWN_KEY, meant=meant)
    if plain in ELSEWHERE and not meant:
        return refusal.but(remedy=ELSEWHERE[plain])
    return refusal.but(allowed=sorted(allowed))


def decode(path: str | Keys, kind: type[T], value: object) -> T:
    """Decodes `value` as a `kind`; raises a `Refusal` of what is wrong below the path."""
    return typing.cast("T", _decode(keys_of(path), kind, value))


def decode_map(
    path: str | Keys, kind: type[T], value: object, partly: Refusals | None = None
) -> Mapping[str, T]:
    """Decodes a map from names to values of `kind`; raises the same errors as `decode`. With
    `partly`, what is wrong with an entry is added there, and its args are those of `read_partly`.
    """
    return _mapping(keys_of(path), kind, value, partly)


def read_partly(path: str | Keys, kind: type[T], value: object, refusals: Refusals) -> T | None:
    """Like `decode`, but adds what is wrong to `refusals`. Refused fields of what it returns are
    not set, for checks of the others; None if nothing could be read."""
    with refusals:
        return typing.cast("T", _record(keys_of(path), kind, value, refusals))
    return None


def at(path: str | Keys, check: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Returns what `check` returns; prepends the path to that of its refusals."""
    try:
        return check(*args, **kwargs)
    except Refusal as refusal:
        raise refusal.under(*keys_of(path)) from None


def required(config: Mapping[str, str], key: str, what: str) -> str:
    """The value of a key of the engine's config; refuses a missing one."""
    value = config.get(key, "")
    if not value:
        remedy = f"set it to {what}: pulumi config set {key} ..."
        raise refuse(key)("is missing", remedy=remedy)
    return value


def refuse_output(path: str | Keys, value: object) -> None:
    """Raises the refusal of a value that may be known only during an update."""
    if is_output(value):
        raise output_refusal(path)


def _decode(path: Keys, kind: Any, value: object) -> Any:
    origin, parameters = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        if is_output(value) and OUTPUT in parameters:
            return value
        if NAMED in parameters and is_output(value):
            raise refused_output(kind).under(*path)
        if NAMED in parameters and isinstance(value, dict):
            return _mapping(path, typing.get_args(parameters[0])[0], value)
        return _decode(path, parameters[0], value)
    if origin in (types.UnionType, typing.Union):
        if value is None and types.NoneType in parameters:
            return None
        *_, part = [choice for choice in parameters if choice is not types.NoneType]
        if short := words(kind):
            allowed = typing.get_args(short[0])
            if unwrapped(part)[0] is int:
                if isinstance(value, str) and value.isdecimal():
                    raise refuse(path, value)("is not a number", remedy="drop the quotes")
                if _is_bool(value) or (not isinstance(value, int) and value not in allowed):
                    raise unknown_value(path, value, (*allowed, "a number"))
                part = short[0] if isinstance(value, str) else part
            elif not isinstance(value, dict) and not dataclasses.is_dataclass(value):
                part = short[0]
        return _decode(path, part, value)
    if is_output(value):
        raise refused_output(kind).under(*path)
    if origin is typing.Literal:
        if value not in parameters or isinstance(value, bool) not in map(_is_bool, parameters):
            raise unknown_value(path, value, parameters)
        return value
    if origin in (Mapping, dict) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return _mapping(path, parameters[1], value)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        if not isinstance(value, list):
            raise refuse(path, value)("is not a list", remedy="write it as [ONE, TWO]")
        items, refusals = [], Refusals()
        for position, item in enumerate(value):
            with refusals:
                items.append(_decode((*path, position), parameters[0], item))
        refusals.check()
        return tuple(items)
    if dataclasses.is_dataclass(kind):
        return _record(path, typing.cast("type", kind), value)
    return _plain(path, kind, value)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _plain(path: Keys, kind: type, value: object) -> object:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        if value is None:
            raise refuse(path)("has no value", remedy=f"give {_WORDS[kind]}")
        remedy = _fix(str(path[-1]), kind, value)
        if isinstance(value, dict) and path[-2:-1] == ("env",):
            remedy = (
                "for a key of a Secret, use envFrom: [{ secret: NAME, key: KEY, name: VARIABLE }]"
            )
        raise refuse(path, value)(f"is not {_WORDS[kind]}", remedy=remedy)
    if kind is int and abs(number := typing.cast("int", value)) > _LARGEST:
        size, other = ("large", "smaller") if number > 0 else ("small", "larger")
        raise refuse(path, value)(f"is too {size}", remedy=f"give a {other} number")
    return value


def _fix(key: str, kind: type, value: object) -> str:
    """How to fix a value of the wrong type, if that is clear."""
    if kind is str and isinstance(value, int | float):
        # YAML reads 1.30 as 1.3.
        return "put it in quotes" + (', as in "1.30"' if isinstance(value, float) else "")
    if isinstance(value, list | dict):
        return f"write one value, without {'brackets' if isinstance(value, list) else 'keys'}"
    text = value.strip() if isinstance(value, str) else ""
    if kind is bool and text.lower() in _BOOLEANS:
        # YAML 1.1 has `yes` and `no`; the engine reads them as text, also without quotes.
        boolean = _BOOLEANS[text.lower()]
        return f"write {boolean}" + (" without quotes" if text.lower() == boolean else "")
    if kind is int and text.lstrip("-+").isdecimal():
        return f"write {int(text[:20])} without quotes"
    if kind is int and isinstance(value, float):
        return "write a whole number"
    return _without_unit(key, text) if kind is int else ""


def _without_unit(key: str, text: str) -> str:
    """The number for a text such as `2h` or `100Gi`, in the unit that the key's name ends in."""
    parts, word = re.fullmatch("([0-9]{1,9}) ?([A-Za-z]+)", text), re.search("[A-Z][a-z]*$", key)
    if not parts:
        return ""
    number, asked = int(parts[1]), word[0] if word else ""
    seconds, per = number * _SECONDS.get(parts[2], 0), _SECONDS.get(asked, 0)
    if seconds and per and seconds % per == 0:
        number = seconds // per
    elif asked != "Gb" or parts[2][0] != "G":
        return "write a whole number without a unit"
    return f"write {number} without a unit"


def _mapping(
    path: Keys, kind: Any, value: object, partly: Refusals | None = None
) -> Mapping[str, Any]:
    refuse_output(path, value)
    _refuse_null(path, value)
    if not isinstance(value, dict):
        raise refuse(path, value)("is not a map", remedy="write it as { NAME: VALUE }")
    entries, refusals = {}, Refusals()
    for key, item in value.items():
        if partly is not None:
            entries[key] = read_partly((*path, key), kind, item, partly) or known_only(kind)
            continue
        with refusals:
            entries[key] = _decode((*path, key), kind, item)
    refusals.check()
    return {key: item for key, item in entries.items() if item is not None}


def _record(path: Keys, kind: type, value: object, partly: Refusals | None = None) -> Any:
    if isinstance(value, kind):  # A program passes args, which have checked themselves.
        return value
    refuse_output(path, value)
    _refuse_null(path, value)
    hints = type_hints(kind, include_extras=True)
    fields = {camel(field.name): field for field in dataclasses.fields(kind) if field.init}
    if not isinstance(value, dict):
        raise refuse(path, value)("is not a map", remedy=f"write it as {_map(fields, value)}")
    refusals = Refusals()
    for key in value:
        if key not in fields:
            refusals.add(no_such_key((*path, key), key, fields))
        elif value[key] is None:  # Ambiguous: {} often turns on what is off without the key.
            drop = "" if _required(fields[key]) else ", or drop the key"
            remedy = f"set it{_example(kind, fields[key])}{drop}"
            refusals.add(refuse((*path, key))("has no value", remedy=remedy))
    misspelt = bool(refusals)
    unread = {fields[refusal.likely].name for refusal in refusals if refusal.likely}
    arguments: dict[str, Any] = {}
    refused: dict[str, Refusal] = {}
    parts: dict[str, Any] = {}
    for key, field in fields.items():
        given = value.get(key)
        if given is not None:
            try:
                arguments[field.name] = _decode((*path, key), hints[field.name], given)
            except Refusal as refusal:
                refused[field.name] = refusal
                parts |= _part(field.name, (*path, key), hints[field.name], given)
        elif key not in value and _required(field) and not misspelt:
            remedy = f"set it{_example(kind, field)}"
            refused[field.name] = refuse((*path, key))("is missing", remedy=remedy)
    left_out = {*unread, *refused} - parts.keys()
    args, checked = _without_refused(kind, arguments | parts, left_out), Refusals()
    # A key that excludes another one does so even if it is set to its default.
    if check_given := getattr(kind, "check_given", None):
        names = {field.name for key, field in fields.items() if value.get(key) is not None}
        with checked:
            at(path, check_given, Given(args, names))
        _unset_refused(args, fields, checked, path)
    if not refusals and not refused and not checked and partly is None:
        return at(path, kind, **arguments)
    if check := getattr(kind, "__post_init__", None):
        with checked:
            at(path, check, args)
    own = [*refusals, *checked]
    for first in refused.values():
        refusals.add(*(narrowed(item, args, *item.path[len(path) :]) for item in first.every))
    refusals.add(*checked)
    if partly is None:
        raise refusals.first()
    _unset_refused(args, fields, own, path)
    partly.add(*refusals)
    return args


def _part(name: str, path: Keys, hint: Any, value: object) -> dict[str, Any]:
    """The field with what is not refused of it, if its value is a block or a map of blocks."""
    kind, refusals = unwrapped(hint)[0], Refusals()
    with refusals:
        if dataclasses.is_dataclass(kind):
            args = read_partly(path, typing.cast("type[Any]", kind), value, refusals)
            return {} if args is None else {name: args}
        inner = typing.get_args(kind)
        if typing.get_origin(kind) is Mapping and dataclasses.is_dataclass(inner[1]):
            return {name: decode_map(path, typing.cast("type[Any]", inner[1]), value, refusals)}
    return {}


class Given(Mapping[str, Any]):
    """The fields that were written; of a refused one, which is not set, only that it was."""

    def __init__(self, args: Any, names: Collection[str]) -> None:
        self._args = args
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return getattr(self._args, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _unset_refused(
    args: Any,
    fields: "Mapping[str, dataclasses.Field[Any]]",
    refusals: Iterable[Refusal],
    path: Keys,
) -> None:
    keys = {str(refusal.path[len(path)]) for refusal in refusals if refusal.path[len(path) :]}
    unset(args, [fields[key].name for key in keys & fields.keys()])


def _without_refused(kind: type, arguments: Mapping[str, Any], refused: Collection[str]) -> Any:
    """An object of a class whose fields are refused, or not written and required, and not set."""
    args: Any = object.__new__(kind)
    for field in dataclasses.fields(kind):
        if field.name not in refused and (field.name in arguments or not _required(field)):
            value = field.default
            if field.default_factory is not dataclasses.MISSING:
                value = field.default_factory()
            object.__setattr__(args, field.name, arguments.get(field.name, value))
    return args


def _refuse_null(path: Keys, value: object) -> None:
    if value is None:
        raise refuse(path)("has no value", remedy="set it, or drop the key")


def _map(fields: "Mapping[str, dataclasses.Field[Any]]", value: object) -> str:
    """A map with the `fields` that must be set, or for a boolean the one that it means."""
    if isinstance(value, bool) and "enabled" in fields:
        return f"{{ enabled: {shown(value)} }}"
    needed = [f"{key}: ..." for key, field in fields.items() if _required(field)]
    more = [key for key, field in fields.items() if not _required(field)]
    keys = f"; {'further ' if needed else ''}keys: {', '.join(more)}" if 0 < len(more) < 6 else ""
    return f"{{ {', '.join(needed) or 'KEY: VALUE'} }}{keys}"


def _example(kind: type, field: "dataclasses.Field[Any]") -> str:
    """An example value for a required key whose name does not explain it, or all that it has."""
    hint = type_hints(kind)[field.name]
    if typing.get_origin(hint) is typing.Literal:
        return f" to one of {', '.join(typing.get_args(hint))}"
    examples = [mark for mark in annotations(kind, field.name) if isinstance(mark, Example)]
    return f", for instance to {examples[0].text}" if examples else ""


def _required(field: "dataclasses.Field[Any]") -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing
