"""What we say of Kubernetes beside its API as the `kubernetes` client's models have it."""

import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from kubernetes.client import models

from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.cluster import Taint, Toleration
from gpu_cluster.components.gpu.workload_args import WorkloadArgs
from gpu_cluster.components.platforms import WRITTEN
from tests.facts import sent

_SCALARS = {"str": str, "int": int, "bool": bool, "float": float}


def objects() -> Iterator[str]:
    """Every object that the program declares is of a kind and version that the API serves, and
    every field of it exists there with that type."""
    found = set()
    for platform in WRITTEN:
        for each in sent.registered(platform):
            if not each.type.startswith("kubernetes:") or "apiVersion" not in each.inputs:
                continue
            version, kind = str(each.inputs["apiVersion"]), str(each.inputs["kind"])
            model = _model(version, kind)
            if model is not None:
                found |= set(_misfits(f"{version} {kind}", dict(each.inputs), model.__name__))
            elif "." not in version.partition("/")[0] or version.endswith("k8s.io"):
                found.add(f"{version} {kind}: the API does not serve it")
    yield from sorted(found)


def _model(version: str, kind: str) -> type | None:
    group, _, number = version.rpartition("/")
    if "." in group and not group.endswith(".k8s.io"):
        return None
    return getattr(models, f"{number.capitalize()}{kind}", None)


def _misfits(where: str, value: Any, kind: str) -> Iterator[str]:
    if value is None or kind in ("object", "datetime"):
        return
    if kind.startswith("list["):
        if not isinstance(value, list):
            yield f"{where}: is no list"
            return
        for each in value:
            yield from _misfits(f"{where}[]", each, kind[5:-1])
    elif kind.startswith(("dict(", "dict[")):
        for each in value.values():
            yield from _misfits(f"{where}.*", each, kind[5:-1].partition(", ")[2])
    elif kind in _SCALARS:
        wanted = (int, float) if kind == "float" else _SCALARS[kind]
        if not isinstance(value, wanted) or isinstance(value, bool) != (kind == "bool"):
            yield f"{where}: {value!r} is no {kind}"
    else:
        model = getattr(models, kind)
        # The SDK writes extensions of a schema with underscores, and the provider as they are.
        fields = {
            name.replace("-", "_") if name.startswith("x-") else name: key
            for key, name in model.attribute_map.items()
        }
        for name, each in value.items():
            if name not in fields:
                yield f"{where}.{name}: there is no such field"
            else:
                yield from _misfits(f"{where}.{name}", each, model.openapi_types[fields[name]])


def choices() -> Iterator[str]:
    """The values that we let users choose are those that the API's own descriptions list."""
    for what, ours, text, start in (
        ("taint effect", names.TAINT_EFFECTS, models.V1Taint.effect.__doc__, "Valid effects are"),
        ("Taint.effect", _choices(Taint, "effect"), models.V1Taint.effect.__doc__,
         "Valid effects are"),
        ("imagePullPolicy", _choices(WorkloadArgs, "image_pull_policy"),
         models.V1Container.image_pull_policy.__doc__, "One of"),
        ("Toleration.operator", _choices(Toleration, "operator"),
         models.V1Toleration.operator.__doc__, "Valid operators are"),
    ):  # fmt: skip
        theirs = set(_listed(str(text), start))
        for value in sorted(set(ours) ^ theirs):
            yield f"{what} {value}: {'only here' if value in ours else 'only in the API'}"


def _choices(kind: type, field: str) -> tuple[str, ...]:
    hint = typing.get_type_hints(kind)[field]
    literal = [part for part in typing.get_args(hint) if typing.get_origin(part)]
    return typing.get_args(literal[0]) if literal else typing.get_args(hint)


def _listed(text: str, start: str) -> list[str]:
    sentence = text.partition(start)[2].partition(".")[0]
    assert sentence, f"{start!r} is not in the API's description"
    return re.findall(r"\b[A-Z]\w+", sentence)


COMPARISONS: Mapping[str, Any] = {"kubernetes objects": objects, "kubernetes choices": choices}
