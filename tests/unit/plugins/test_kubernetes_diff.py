"""What the Kubernetes offline plugin sees as a change, and what a change takes."""

from typing import Any

import pytest

from gpu_cluster.rehearsal.plugins.kubernetes.differences import covers, parse_path, path_text
from gpu_cluster.rehearsal.plugins.kubernetes.objects import checkpoint
from gpu_cluster.rehearsal.plugins.kubernetes.planning import difference
from gpu_cluster.rehearsal.plugins.kubernetes.resource import Difference, Resource

TOKENS = {
    "ConfigMap": "core/v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "Namespace": "core/v1",
    "Pod": "core/v1",
    "PersistentVolumeClaim": "core/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "Secret": "core/v1",
    "Service": "core/v1",
    "StorageClass": "storage.k8s.io/v1",
    "Widget": "example.com/v1",
}


def resource(kind: str, *ignored: str, suffix: str = "") -> Resource:
    urn = f"urn:pulumi:dev::p::kubernetes:{TOKENS[kind]}:{kind}{suffix}::it"
    return Resource(urn=urn, ignore_changes=ignored)


def obj(kind: str, *, name: str = "it", auto: bool = False, **fields: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "apps"}
    if auto:
        metadata["annotations"] = {"pulumi.com/autonamed": "true"}
    version = TOKENS[kind].removeprefix("core/")
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def diff(
    old: dict[str, Any],
    new: dict[str, Any],
    *ignored: str,
    live: dict[str, Any] | None = None,
    suffix: str = "",
) -> Difference:
    """The difference when `old` was applied, the server kept `live`, and `new` is wanted."""
    kept = {**old, "status": {"phase": "Active"}, **(live or {})}
    kept["metadata"] = {**kept["metadata"], "uid": "1", "resourceVersion": "7"}
    state = checkpoint(old, kept, old, old["apiVersion"], "manager")
    return difference(
        resource(old["kind"], *ignored, suffix=suffix),
        state,
        new,
        scope=lambda kind: True,
    )


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    labels = spec.pop("labels", {"app": "a"})
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "x:1"}]},
    }
    return obj(kind, spec={"selector": {"matchLabels": labels}, "template": template, **spec})


def test_same_inputs_are_no_change() -> None:
    """What the API server fills in beside the inputs is no change."""
    old = workload("Deployment")
    live = {"spec": {**old["spec"], "replicas": 1, "revisionHistoryLimit": 10}}
    assert diff(old, old, live=live).changes == {}


def pod(**spec: Any) -> dict[str, Any]:
    return obj("Pod", spec={"containers": [{"name": "c", "image": "x:1"}], **spec})


def test_autonamed_replacement_creates_first() -> None:
    """Where the name was not the user's choice, the new object comes before the old one goes."""
    old, new = (obj("ConfigMap", auto=True, data={"a": value}) for value in ("1", "2"))
    found = diff(old, new)
    assert found.replaces
    assert not found.delete_before_replace


@pytest.mark.parametrize(
    ("kind", "field", "values", "replaced"),
    [
        ("RoleBinding", "roleRef", ({"name": "a"}, {"name": "b"}), True),
        ("StorageClass", "parameters", ({"type": "a"}, {"type": "b"}), True),
        ("StorageClass", "allowVolumeExpansion", (False, True), False),
        ("Service", "spec", ({"clusterIP": "None"}, {"clusterIP": "10.0.0.1"}), True),
        ("PersistentVolumeClaim", "spec", ({"volumeName": "a"}, {"volumeName": "b"}), True),
        ("Namespace", "spec", ({"finalizers": ["a"]}, {"finalizers": ["b"]}), False),
    ],
)
def test_other_kinds(kind: str, field: str, values: tuple[Any, Any], replaced: bool) -> None:
    """Each kind has its own immutable fields."""
    old, new = (obj(kind, **{field: value}) for value in values)
    found = diff(old, new)
    assert found.changes
    assert bool(found.replaces) is replaced


def test_patch_resources_update_in_place() -> None:
    """A ConfigMapPatch changes somebody else's object, which is never replaced for its data."""
    old, new = (obj("ConfigMap", data={"a": value}) for value in ("1", "2"))
    assert diff(old, new, suffix="Patch").replaces == []


def test_quantities_compare_by_value() -> None:
    """The API server writes 1000m as 1; that is no change."""
    old = pod(overhead={"cpu": "1000m", "memory": "1024Mi"})
    live = {"spec": {**old["spec"], "overhead": {"cpu": "1", "memory": "1Gi"}}}
    assert diff(old, old, live=live).changes == {}


def test_equal_numbers_outside_of_quantities_stay_different() -> None:
    """A label "1000m" is not the label "1"."""
    old, new = (obj("ConfigMap", data={"cpu": value}) for value in ("1000m", "1"))
    assert "data.cpu" in diff(old, new).changes


def test_empty_values_of_custom_resources_count() -> None:
    """A custom resource keeps empty values, so a new one is a change."""
    assert diff(obj("Widget", spec={}), obj("Widget", spec={"on": {}})).changes == {
        "spec.on": ("add", False)
    }


def test_removed_property_is_a_deletion() -> None:
    """A property that the program no longer has goes away."""
    old = obj("ConfigMap", data={"a": "1"})
    old["metadata"]["labels"] = {"team": "x"}
    assert diff(old, obj("ConfigMap", data={"a": "1"})).changes == {
        "metadata.labels": ("delete", False)
    }


def test_drift_of_the_live_object_is_a_change() -> None:
    """What somebody changed on the cluster is changed back, once the state knows of it."""
    old = workload("Deployment", replicas=1)
    live = {"spec": {**old["spec"], "replicas": 3}}
    assert diff(old, old, live=live).changes == {"spec.replicas": ("update", False)}


def test_ignored_changes() -> None:
    """An ignoreChanges path hides its own change and those below it, nothing else."""
    old, new = workload("Deployment", replicas=1), workload("Deployment", replicas=2, paused=True)
    assert diff(old, new, "spec.replicas").changes == {"spec.paused": ("add", False)}
    assert diff(old, new, "spec").changes == {}


def test_string_data_is_compared_with_data() -> None:
    """A Secret's stringData is what the server keeps as base64 in data."""
    old = obj("Secret", stringData={"t": "hush"})
    live = {"data": {"t": "aHVzaA=="}, "type": "Opaque", "stringData": None}
    assert diff(old, old, live=live).changes == {}
    changed = diff(old, obj("Secret", stringData={"t": "psst"}), live=live)
    assert changed.replaces == ["data.t"]


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("spec.replicas", ("spec", "replicas")),
        ('metadata.labels["a.b/c"]', ("metadata", "labels", "a.b/c")),
        ("spec.containers[0].image", ("spec", "containers", 0, "image")),
    ],
)
def test_paths_are_written_as_the_engine_does(written: str, path: tuple[str | int, ...]) -> None:
    """A path survives being written and read."""
    assert path_text(path) == written
    assert parse_path(written) == [str(part) for part in path]
    assert covers(written, (*path, "more"))
    assert not covers(written, path[:-1])
