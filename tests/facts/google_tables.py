"""Our tables of Google Cloud beside its discovery documents: each yields a line per difference."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.clouds.read import read_facts
from gpu_cluster.clouds.rows.google import rows
from gpu_cluster.components.catalog import gke
from gpu_cluster.components.cluster import Taint
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.gcp.client import Client
from gpu_cluster.rehearsal.plugins.gcp.resource import Resource
from gpu_cluster.stacks.capacity.google import CPU_QUOTAS
from tests.facts import google_sources as google
from tests.facts import sent

OWN: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("google_names.yaml").read_text())
STABLE = {"container v1beta1": "container v1", "compute beta": "compute v1"}
POOL = "gcp:container/nodePool:NodePool"


def described_by(token: str) -> tuple[str, str]:
    """API with version, and schema; of the type's row in `gpu_cluster/clouds/`."""
    row = rows()[token]
    return " ".join(row.api).strip(), row.schema


def field(token: str, path: str) -> Mapping[str, Any] | None:
    """Google's field for an input of the provider's; None where it has none."""
    return google.field_at(*described_by(token), theirs(token, path))


def theirs(token: str, path: str) -> str:
    """The path by the API's names: the override's of the longest part that has one, else those by
    which the offline plugin sends its parts."""
    own = OWN.get(token, {}).get("names", {})
    for ours in sorted(own, key=len, reverse=True):
        if path == ours or path.startswith((f"{ours}.", f"{ours}[")):
            return str(own[ours]) + path[len(ours) :]
    if path.startswith("nodePools[]."):
        return f"nodePools[].{theirs(POOL, path.removeprefix('nodePools[].'))}"
    named, row = _renamed(token), rows()[token]
    at, found = "", []
    for step in path.split("."):
        name = step.removesuffix("[]")
        at = f"{at}.{name}" if at else name
        # An entry of a map is any of its fields.
        end = ".any" if name in row.keyed else step[len(name) :]
        found.append((named.get(at) or name) + end)
        at += step[len(name) :]
    return ".".join(found)


@cache
def _renamed(token: str) -> Mapping[str, str | None]:
    return Resource(Client({}), rows()[token]).renamed


def of_the_provider(token: str, path: str) -> bool:
    """Whether only the provider knows the input."""
    path = path.removesuffix(".*")
    unsent = _renamed(token).get(path.removesuffix("[]"), path) is None
    return path in OWN.get(token, {}).get("provider", {}) or (unsent and not field(token, path))


def types() -> Iterator[tuple[str, Any]]:
    for token in sorted(facts.types()):
        if token.startswith("gcp:") and described_by(token)[0]:
            yield token, facts.of(token)


def described() -> Iterator[str]:
    """Every Google type of `gpu_cluster/clouds/` names its API and schema."""
    for token in sorted(facts.types()):
        if token.startswith("gcp:") and not described_by(token)[0]:
            yield f"{token}: no schema of Google's is compared"


def fields() -> Iterator[str]:
    """Every input that `clouds/` lists, and every one that the program sends, exists."""
    for token, known in types():
        for path in sorted(known.immutable | known.enums.keys() | known.bounds.keys()):
            if not of_the_provider(token, path) and field(token, path.removesuffix(".*")) is None:
                yield f"{token} {path}: the API has no such field"
    for token, path, _ in values():
        if not of_the_provider(token, path) and field(token, path) is None:
            yield f"{token} {path}: sent, and the API has no such field"


def values() -> Iterator[tuple[str, str, Any]]:
    """Type, path and value of everything that the program sends."""
    seen = {
        (each.type, path, json.dumps(value))
        for platform in ("gke", "gke-autopilot")
        for each in sent.registered(platform)
        if each.type in rows() and described_by(each.type)[0]
        for path, value in sent.leaves(each.inputs)
    }
    for token, path, value in sorted(seen):
        yield token, path, json.loads(value)


def enums() -> Iterator[str]:
    """The plugin's allowed values, with the API's. What stands for no value counts for none; if
    the API takes any text, the provider's definitions are enough."""
    defined = {
        path
        for row in read_facts("generated/google")["types"].values()
        for path in row.get("definitions", {}).get("enums", ())
    }
    for token, known in types():
        for path, ours in known.enums.items():
            if of_the_provider(token, path):
                continue
            node = field(token, path)
            if node is None or "enum" not in node:
                if path not in defined:
                    yield f"{token} {path}: the API lists no values"
                continue
            yield from _differences(f"{token} {path}", set(ours) - {""}, node)


def values_sent() -> Iterator[str]:
    """Every value that the program sends is one of its field's."""
    for token, path, value in values():
        node = field(token, path)
        if node is not None and "enum" in node and value not in node["enum"]:
            yield f"{token} {path}: {value} is none of {', '.join(node['enum'])}"


def catalog() -> Iterator[str]:
    """The GKE catalog's enums, with the API's."""
    container = "container v1beta1"
    for name, ours, schema, path in (
        ("CHANNEL_DEFAULTS", gke.CHANNEL_DEFAULTS, "ReleaseChannel", "channel"),
        ("SHARING_STRATEGIES", gke.SHARING_STRATEGIES, "GPUSharingConfig", "gpuSharingStrategy"),
        ("TAINT_EFFECTS", _effects(), "NodeTaint", "effect"),
    ):  # fmt: skip
        node = google.field_at(container, schema, path)
        assert node
        yield from _differences(name, set(ours), node)


def dashboards() -> Iterator[str]:
    """Every field of the dashboards that the program sends as text, and every value of an enum."""
    texts = {
        str(each.inputs["dashboardJson"])
        for platform in ("gke", "gke-autopilot")
        for each in sent.registered(platform)
        if each.type == "gcp:monitoring/dashboard:Dashboard"
    }
    found = set()
    for path, value in (leaf for text in sorted(texts) for leaf in sent.leaves(json.loads(text))):
        node = google.field_at("monitoring v1", "Dashboard", path, exact=True)
        if node is None:
            found.add(f"{path}: a dashboard has no such field")
        elif "enum" in node and value not in node["enum"]:
            found.add(f"{path}: {value} is none of {', '.join(node['enum'])}")
    assert texts
    yield from sorted(found)


def _effects() -> list[str]:
    return [
        Taint(key="a", value="b", effect=effect).cloud_effect
        for effect in ("NoSchedule", "PreferNoSchedule", "NoExecute")
    ]


def quotas() -> Iterator[str]:
    """The catalog's quota metrics, on demand and preemptible, with Compute Engine's."""
    node = google.field_at("compute beta", "Quota", "metric")
    assert node
    metrics = [gke.GLOBAL_GPU_QUOTA]
    for row in gke.ACCELERATORS.values():
        metrics += [row.quota_metric, row.quota_metric_preemptible]
    for metric in dict.fromkeys(metrics):
        if metric not in node["enum"]:
            yield f"{metric}: Compute Engine's list lacks it"
    of_families = {
        metric for metric in node["enum"] if re.fullmatch("[A-Z][0-9][A-Z]?_CPUS", metric)
    }
    # E2 counts against the quota of N1; there is no family N2A.
    for metric in (of_families ^ {*CPU_QUOTAS.values()}) - {"E2_CPUS", "N2A_CPUS", "CPUS"}:
        yield f"{metric}: only one of Compute Engine's list and the families' quotas has it"


def preview_only() -> Iterator[str]:
    """What the program sends that only the beta APIs have: it may go without notice."""
    for token, path, _ in values():
        api, schema = described_by(token)
        if (stable := STABLE.get(api)) is None or field(token, path) is None:
            continue
        if google.field_at(stable, schema, theirs(token, path)) is None:
            yield f"{token} {path}: {stable} has no such field"


def _differences(where: str, ours: set[Any], node: Mapping[str, Any]) -> Iterator[str]:
    listed = node["enum"]
    gone = node.get("enumDeprecated", [False] * len(listed))
    current = {value for value, old in zip(listed, gone, strict=True) if not old}
    for value in sorted(current - ours):
        if not _stands_for_none(value):
            yield f"{where}: the API also has {value}"
    for value in sorted(ours - set(listed), key=str):
        yield f"{where}: the API lacks {value}"


def _stands_for_none(value: str) -> bool:
    return value.endswith("UNSPECIFIED")


COMPARISONS = {
    "google types": described,
    "google fields": fields,
    "google enums": enums,
    "google values sent": values_sent,
    "google catalog": catalog,
    "google dashboards": dashboards,
    "google quotas": quotas,
    "google preview only": preview_only,
}
