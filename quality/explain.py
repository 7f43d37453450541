"""What a contributor has to know of a resource's input before a setting can send it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import yaml

from gpu_cluster.clouds.rows import aws, google
from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.scalers import SCALERS, NotWith
from gpu_cluster.components.schema.effect import Sent
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.patterns import within
from gpu_cluster.rehearsal.plugins.cloud.schema import (
    did_you_mean,
    element_of,
    property_at,
    resource_schema,
)
from gpu_cluster.rehearsal.plugins.gcp.client import Client
from gpu_cluster.rehearsal.plugins.gcp.resource import Resource
from gpu_cluster.stacks.definition.files import ROOT
from gpu_cluster.stacks.outcome import CheckError
from quality.keys import TYPES, settings_of

_SIMULATORS = ROOT / "gpu_cluster" / "rehearsal" / "simulators"
_DEFINITIONS = (
    ROOT / "components" / "crds" / "karpenter-aws.json",
    _SIMULATORS / "aws" / "auto_node_class.yaml",
    _SIMULATORS / "google" / "container" / "compute_class.yaml",
)
_TESTED = {
    "gcp": ROOT / "tests" / "unit" / "plugins" / "google_requests.py",
    "aws": ROOT / "tests" / "simulators" / "aws_lives.py",
}
"""Package -> the file with the requests that are compared or made for each type."""
_RULES = {
    "gcp": "gpu_cluster/rehearsal/simulators/google; of a part: container/node_features.py there",
    "aws": "gpu_cluster/rehearsal/simulators/aws",
}
_PLAIN = {"string": "str", "boolean": "bool", "integer": "int", "number": "float"}


_TEMPLATE = "LaunchTemplate"
"""What the machines of node groups are made from."""


def explain(platform: str, kind: str, path: str) -> str:
    """Lines of `topic  answer`, and the field of an args class to paste.

    `kind` is a class of the cloud's SDK, such as `NodePool`, or an object of a scaler in the
    cluster, such as `EC2NodeClass`; `path` is in camelCase, with `[]` for the elements of a list.
    Raises CheckError for a type or an input that the platform does not have.
    """
    token = _token(platform, kind)
    if token is None:
        shape = _in_cluster(kind, path)
        topics = [("type", str(shape.get("type", "map"))), *_of_settings(platform, kind, path)]
        return _rendered(topics, _field(kind, path, shape, []))
    schema, known = resource_schema(token).inputs, facts.of(token)
    sdk_type = property_at(schema, path)
    if sdk_type is None:
        hint = did_you_mean(path.partition(".")[0].removesuffix("[]"), schema.properties)
        raise CheckError(f"{kind} has no input {path}{hint}")
    values, bounds = known.enums.get(path, ()), known.bounds.get(path, {})
    bounds_text = ", ".join(f"{word} {value}" for word, value in bounds.items())
    shape = {"type": _type_name(sdk_type), "enum": values, **bounds}
    kept = path.removesuffix("[]") in known.kept_when_removed
    replaces = known.replaces(path) or known.replaces(path.removesuffix("[]"))
    block = path.rpartition(".")[0].removesuffix("[]")
    loss = "GPU pool" if kind in ("NodePool", "NodeGroup") else "cluster"
    marks = [f'OnChange("{loss}")'] if replaces else []
    marks += ['OnChange(kept("WHAT TO DO INSTEAD"))'] if kept and not replaces else []
    topics = [
        ("type", shape["type"]),
        ("allowed", ", ".join(map(str, values)) or bounds_text or "any; see the API"),
        ("left out", f"the provider sends {known.defaults[path]!r}" if path in known.defaults else
            "the API decides"),
        ("removed", "the cloud keeps the value: declare it always, or OnChange(kept(...))" if kept
            else f"the provider resets it, but the cloud keeps {block} if nothing is left in it"
            if block in known.kept_when_removed else "the provider resets it"),
        ("changed", f"replaces the {kind}: OnChange" if replaces else "in place, for the provider"),
        *_of_rehearsal(token, path),
        *_of_settings(platform, kind, path),
    ]  # fmt: skip
    return _rendered(topics, _field(kind, path, shape, marks))


def _token(platform: str, kind: str) -> str | None:
    """The type's token; None for an object of a scaler of the platform."""
    cloud = CLOUDS.get(PLATFORMS[platform].cloud or "")
    tokens = [token for token in facts.types() if cloud and token.startswith(f"{cloud.package}:")]
    named = {token.rpartition(":")[2]: token for token in sorted(tokens)}
    if kind not in named and kind not in _scaler_kinds(platform):
        known = [*named, *_scaler_kinds(platform)]
        hint = did_you_mean(kind, known) if known else ""
        of_kubernetes = "the inputs of Kubernetes' own objects are in its API reference"
        raise CheckError(f"{platform} has no type {kind}{hint}; {of_kubernetes}")
    return named.get(kind)


def _scaler_kinds(platform: str) -> Mapping[str, str]:
    """Kind of an object in the cluster that creates nodes -> its scaler."""
    return {
        token.rpartition(":")[2]: name
        for name, scaler in SCALERS.items()
        for token in scaler.nodes
        if scaler.in_cluster and platform in scaler.platforms
    }


@cache
def _definitions() -> Mapping[str, Any]:
    """Kind -> the schema of its newest version."""
    found = {}
    for file in _DEFINITIONS:
        read = yaml.safe_load if file.suffix == ".yaml" else json.loads
        document = read(file.read_text())
        listed = document.get("definitions", [document]) if isinstance(document, dict) else document
        for definition in listed:
            spec = definition["spec"]
            schema = spec["versions"][-1]["schema"]["openAPIV3Schema"]
            found[spec["names"]["kind"]] = schema
    return found


def _in_cluster(kind: str, path: str) -> Mapping[str, Any]:
    """The part of a definition at a path."""
    shape: Mapping[str, Any] = _definitions()[kind]
    for step in path.split("."):
        name, properties = step.removesuffix("[]"), shape.get("properties", {})
        if name not in properties:
            raise CheckError(f"{kind} has no field {path}{did_you_mean(name, properties)}")
        shape = properties[name].get("items", properties[name])
    return shape


def _of_rehearsal(token: str, path: str) -> Iterator[tuple[str, str]]:
    """Whether plugin, simulator and tests know the input, or the file to change."""
    package, name = token.partition(":")[0], path.rpartition(".")[2].removesuffix("[]")
    plugin, api_name = "sends it", name
    if package == "gcp" and token in google.rows():
        renamed = Resource(Client({}), google.rows()[token]).renamed
        field = renamed.get(path.replace("[]", ""), path)
        plugin = f"sends it as {field}" if field else "the provider's own, not sent"
        api_name = (field or name).rpartition(".")[2]
    elif package == "aws" and token in aws.rows():
        if path.partition(".")[0].removesuffix("[]") in aws.rows()[token].unsimulated:
            plugin = "refuses it: take it out of `unsimulated` in gpu_cluster/clouds/rows/aws.yaml"
    else:
        file = f"gpu_cluster/clouds/rows/{facts.FILES[package]}.yaml"
        plugin = f"does not know the type: add a row to {file}"
    yield "plugin", plugin
    folder = _SIMULATORS / facts.FILES[package]
    word = re.compile(rf"\b(?:{api_name}|{name})\b")
    files = [
        file.relative_to(folder).as_posix()
        for file in sorted(folder.rglob("*.py"))
        if word.search(file.read_text())
    ]
    none = f"has no rule for it; what the API refuses or fills in goes to {_RULES[package]}"
    yield "simulator", f"names it in {', '.join(files[:4])}" if files else none
    tested = _TESTED[package]
    where = tested.relative_to(ROOT).as_posix()
    has_step = f'"{name}"' in tested.read_text()
    yield "recorded", f"{'a' if has_step else 'no'} step of {where} has {name}"


def _of_settings(platform: str, kind: str, path: str) -> Iterator[tuple[str, str]]:
    """The settings that send the input, and the scalers of the platform."""
    senders = [
        setting
        for setting in settings_of(platform)
        for marker in setting.marked(Sent)
        if any(_covers(sent, kind, path) for sent in marker.inputs)
    ]
    yield (
        "settings",
        ", ".join(dict.fromkeys(setting.key for setting in senders)) or "none sends it",
    )
    refused = {mark.scaler for setting in senders for mark in setting.marked(NotWith)}
    last = path.rpartition(".")[2].removesuffix("[]")
    nodes = (token for scaler in SCALERS.values() for token in scaler.nodes)
    machines = {_TEMPLATE, *(token.rpartition(":")[2] for token in nodes)}
    for name, scaler in SCALERS.items():
        if platform not in scaler.platforms or not scaler.setting:
            continue
        kinds = [token.rpartition(":")[2] for token in scaler.nodes]
        # `bootDiskType` of a class is the `diskType` of a node pool.
        like = re.compile(rf'"(\w*{last})":', re.IGNORECASE)
        having = [
            f"{other} {found[1]}"
            for other in kinds
            if (found := like.search(json.dumps(_definitions().get(other))))
        ]
        in_groups = kind == _TEMPLATE and scaler.node_groups
        if kind in kinds or not kinds or kind not in machines or in_groups:
            answer = "has it"
        elif having:
            answer = (
                f"has {' and '.join(having)}: send it there too; Sent names it if "
                f"quality/tries.yaml has a start with {name}"
            )
        else:
            answer = f'NotWith("{name}", "WHY")'
        yield f"scaler {name}", answer + (", which a setting says" if name in refused else "")


def _covers(sent: str, kind: str, path: str) -> bool:
    sent_kind, _, sent_path = sent.partition(" ")
    return sent_kind == kind and bool(sent_path) and within(path, sent_path)


def _type_name(sdk_type: Any) -> str:
    if (element := element_of(sdk_type)) is not None:
        return f"list of {_type_name(element)}s"
    return TYPES.get(sdk_type, "map")


def _field(kind: str, path: str, shape: Mapping[str, Any], marks: Sequence[str]) -> str:
    """The field of an args class."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", path.rpartition(".")[2].removesuffix("[]"))
    plain = _PLAIN.get(shape.get("type", ""), "ARGS")
    values = [str(value).lower().replace("_", "-") for value in shape.get("enum", ())]
    hint = f"Literal[{json.dumps(values)[1:-1]}]" if values else plain
    least, most = (shape.get(a, shape.get(b)) for a, b in (("min", "minimum"), ("max", "maximum")))
    limits = [
        f"{word}({value})" for word, value in (("Ge", least), ("Le", most)) if value is not None
    ]
    parts = [f"{hint} | None", *limits, f'Sent("{kind} {path}")', *marks]
    lines = [f"    {name.lower()}: Annotated[", *(f"        {part}," for part in parts)]
    return "\n".join(
        [*lines, "    ] = None", '    """WHAT IT IS, WITH ITS UNIT; WHAT APPLIES BY DEFAULT."""']
    )


def _rendered(topics: Sequence[tuple[str, str]], field: str) -> str:
    width = max(len(topic) for topic, _ in topics) + 2
    return "\n".join([*(f"{topic:{width}}{answer}" for topic, answer in topics), "", field])
