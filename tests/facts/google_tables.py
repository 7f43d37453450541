"""Our tables of Google Cloud beside its discovery documents: each yields a line per difference."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from clouds.read import read
from components.catalog import gke
from components.cluster import Taint
from rehearsal.plugins.cloud import facts
from tests.facts import google_sources as google
from tests.facts import sent

NAMES: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("google_names.yaml").read_text())
STABLE = {"container v1beta1": "container v1", "compute beta": "compute v1"}


def field(token: str, path: str) -> Mapping[str, Any] | None:
    """Google's field for an input of the provider's; None where it has none."""
    api, schema = NAMES[token]["discovery"]
    return google.field_at(api, schema, theirs(token, path))


def theirs(token: str, path: str) -> str:
    """The path by the API's names: of the longest part that has another name there."""
    names = NAMES[token].get("names", {})
    for ours in sorted(names, key=len, reverse=True):
        if path == ours or path.startswith((f"{ours}.", f"{ours}[")):
            return str(names[ours]) + path[len(ours) :]
    return path


def of_the_provider(token: str, path: str) -> bool:
    """Whether the row says that only the provider knows the input."""
    return path.removesuffix(".*") in NAMES[token].get("provider", {})


def types() -> Iterator[tuple[str, Any]]:
    for token in sorted(facts.types()):
        if token in NAMES:
            yield token, facts.of(token)


def described() -> Iterator[str]:
    """Every Google type of `clouds/` has its schema's name here, or a row."""
    for token in sorted(facts.types()):
        if token.startswith("gcp:") and token not in NAMES:
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
        if each.type in NAMES
        for path, value in sent.leaves(each.inputs)
    }
    for token, path, value in sorted(seen):
        yield token, path, json.loads(value)


def enums() -> Iterator[str]:
    """The plugin's allowed values, with the API's. What stands for no value counts for none; if
    the API takes any text, the provider's definitions are enough."""
    defined = {
        path
        for row in read("generated/google")["types"].values()
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
        ("RELEASE_CHANNELS", gke.RELEASE_CHANNELS, "ReleaseChannel", "channel"),
        ("DRIVER_VERSIONS", gke.DRIVER_VERSIONS, "GPUDriverInstallationConfig", "gpuDriverVersion"),
        ("LOCATION_POLICIES", gke.LOCATION_POLICIES, "NodePoolAutoscaling", "locationPolicy"),
        ("SHARING_STRATEGIES", gke.SHARING_STRATEGIES, "GPUSharingConfig", "gpuSharingStrategy"),
        ("RESERVATION_AFFINITIES", gke.RESERVATION_AFFINITIES, "ReservationAffinity",
         "consumeReservationType"),
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
    metrics = [gke.GLOBAL_GPU_QUOTA, *gke.CPU_QUOTAS.values()]
    for row in gke.ACCELERATORS.values():
        metrics += [row.quota_metric, row.quota_metric_preemptible]
    for metric in dict.fromkeys(metrics):
        if metric not in node["enum"]:
            yield f"{metric}: Compute Engine's list lacks it"


def preview_only() -> Iterator[str]:
    """What the program sends that only the beta APIs have: it may go without notice."""
    for token, path, _ in values():
        api, schema = NAMES[token]["discovery"]
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
