"""AWS's resource types in botocore's models and CloudFormation's schemas, from their wheels.

Paths are the SDK's, in camelCase with `[]` for list elements; each segment matches the member or
property with the same letters, ignoring case. `aws_names.yaml` has the names that differ.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from botocore.loaders import Loader

from gpu_cluster.clouds.rows.aws import rows
from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.cloud.schema import Block, block, element_of, resource_schema

Node = Mapping[str, Any]
LIMITS = {
    "min": ("minimum", "min"),
    "max": ("maximum", "max"),
    "min_length": ("minLength", "minItems", "min"),
    "max_length": ("maxLength", "maxItems", "max"),
}
"""Our name of a limit -> CloudFormation's and botocore's."""


@cache
def names_of() -> Mapping[str, Node]:
    """Type -> its names in those models: from its row, overridden by `aws_names.yaml`."""
    known = yaml.safe_load(Path(__file__).with_name("aws_names.yaml").read_text())
    schemas = {name.lower(): name for name in _versions()}
    found = {}
    for token, row in rows().items():
        call = Loader().load_service_model(row.api, "service-2")["operations"][row.create]
        resource = schemas.get(f"aws::{row.api}::{token.rpartition(':')[2]}".lower())
        found[token] = {
            "botocore": [row.api, call["input"]["shape"]],
            **({"cloudformation": resource} if resource else {}),
        }
    return {token: found.get(token, {}) | known.get(token, {}) for token in {**known, **found}}


def source() -> str:
    """The source of the rows, with versions."""
    return (
        f"botocore {version('botocore')}; CloudFormation's schemas of us-east-1 in cfn-lint "
        f"{version('cfn-lint')}"
    )


def row(token: str) -> dict[str, Any]:
    """The facts about a type in the models: which inputs are immutable, which values an input
    accepts, and the limits of those inputs whose limits the provider checks."""
    names = names_of()[token]
    found = {
        "immutable": list(_immutable(token)),
        "enums": {
            path: list(enums[0])
            for path, _ in inputs(token)
            if path not in names.get("open", ())
            and (enums := [node["enum"] for _, node in described(token, path) if "enum" in node])
        },
        "bounds": {
            path: {kind: _limit(token, path, kind) for kind in kinds}
            for path, kinds in names.get("limited", {}).items()
        },
    }
    return {word: values for word, values in found.items() if values}


def _immutable(token: str) -> Iterator[str]:
    """Inputs whose change replaces the resource in CloudFormation; for a block, all in it."""
    names = names_of()[token]
    if "cloudformation" not in names:
        return
    replacing = {path.lower() for path in create_only(names["cloudformation"])}
    for path, kind in inputs(token):
        ours = path.removesuffix("[]")
        name = names.get("names", {}).get(ours, {}).get("cloudformation", ours)
        if name.replace("[]", "").lower() in replacing:
            if sdk.is_input_type(kind):
                yield f"{path}.*"
            elif not path.endswith("[]") and not sdk.is_input_type(element_of(kind)):
                yield path


def inputs(token: str) -> Iterator[tuple[str, Any]]:
    """Path (`a[].b`) and type of every input; for a list, also the path of its elements."""
    yield from _beneath(resource_schema(token).inputs, "", ())


def _beneath(shape: Block, parent: str, above: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    for name, kind in shape.properties.items():
        path = f"{parent}{name}"
        yield path, kind
        element, inside = element_of(kind), ""
        if element is not None:
            inside = "[]"
            yield f"{path}{inside}", element
        within = kind if element is None else element
        if sdk.is_input_type(within) and within not in above:
            yield from _beneath(block(within), f"{path}{inside}.", (*above, within))


def described(token: str, path: str) -> Iterator[tuple[str, Node]]:
    """The models that describe the input, and their descriptions; botocore first."""
    names = names_of()[token]
    named = _named(names.get("names", {}), path)
    service, shape = names["botocore"]
    if "shape" in named:
        yield "botocore", shapes(service)[named["shape"]]
    elif (found := shape_at(service, shape, named.get("botocore", path))) is not None:
        yield "botocore", found
    if "cloudformation" in names:
        inside = f"{names['inside']['cloudformation']}." if "inside" in names else ""
        found = schema_at(names["cloudformation"], named.get("cloudformation", inside + path))
        if found is not None:
            yield "CloudFormation", found


def _named(names: Node, path: str) -> Mapping[str, str]:
    """The path with the models' names, if it or a parent is named differently there."""
    for ours, others in names.items():
        if path == ours or path.startswith((f"{ours}.", f"{ours}[")):
            return {who: other + path[len(ours) :] for who, other in others.items()}
    return {}


def _limit(token: str, path: str, kind: str) -> float:
    """CloudFormation's limit, which is the narrower one; else botocore's."""
    nodes = dict(described(token, path))
    for who in ("CloudFormation", "botocore"):
        for word in LIMITS[kind]:
            if word in nodes.get(who, {}):
                limit: float = nodes[who][word]
                return limit
    raise KeyError(f"{token} {path}: no model has its {kind}")


@cache
def shapes(service: str) -> Node:
    """All shapes of a service's API in botocore's model."""
    model: Node = Loader().load_service_model(service, "service-2")
    return dict(model["shapes"])


def shape_at(service: str, shape: str, path: str) -> Node | None:
    """The shape of the member at `a.b[].c`; None if there is none."""
    found = shapes(service)
    at: Node = found[shape]
    for step in path.split("."):
        member = _same(at.get("members", {}), step.removesuffix("[]"))
        if member is None:
            return None
        at = found[at["members"][member]["shape"]]
        if step.endswith("[]"):
            if at["type"] != "list":
                return None
            at = found[at["member"]["shape"]]
        elif at["type"] == "list" and step != path.rsplit(".", maxsplit=1)[-1]:
            at = found[at["member"]["shape"]]
    return at


@cache
def _versions() -> Mapping[str, str]:
    """CloudFormation's type -> its schema file."""
    text = (files("cfnlint.data.schemas") / "providers" / "us-east-1.json").read_text()
    return dict(json.loads(text))


@cache
def schema(resource: str) -> Node:
    """CloudFormation's schema of a resource type, such as `AWS::EKS::Cluster`, for us-east-1."""
    folder = files("cfnlint.data.schemas")
    text = (folder / "resources" / f"{_versions()[resource]}.json").read_text()
    return dict(json.loads(text))


def schema_at(resource: str, path: str) -> Node | None:
    """The schema of the property at `a.b[].c`; None if there is none."""
    root = schema(resource)
    at: Node = root
    for step in path.split("."):
        properties = _properties(root, at)
        name = _same(properties, step.removesuffix("[]"))
        if name is None:
            return None
        at = _resolved(root, properties[name])
        if step.endswith("[]"):
            if "items" not in at:
                return None
            at = _resolved(root, at["items"])
    return at


def create_only(resource: str) -> Iterator[str]:
    """Create-only properties, as paths with CloudFormation's names."""
    for pointer in schema(resource).get("createOnlyProperties", ()):
        yield pointer.removeprefix("/properties/").replace("/*/", ".").replace("/", ".")


def _properties(root: Node, at: Node) -> Node:
    if "items" in at:
        at = _resolved(root, at["items"])
    found = dict(at.get("properties", {}))
    for part in ("anyOf", "oneOf", "allOf"):
        for choice in at.get(part, ()):
            found |= _resolved(root, choice).get("properties", {})
    return found


def _resolved(root: Node, at: Node) -> Node:
    while "$ref" in at:
        steps = at["$ref"].removeprefix("#/").split("/")
        at = root
        for step in steps:
            at = at[step]
    return at


def _same(names: Node, wanted: str) -> str | None:
    """The name with the same letters; SDKs use plurals for lists and shorten some words."""
    for candidate in (wanted, f"{wanted}s", wanted.removesuffix("s")):
        for name in names:
            if name.lower() == candidate.lower():
                return name
    return None
