"""The Kubernetes plugins against a real API server, spoken to as the engine does.

Only a real API server shows defaults, conflicts, dry runs, finalizers and strict validation. Where
both plugins should behave alike, the official one is tested too (`engine`); tests with `offline`
are about its own messages, and where the official one of January 2026 is less strict.
"""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster import tools
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.plugins.kubernetes import KubernetesProviderServer
from gpu_cluster.rehearsal.plugins.kubernetes.properties import UNKNOWN
from gpu_cluster.rehearsal.plugins.official import running
from gpu_cluster.tools.build import build_programs
from gpu_cluster.tools.programs import program
from tests.rehearsal.kubernetes_engine import Connection, Object, Refused, kubeconfig

pytestmark = pytest.mark.xdist_group("plane")
SKIP = {"pulumi.com/skipAwait": "true"}
APPS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(scope="module")
def config(plane: LocalControlPlane) -> str:
    return kubeconfig(plane.endpoint, plane.ca_certificate, {"token": plane.pki.token})


@pytest.fixture(scope="module")
def server() -> Iterator[KubernetesProviderServer]:
    serving = KubernetesProviderServer(os.environ)
    serving.start()
    yield serving
    serving.stop()


@pytest.fixture
def offline(server: KubernetesProviderServer, config: str) -> Connection:
    return Connection(server.port, kubeconfig=config)


JUDGE = "the official plugin takes minutes to build"


@pytest.fixture(params=["offline", pytest.param("official", marks=pytest.mark.prove(JUDGE))])
def engine(request: pytest.FixtureRequest, config: str) -> Iterator[Connection]:
    """Either plugin."""
    if request.param == "offline":
        yield request.getfixturevalue("offline")
        return
    build_programs([program("kubernetes-provider")])
    with running(tools.binary("pulumi-resource-kubernetes"), {}) as port:
        yield Connection(port, attached=False, kubeconfig=config)


def config_map(name: str, **fields: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields}


def workload(kind: str, name: str, *, annotations: Object | None = None, **spec: Any) -> Object:
    labels = {"app": name}
    pod = {"containers": [{"name": "c", "image": "registry.example/x:1"}]}
    if kind == "Job":
        template: Object = {"spec": {**pod, "restartPolicy": "Never"}}
        body: Object = {"template": template, **spec}
    else:
        template = {"metadata": {"labels": labels}, "spec": pod}
        body = {"selector": {"matchLabels": labels}, "template": template, **spec}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    metadata = {"name": name, "namespace": "default", "annotations": annotations or {}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": body}


def test_created_state(engine: Connection, plane: LocalControlPlane) -> None:
    """The state has the live object, the inputs and the field manager."""
    inputs = engine.check(config_map("made", data={"a": "1"}))
    id, state = engine.create(inputs)
    assert id == "default/made"
    assert state["__inputs"] == inputs
    assert state["__initialApiVersion"] == "v1"
    managers = [field["manager"] for field in state["metadata"]["managedFields"]]
    assert managers == [state["__fieldManager"]]
    assert state["__fieldManager"].startswith("pulumi-kubernetes-")
    live = plane.api.get("/api/v1/namespaces/default/configmaps/made")
    assert live["metadata"]["uid"] == state["metadata"]["uid"]


def test_what_an_update_no_longer_has_is_gone(engine: Connection, plane: LocalControlPlane) -> None:
    """Its field manager is the object's only one."""
    _, state = engine.create(engine.check(config_map("owned", data={"a": "1", "b": "1"})))
    fewer = engine.check(config_map("owned", data={"a": "2"}))
    assert engine.update(state, fewer, preview=True)["data"]["a"] == "2"
    new = engine.update(state, fewer)
    assert new["data"] == {"a": "2"}
    managed = plane.api.get("/api/v1/namespaces/default/configmaps/owned")["metadata"]
    assert [(field["manager"], field["operation"]) for field in managed["managedFields"]] == [
        (state["__fieldManager"], "Apply")
    ]


def test_a_replacement_is_previewed_beside_what_it_replaces(offline: Connection) -> None:
    """Under the same name, with a change that an update of the old object could not make."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
    container = {"name": "c", "image": "registry.example/x:1"}
    offline.create(pod | {"metadata": pod["metadata"] | {"annotations": SKIP},
                         "spec": {"containers": [container]}})  # fmt: skip
    args = pod | {"spec": {"containers": [container | {"args": ["more"]}]}}
    assert offline.create(args, preview=True)[0] == ""
    with pytest.raises(Refused, match="image: Required value"):
        offline.create(pod | {"spec": {"containers": [{"name": "c"}]}}, preview=True)


def test_existing_objects_are_refused(offline: Connection) -> None:
    """An object that is already there is nobody's to create."""
    given = offline.check(config_map("twice"))
    offline.create(given)
    with pytest.raises(Refused, match='configmaps "twice" already exists') as refused:
        offline.create(given)
    assert refused.value.state is None


def test_create_waits_for_its_namespace(engine: Connection) -> None:
    """An object whose namespace is made a moment later is created then."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}}
    soon = threading.Timer(0.4, engine.create, [namespace])
    soon.start()
    given = config_map("early")
    given["metadata"]["namespace"] = "later"
    assert engine.create(given)[0] == "later/early"
    soon.join()


def definition(group: str) -> Object:
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def widget(group: str, **spec: Any) -> Object:
    metadata = {"name": "w", "namespace": "default"}
    return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": metadata, "spec": spec}


def test_custom_resource_of_the_same_update(engine: Connection) -> None:
    """A custom resource is created as soon as its definition, made beside it, is served."""
    given = widget("same.example.com", size=1)
    assert engine.create(given, preview=True) == ("", given)
    soon = threading.Timer(0.2, engine.create, [definition("same.example.com")])
    soon.start()
    assert engine.create(given)[0] == "default/w"
    soon.join()


def test_definitions_are_replaced_in_place(engine: Connection) -> None:
    """A changed definition keeps the custom resources that it has."""
    _, state = engine.create(definition("grow.example.com"))
    engine.create(widget("grow.example.com", size=1))
    more = definition("grow.example.com")
    fields = more["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fields["properties"] = {"size": {"type": "integer"}, "colour": {"type": "string"}}
    engine.update(state, more)
    id, read, _ = engine.read("default/w", widget("grow.example.com"))
    assert (id, read["spec"]) == ("default/w", {"size": 1})


def test_unknown_fields_are_refused(offline: Connection) -> None:
    """A field that the kind does not have is an error, not dropped in silence."""
    given = definition("strict.example.com")
    _, state = offline.create(given)
    with pytest.raises(Refused, match=r"spec\.sise"):
        offline.create(widget("strict.example.com", sise=1))
    given["spec"]["scoop"] = "Cluster"
    with pytest.raises(Refused, match=r'unknown field "spec\.scoop"'):
        offline.update(state, given)


def test_preview_is_a_dry_run(engine: Connection, plane: LocalControlPlane) -> None:
    """A preview shows the server's defaults, without a status, and makes nothing."""
    id, state = engine.create(workload("Deployment", "dry"), preview=True)
    assert id == ""
    assert state["spec"]["progressDeadlineSeconds"] == 600
    assert "status" not in state
    assert all(item["metadata"]["name"] != "dry" for item in plane.api.items(APPS))


def test_preview_refuses_what_the_server_refuses(engine: Connection) -> None:
    """What the API server would not take fails the preview already."""
    bad = workload("Deployment", "bad")
    bad["spec"]["selector"] = {"matchLabels": {"app": "another"}}
    with pytest.raises(Refused, match="`selector` does not match template `labels`"):
        engine.create(bad, preview=True)


@pytest.mark.parametrize("metadata", [{"name": UNKNOWN}, {"name": "a", "namespace": "missing"}])
def test_preview_of_what_cannot_be_known(engine: Connection, metadata: Object) -> None:
    """Unknown inputs, or a namespace that is part of the update, are previewed as they are."""
    given = {**config_map("x"), "metadata": metadata}
    assert engine.create(given, preview=True) == ("", given)


def test_daemon_set_without_nodes_is_ready(engine: Connection) -> None:
    """A DaemonSet that no node wants is up at once."""
    _, state = engine.create(workload("DaemonSet", "nowhere"))
    assert state["status"]["desiredNumberScheduled"] == 0
    assert state["status"]["observedGeneration"] == 1


def test_deployment_that_does_not_come_up(offline: Connection) -> None:
    """A timeout keeps the object in the state and says what its pods wait for; the next update
    waits again."""
    given = workload("Deployment", "stuck")
    started = time.monotonic()
    with pytest.raises(Refused, match="failed to fully initialize or become live") as refused:
        offline.create(given, timeout=2)
    assert 1.8 < time.monotonic() - started < 6
    assert "timed out waiting to be Ready" in refused.value.reasons[0]
    assert any("[Pod default/stuck-" in reason for reason in refused.value.reasons)
    assert any("no nodes available" in reason for reason in refused.value.reasons)
    state = refused.value.state
    assert state is not None
    with pytest.raises(Refused, match="Minimum number of Pods"):
        offline.read("default/stuck", given, state)
    assert offline.update(state, workload("Deployment", "stuck", annotations=SKIP))["spec"]


def test_failed_job_ends_the_wait(engine: Connection, plane: LocalControlPlane) -> None:
    """A Job that fails is not waited for any longer."""
    given = workload("Job", "doomed", backoffLimit=0, activeDeadlineSeconds=1)
    started = time.monotonic()
    with pytest.raises(Refused) as refused:
        engine.create(given)
    assert time.monotonic() - started < 20
    assert refused.value.reasons[1].startswith("[DeadlineExceeded]")


def test_cancel_ends_a_wait(engine: Connection) -> None:
    """Ctrl-C does not wait for a Deployment's ten minutes."""
    soon = threading.Timer(0.5, lambda: engine._call("Cancel", _empty()))
    soon.start()
    started = time.monotonic()
    with pytest.raises(Refused, match="Resource operation was cancelled for"):
        engine.create(workload("Deployment", "endless"))
    assert time.monotonic() - started < 3


def _empty() -> Any:
    from google.protobuf import empty_pb2

    return empty_pb2.Empty()


def test_conflicts(engine: Connection, plane: LocalControlPlane) -> None:
    """A field that another manager owns is not taken, unless the object says so."""
    _, state = engine.create(engine.check(config_map("shared", data={"a": "1"})))
    path = "/api/v1/namespaces/default/configmaps/shared"
    plane.api.apply(path, config_map("shared", data={"a": "theirs"}))
    mine = engine.check(config_map("shared", data={"a": "mine"}))
    with pytest.raises(Refused, match="conflict") as refused:
        engine.update(state, mine)
    assert refused.value.state is not None
    assert refused.value.state["data"] == {"a": "theirs"}
    mine["metadata"]["annotations"] = {"pulumi.com/patchForce": "true"}
    assert engine.update(state, mine)["data"] == {"a": "mine"}


def test_ignored_changes_are_not_reverted(engine: Connection, plane: LocalControlPlane) -> None:
    """An autoscaler's replicas survive an update that changes something else."""
    _, state = engine.create(workload("Deployment", "scaled", annotations=SKIP, replicas=1))
    plane.api.patch(f"{APPS}/scaled", {"spec": {"replicas": 3}})
    more = workload("Deployment", "scaled", annotations=SKIP, replicas=1, minReadySeconds=5)
    new = engine.update(state, more, ignored=("spec.replicas",))
    assert (new["spec"]["replicas"], new["spec"]["minReadySeconds"]) == (3, 5)
    with pytest.raises(Refused, match=r"(?s)conflict.*\.spec\.replicas"):
        engine.update(new, more)


def test_delete_waits_for_finalizers(offline: Connection, plane: LocalControlPlane) -> None:
    """An object that something holds is not reported as gone."""
    held = config_map("held")
    held["metadata"] |= {"namespace": "default", "finalizers": ["example.com/hold"]}
    id, state = offline.create(held)
    with pytest.raises(Refused, match="timed out waiting to be deleted") as refused:
        offline.delete(id, state, timeout=1)
    assert "example.com/hold" in refused.value.reasons[1]
    free = {"metadata": {"finalizers": None}}
    path = "/api/v1/namespaces/default/configmaps/held"
    soon = threading.Timer(0.3, plane.api.patch, [path, free])
    soon.start()
    offline.delete(id, state, timeout=10)
    soon.join()
    assert offline.read(id, held, state)[0] == ""
    offline.delete(id, state)


def test_skip_await_on_delete(engine: Connection, plane: LocalControlPlane) -> None:
    """A workload with skipAwait is not waited for at its end either, as it always was."""
    given = workload("Deployment", "left", annotations=SKIP)
    given["metadata"]["finalizers"] = ["example.com/hold"]
    id, state = engine.create(given)
    engine.delete(id, state)
    assert engine.read(id, given, state)[0] == id
    plane.api.patch(f"{APPS}/left", {"metadata": {"finalizers": None}})


def test_patch_resources_give_back(engine: Connection, plane: LocalControlPlane) -> None:
    """A NamespacePatch adds its label to somebody else's namespace and takes only that away."""
    path = "/api/v1/namespaces/kube-public"
    patch: Object = {"apiVersion": "v1", "kind": "Namespace"}
    patch["metadata"] = {"name": "kube-public", "labels": {"team": "gpu"}}
    token = "kubernetes:core/v1:NamespacePatch"
    id, state = engine.create(patch, token=token)
    assert plane.api.get(path)["metadata"]["labels"]["team"] == "gpu"
    engine.delete(id, state, token=token)
    assert "team" not in plane.api.get(path)["metadata"]["labels"]


def test_read_sees_drift_and_imports(engine: Connection, plane: LocalControlPlane) -> None:
    """A refresh finds the changed value of what the program speaks about; an import everything."""
    id, state = engine.create(engine.check(config_map("drift", data={"a": "1"})))
    path = "/api/v1/namespaces/default/configmaps/drift"
    plane.api.patch(path, {"data": {"a": "2", "b": "3"}})
    _, read, inputs = engine.read(id, config_map("drift"), state)
    assert (inputs["data"], read["data"]) == ({"a": "2"}, {"a": "2", "b": "3"})
    _, _, imported = engine.read(id, {"apiVersion": "v1", "kind": "ConfigMap"})
    assert imported["data"] == {"a": "2", "b": "3"}
    assert imported["metadata"] == {"name": "drift", "namespace": "default"}


def test_providers_do_not_mix(server: KubernetesProviderServer, config: str) -> None:
    """Two provider resources on one server keep their own configuration."""
    one, other = (
        Connection(server.port, kubeconfig=config, namespace=name) for name in ("one", "other")
    )
    broken = Connection(server.port, kubeconfig="/nowhere")
    assert one.check(config_map("a"))["metadata"]["namespace"] == "one"
    assert other.check(config_map("a"))["metadata"]["namespace"] == "other"
    with pytest.raises(Refused, match="configured Kubernetes cluster is unreachable: failed to pa"):
        broken.create(config_map("a"))


def test_unreachable_cluster(
    server: KubernetesProviderServer, config: str, plane: LocalControlPlane
) -> None:
    """Nothing is done on an unreachable cluster."""
    gone = config.replace(plane.endpoint, "127.0.0.1:1")
    state = {**config_map("a"), "__inputs": config_map("a")}
    plain = Connection(server.port, kubeconfig=gone)
    for operation in (
        lambda: plain.create(config_map("a")),
        lambda: plain.update(state, config_map("a")),
        lambda: plain.delete("default/a", state),
        lambda: plain.read("default/a", config_map("a"), state),
    ):
        with pytest.raises(Refused, match="configured Kubernetes cluster is unreachable"):
            operation()


def test_exec_plugins_run(tmp_path: Path, plane: LocalControlPlane) -> None:
    """A kubeconfig's exec plugin is found on the given PATH and brings the credentials."""
    answer = '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", '
    answer += f'"status": {{"token": "{plane.pki.token}"}}}}'
    script = tmp_path / "cloud-auth-plugin"
    script.write_text(f"#!/bin/sh\necho '{answer}'\n")
    script.chmod(0o755)
    version = "client.authentication.k8s.io/v1beta1"
    user = {"exec": {"apiVersion": version, "command": "cloud-auth-plugin", "args": []}}
    text = kubeconfig(plane.endpoint, plane.ca_certificate, user)
    for path, works in ((str(tmp_path), True), ("/nowhere", False)):
        serving = KubernetesProviderServer({"PATH": f"{path}:/bin"})
        serving.start()
        try:
            engine = Connection(serving.port, kubeconfig=text)
            if works:
                assert engine.create(config_map("by-exec"), preview=True)[1]["metadata"]["uid"]
            else:
                with pytest.raises(Refused, match="exec: cloud-auth-plugin gave no credentials"):
                    engine.create(config_map("by-exec"))
        finally:
            serving.stop()
