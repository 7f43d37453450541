"""When the Kubernetes offline plugin says that an object is up."""

from typing import Any

import pytest

from gpu_cluster.rehearsal.plugins.kubernetes import objects, readiness
from gpu_cluster.rehearsal.plugins.kubernetes.objects import Kind
from gpu_cluster.rehearsal.plugins.kubernetes.readiness import Verdict


class Others:
    """The other objects on a cluster that has just these."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.items = list(items)

    def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        return next(item for item in self.items if item["metadata"]["name"] == name)

    def list(self, kind: Kind, namespace: str, selector: str) -> list[dict[str, Any]]:
        return [item for item in self.items if item["kind"] == kind.kind]


def verdict(
    api_version: str, kind: str, *others: dict[str, Any], generation: int = 1, **fields: Any
) -> Verdict:
    metadata = {"name": "it", "namespace": "apps", "generation": generation}
    metadata |= fields.pop("metadata", {})
    obj = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
    rule = readiness.rule_for(obj)
    return readiness.READY if rule is None else rule(obj, Others(*others))


def condition(
    kind: str, status: str = "True", reason: str = "", message: str = ""
) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def daemon_set(wanted: int, there: int, observed: int = 1) -> dict[str, Any]:
    counts = ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
    return {
        "observedGeneration": observed,
        "desiredNumberScheduled": wanted,
        **dict.fromkeys(counts, there),
    }


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({}, False),
        (daemon_set(0, 0), True),
        (daemon_set(2, 2), True),
        (daemon_set(2, 1), False),
        (daemon_set(0, 0, observed=0), False),
        ({**daemon_set(1, 1), "updatedNumberScheduled": 0}, False),
    ],
)
def test_daemon_set(status: dict[str, Any], ready: bool) -> None:
    """A DaemonSet is up when all its nodes have a ready pod, also when it has no nodes."""
    assert verdict("apps/v1", "DaemonSet", status=status).ready is ready


AVAILABLE = condition("Available")
ROLLED_OUT = condition("Progressing", reason="NewReplicaSetAvailable")


@pytest.mark.parametrize(
    ("conditions", "observed", "ready"),
    [
        ([AVAILABLE, ROLLED_OUT], 2, True),
        ([AVAILABLE, ROLLED_OUT], 1, False),
        ([AVAILABLE, condition("Progressing", reason="ReplicaSetUpdated")], 2, False),
        ([condition("Available", "False"), ROLLED_OUT], 2, False),
        ([AVAILABLE, condition("Progressing", "False", "ProgressDeadlineExceeded")], 2, False),
        ([], 2, False),
    ],
)
def test_deployment(conditions: list[dict[str, str]], observed: int, ready: bool) -> None:
    """A Deployment is up when this generation's ReplicaSet has taken over and is available."""
    status = {"conditions": conditions, "observedGeneration": observed}
    found = verdict("apps/v1", "Deployment", generation=2, status=status)
    assert found.ready is ready
    assert not found.failed


def test_job() -> None:
    """A Job is up when it is complete, and has failed as soon as it says so."""
    assert not verdict("batch/v1", "Job", status={}).failed
    assert verdict("batch/v1", "Job", status={"conditions": [condition("Complete")]}).ready
    failure = condition("Failed", reason="BackoffLimitExceeded", message="too often")
    failed = verdict("batch/v1", "Job", status={"conditions": [failure]})
    assert failed == Verdict(False, "[BackoffLimitExceeded] too often", failed=True)


def test_pod() -> None:
    """A Pod is up when it is scheduled, initialized and ready, or has succeeded."""
    unschedulable = condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")
    found = verdict("v1", "Pod", status={"conditions": [unschedulable]})
    assert found.reason == "[Unschedulable] 0/1 nodes are available"
    up = [condition(name) for name in ("PodScheduled", "Initialized", "Ready")]
    assert verdict("v1", "Pod", status={"conditions": up}).ready
    assert not verdict("v1", "Pod", status={"conditions": up[:2]}).ready
    assert verdict("v1", "Pod", status={"phase": "Succeeded"}).ready


def slice_of(ready: bool) -> dict[str, Any]:
    endpoints = [{"conditions": {"ready": ready}}]
    return {"kind": "EndpointSlice", "metadata": {"name": "s"}, "endpoints": endpoints}


@pytest.mark.parametrize(
    ("spec", "status", "others", "ready"),
    [
        ({"selector": {"a": "b"}}, {}, [slice_of(True)], True),
        ({"selector": {"a": "b"}}, {}, [slice_of(False)], False),
        ({"selector": {"a": "b"}}, {}, [], False),
        ({"selector": {"a": "b"}, "clusterIP": "None"}, {}, [], True),
        ({"selector": {"a": "b"}, "type": "ExternalName"}, {}, [], True),
        ({}, {}, [], True),
        ({"type": "LoadBalancer"}, {}, [], False),
        ({"type": "LoadBalancer"}, {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}, [], True),
    ],
)
def test_service(
    spec: dict[str, Any], status: dict[str, Any], others: list[dict[str, Any]], ready: bool
) -> None:
    """A Service is up when a ready pod backs it and its load balancer is there, if it has one."""
    assert verdict("v1", "Service", *others, spec=spec, status=status).ready is ready


@pytest.mark.parametrize(
    ("phase", "mode", "ready"),
    [
        ("Bound", "Immediate", True),
        ("Pending", "WaitForFirstConsumer", True),
        ("Pending", "Immediate", False),
    ],
)
def test_claim(phase: str, mode: str, ready: bool) -> None:
    """A claim is up when it is bound, or when its class waits for the first pod."""
    storage = {"kind": "StorageClass", "metadata": {"name": "fast"}, "volumeBindingMode": mode}
    spec, status = {"storageClassName": "fast"}, {"phase": phase}
    assert verdict("v1", "PersistentVolumeClaim", storage, spec=spec, status=status).ready is ready


def test_quota() -> None:
    """A quota is up when the server enforces it, in whatever spelling."""
    spec, status = {"hard": {"cpu": "1000m"}}, {"hard": {"cpu": "1"}}
    assert verdict("v1", "ResourceQuota", spec=spec, status=status).ready
    assert not verdict("v1", "ResourceQuota", spec=spec, status={}).ready


def test_other_kinds_are_up_at_once() -> None:
    """What has no rule is up as soon as it exists, a custom resource too."""
    for version, kind in (("v1", "ConfigMap"), ("example.com/v1", "Widget"), ("v1", "Namespace")):
        assert verdict(version, kind).ready


def waits_for(expression: str, **status: Any) -> Verdict:
    metadata = {"annotations": {readiness.WAIT_FOR: expression}}
    return verdict("example.com/v1", "Widget", metadata=metadata, status=status)


@pytest.mark.parametrize(
    ("expression", "status", "ready"),
    [
        ("condition=Synced", {"conditions": [condition("Synced")]}, True),
        ("condition=synced", {"conditions": [condition("Synced")]}, True),
        ("condition=Synced", {"conditions": [condition("Synced", "False")]}, False),
        ("condition=Synced=False", {"conditions": [condition("Synced", "False")]}, True),
        ("condition=Synced", {}, False),
        ("jsonpath={.status.phase}=Running", {"phase": "Running"}, True),
        ("jsonpath={.status.phase}=Running", {"phase": "Pending"}, False),
        ("jsonpath={.status.phase}", {"phase": "Pending"}, True),
        ("jsonpath={.status.phase}", {}, False),
        ("jsonpath={.status.n}=1", {"n": 1}, True),
    ],
)
def test_wait_for(expression: str, status: dict[str, Any], ready: bool) -> None:
    """The waitFor annotation says what to wait for, a path or a condition."""
    assert waits_for(expression, **status).ready is ready


def test_wait_for_beats_the_kind() -> None:
    """A DaemonSet that waits for a path of its own is not held up by its pods."""
    metadata = {"annotations": {readiness.WAIT_FOR: "jsonpath={.status.desiredNumberScheduled}=0"}}
    status = {"desiredNumberScheduled": 0}
    assert verdict("apps/v1", "DaemonSet", metadata=metadata, status=status).ready


@pytest.mark.parametrize("bad", ["Ready", "jsonpath=.status.phase", "[]"])
def test_bad_wait_for(bad: str) -> None:
    """An expression that means nothing is an error, not a wait that never ends."""
    with pytest.raises(ValueError, match=readiness.WAIT_FOR):
        waits_for(bad)


def test_timeouts() -> None:
    """customTimeouts beat the annotation, which beats ten minutes; volumes have five."""
    said = {"metadata": {"annotations": {objects.TIMEOUT_SECONDS: "30"}}}
    assert objects.timeout_seconds(said, 5.0) == 5.0
    assert objects.timeout_seconds(said, 0.0) == 30.0
    assert objects.timeout_seconds({}, 0.0) is None
    assert readiness.default_seconds({"apiVersion": "v1", "kind": "Pod"}) == 600.0
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    assert readiness.default_seconds(claim) == 300.0
