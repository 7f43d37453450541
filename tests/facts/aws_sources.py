"""What others maintain of AWS: botocore's models, CloudFormation's schemas, moto's instance types.

All of it lies in the wheels of botocore, cfn-lint and moto. Paths are ours, in camelCase with `[]`
for list elements; a step finds the member or property of the same letters, whatever their case.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from botocore.loaders import Loader

Node = Mapping[str, Any]


@cache
def shapes(service: str) -> Node:
    """Every shape of a service's API, as botocore has it."""
    model: Node = Loader().load_service_model(service, "service-2")
    return dict(model["shapes"])


def shape_at(service: str, shape: str, path: str) -> Node | None:
    """The shape of the member at `a.b[].c`; None where there is none."""
    found = shapes(service)
    at = found[shape]
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
def schema(resource: str) -> Node:
    """CloudFormation's schema of a resource type, `AWS::EKS::Cluster`, as in us-east-1."""
    folder = files("cfnlint.data.schemas")
    versions = json.loads((folder / "providers" / "us-east-1.json").read_text())
    text = (folder / "resources" / f"{versions[resource]}.json").read_text()
    return dict(json.loads(text))


def schema_at(resource: str, path: str) -> Node | None:
    """The schema of the property at `a.b[].c`; None where there is none."""
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
    """What only a new resource can have otherwise, as a path of CloudFormation's names."""
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
    """The name of these letters; SDKs write lists in the plural and shorten some words."""
    for candidate in (wanted, f"{wanted}s", wanted.removesuffix("s")):
        for name in names:
            if name.lower() == candidate.lower():
                return name
    return None


@cache
def instance_types() -> Node:
    """Name -> row, as `ec2:DescribeInstanceTypes` answered moto's maintainers."""
    packed = (files("moto.ec2") / "resources" / "instance_types.json.gz").read_bytes()
    return dict(json.loads(gzip.decompress(packed)))


@cache
def partitions() -> Node:
    """Region -> the partition that it is of, as botocore has them; without the global ones."""
    rows = json.loads((files("botocore") / "data" / "partitions.json").read_text())["partitions"]
    return {
        region: row["id"] for row in rows for region in row["regions"] if "global" not in region
    }


@cache
def offerings(kind: str) -> Node:
    """Region -> place (`availability-zone`, `availability-zone-id`) -> the instance types there."""
    found: dict[str, dict[str, set[str]]] = {}
    folder = files("moto.ec2") / "resources" / "instance_type_offerings" / kind
    for file in folder.iterdir():
        region, _, ending = file.name.partition(".")
        if ending == "json.gz":
            places = found.setdefault(region, {})
            for row in json.loads(gzip.decompress(file.read_bytes())):
                places.setdefault(row["Location"], set()).add(row["InstanceType"])
    return found
