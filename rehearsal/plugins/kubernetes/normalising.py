"""Normalises objects as the API server stores them, so that equal ones show no change.

The official provider passes the inputs of built-in kinds through Go's client library, in `Check`
and before it compares. Empty values are removed, unless the library keeps them
(`kept_when_empty.yaml`). Inputs that contain unknown values are not changed.
"""

import base64
import contextlib
import functools
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from components.kube.quantity import or_none
from rehearsal.plugins import sdk
from rehearsal.plugins.kubernetes import schema
from rehearsal.plugins.kubernetes.differences import QUANTITIES
from rehearsal.plugins.kubernetes.objects import SECRET, Kind, Object, kind_of, without_read_only
from rehearsal.plugins.kubernetes.wire import has_unknown

_DATA = Path(__file__).with_name("kept_when_empty.yaml")
_TIMES = {"creationTimestamp", "deletionTimestamp", "time", "timeAdded"}
_DEFINITION = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


class _Misfit(Exception):
    """Go's library would refuse the object; the official provider then leaves it unchanged."""


def normalise(obj: Object) -> Object:
    """The object as the API server would store it, as far as inputs and state are compared."""
    kind = kind_of(obj)
    wanted = None if has_unknown(obj) else schema.class_of(kind)
    if wanted is not None and kind == SECRET:
        obj = _secret(obj)
    elif wanted is not None and kind == _DEFINITION:
        obj = _definition(obj)
    elif wanted is not None:
        # An object that the library would refuse is not changed.
        with contextlib.suppress(_Misfit):
            obj = _struct(obj, wanted)
    return without_read_only(obj)


def _secret(obj: Object) -> Object:
    text = obj.get("stringData")
    if not isinstance(text, dict):
        return obj
    encoded = {name: base64.b64encode(str(item).encode()).decode() for name, item in text.items()}
    return {
        **{name: value for name, value in obj.items() if name != "stringData"},
        "data": {**(obj.get("data") or {}), **encoded},
    }


def _definition(obj: Object) -> Object:
    """Removes what the API server drops from a CustomResourceDefinition."""
    kept = {name: value for name, value in obj.items() if name != "status"}
    spec = kept.get("spec")
    if isinstance(spec, dict) and spec.get("preserveUnknownFields") is False:
        spec = {name: value for name, value in spec.items() if name != "preserveUnknownFields"}
        kept["spec"] = spec
    return kept


def _struct(obj: Object, struct: type) -> Object:
    fields, kept = schema.fields(struct), _kept(struct)
    made = {}
    for name, given in obj.items():
        if name in _TIMES and isinstance(given, str) and not _is_time(given):
            raise _Misfit
        options = fields.get(name, [])
        if name in QUANTITIES and schema.is_text(options) and not _are_quantities(given):
            raise _Misfit
        value = _value(given, options)
        of_any = not options or any(map(sdk.is_input_type, options))
        block = isinstance(value, dict) and of_any
        if value or block or name in kept or value is None:
            made[name] = value
    return made


def _value(value: Any, options: Any) -> Any:
    if isinstance(value, dict):
        struct = next(filter(sdk.is_input_type, options), None)
        return value if struct is None else _struct(value, struct)
    if isinstance(value, list):
        return [_value(item, schema.items(options)) for item in value]
    return value


@functools.cache
def _kept(struct: type) -> frozenset[str]:
    """The properties that a class of inputs keeps even if they are empty."""
    _, group, version, *_ = struct.__module__.split(".")
    name = struct.__name__.removesuffix("Args").removesuffix("Init")
    return schema.required(struct) | frozenset(_rows().get(f"{group}/{version}", {}).get(name, ()))


@functools.cache
def _rows() -> Mapping[str, Mapping[str, list[str]]]:
    rows: Mapping[str, Mapping[str, list[str]]] = yaml.safe_load(_DATA.read_text())
    return rows


def _are_quantities(value: Any) -> bool:
    given = value.values() if isinstance(value, dict) else (value,)
    return all(or_none(each) is not None for each in given)


def _is_time(value: str) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False
