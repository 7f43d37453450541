"""Normalises objects as the API server stores them, so that equal ones show no change.

The official provider passes the inputs of built-in kinds through Go's client library, in `Check`
and before it compares. Empty values are removed, unless the library keeps them
(`kept_when_empty.yaml`). Inputs that contain unknown values are not changed.
"""

import base64
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.cloud.schema import block, element_of
from gpu_cluster.rehearsal.plugins.kubernetes.objects import (
    SECRET,
    Kind,
    Object,
    kind_of,
    without_read_only,
)
from gpu_cluster.rehearsal.plugins.kubernetes.properties import has_unknown
from gpu_cluster.rehearsal.plugins.kubernetes.schema import class_of

_DATA = Path(__file__).with_name("kept_when_empty.yaml")
_DEFINITION = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def normalise(obj: Object) -> Object:
    """The object as the API server would store it, as far as inputs and state are compared."""
    kind = kind_of(obj)
    wanted = None if has_unknown(obj) else class_of(kind)
    if wanted is not None and kind == SECRET:
        obj = _secret(obj)
    elif wanted is not None and kind == _DEFINITION:
        obj = _definition(obj)
    elif wanted is not None:
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
    kinds, kept = block(struct).properties, _kept(struct)
    made = {}
    for name, given in obj.items():
        kind = kinds.get(name, Any)
        value = _value(given, kind)
        nested = isinstance(value, dict) and (kind is Any or sdk.is_input_type(kind))
        if value or nested or name in kept:
            made[name] = value
    return made


def _value(value: Any, kind: Any) -> Any:
    if isinstance(value, dict):
        return _struct(value, kind) if sdk.is_input_type(kind) else value
    if isinstance(value, list):
        return [_value(item, element_of(kind)) for item in value]
    return value


@functools.cache
def _kept(struct: type) -> frozenset[str]:
    """The properties that a class of inputs keeps even if they are empty."""
    _, group, version, *_ = struct.__module__.split(".")
    name = struct.__name__.removesuffix("Args").removesuffix("Init")
    return block(struct).required | frozenset(_rows().get(f"{group}/{version}", {}).get(name, ()))


@functools.cache
def _rows() -> Mapping[str, Mapping[str, list[str]]]:
    rows: Mapping[str, Mapping[str, list[str]]] = yaml.safe_load(_DATA.read_text())
    return rows
