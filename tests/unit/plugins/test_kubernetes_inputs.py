"""What the Kubernetes offline plugin makes of a resource's inputs, and of properties on the
wire."""

from typing import Any

import pytest

from gpu_cluster.rehearsal.plugins.cloud.wire import encode
from gpu_cluster.rehearsal.plugins.cloud.wire import secret as secret_of
from gpu_cluster.rehearsal.plugins.kubernetes import schema
from gpu_cluster.rehearsal.plugins.kubernetes.objects import checkpoint, parse_checkpoint
from gpu_cluster.rehearsal.plugins.kubernetes.planning import checked
from gpu_cluster.rehearsal.plugins.kubernetes.properties import UNKNOWN, decode, has_unknown, plain
from gpu_cluster.rehearsal.plugins.kubernetes.resource import ProviderError, Resource


def check(
    token: str,
    inputs: dict[str, Any],
    old: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return checked(
        Resource(urn=f"urn:pulumi:dev::p::parent$kubernetes:{token}::it"),
        old or {},
        inputs,
        namespace="default",
        scope=lambda kind: kind.kind != "Galaxy",
        seed=bytes.fromhex("0123456789abcdef"),
    )


def config_map(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", **fields}


def test_unnamed_objects_get_a_name() -> None:
    """A name is the resource's and eight hexadecimal digits, and is marked as made up."""
    inputs = check("core/v1:ConfigMap", config_map(metadata={"labels": {"a": "b"}}))
    assert inputs["metadata"] == {
        "name": "it-01234567",
        "namespace": "default",
        "labels": {"a": "b"},
        "annotations": {"pulumi.com/autonamed": "true"},
    }


def test_autonamed_objects_keep_their_name() -> None:
    """The next update finds the object under the name that the first one gave it."""
    first = check("core/v1:ConfigMap", config_map())
    first["metadata"]["name"] = "it-feedbeef"
    again = check("core/v1:ConfigMap", config_map(), first)
    assert again["metadata"]["name"] == "it-feedbeef"


def test_given_names_stay() -> None:
    """A name that the user chose is not annotated."""
    inputs = check("core/v1:ConfigMap", config_map(metadata={"name": "mine"}))
    assert inputs["metadata"] == {"name": "mine", "namespace": "default"}


def test_unknown_names_stay_unknown() -> None:
    """A name that comes from another resource is not replaced by a made-up one."""
    inputs = check("core/v1:ConfigMap", config_map(metadata={"name": UNKNOWN}))
    assert inputs["metadata"]["name"] == UNKNOWN


def test_unknown_metadata_stay_unknown() -> None:
    """Metadata that come from another resource whole are not named, and not refused."""
    inputs = check("core/v1:ConfigMap", config_map(metadata=UNKNOWN))
    assert inputs["metadata"] == UNKNOWN


@pytest.mark.parametrize(
    ("token", "kind", "namespace"),
    [
        ("core/v1:Namespace", "Namespace", None),
        ("rbac.authorization.k8s.io/v1:ClusterRole", "ClusterRole", None),
        ("core/v1:ConfigMap", "ConfigMap", "default"),
        ("example.com/v1:Widget", "Widget", "default"),
        ("example.com/v1:Galaxy", "Galaxy", None),
    ],
)
def test_only_namespaced_kinds_get_a_namespace(
    token: str, kind: str, namespace: str | None
) -> None:
    """A namespace is filled in where the kind lives in one."""
    version = token.partition(":")[0].removeprefix("core/")
    inputs = check(token, {"apiVersion": version, "kind": kind})
    assert inputs["metadata"].get("namespace") == namespace


def test_patch_resources_name_their_object() -> None:
    """A ConfigMapPatch is checked as the ConfigMap that it patches."""
    given = config_map(metadata={"name": "theirs"}, data={"a": "1"})
    inputs = check("core/v1:ConfigMapPatch", given)
    assert inputs["metadata"] == {"name": "theirs", "namespace": "default"}
    with pytest.raises(ProviderError, match=r"patch resources require the `\.metadata\.name`"):
        check("core/v1:ConfigMapPatch", config_map())


def test_secrets_stay_secret_in_inputs_and_state() -> None:
    """A Secret's stringData is secret in the inputs, and so is the data that it becomes."""
    text = {"t": secret_of("hush"), "u": "open"}
    given = {"apiVersion": "v1", "kind": "Secret", "stringData": text}
    inputs = check("core/v1:Secret", given)
    assert inputs["stringData"] == text
    live = {"apiVersion": "v1", "kind": "Secret", "data": {"t": "aHVzaA==", "u": "b3Blbg=="}}
    state = checkpoint(plain(inputs), live, inputs, "v1", "m")
    assert state["data"] == {"t": secret_of("aHVzaA=="), "u": "b3Blbg=="}
    assert state["__inputs"]["stringData"]["t"] == secret_of("hush")


def test_state_survives_the_wire() -> None:
    """What the engine stores and sends back is what the provider made."""
    inputs = config_map(metadata={"name": "a"}, data={"n": "1"}, x=[1, 2.5, True, {"y": "z"}])
    live = {**inputs, "status": {"observedGeneration": 3}}
    state = decode(encode(checkpoint(inputs, live, {"data": secret_of({})}, "v1", "m")))
    assert state["data"] == secret_of({"n": "1"})
    assert state["__fieldManager"] == "m"
    assert parse_checkpoint(state) == (inputs, live)


def test_unknowns_survive_the_wire() -> None:
    """An unknown value stays unknown, also inside a secret."""
    sent = {"a": UNKNOWN, "b": [secret_of(UNKNOWN)]}
    received = decode(encode(sent))
    assert received == sent
    assert has_unknown(received["b"])
    assert not has_unknown({"b": [secret_of("known")]})


def test_definitions_get_their_dashes_back() -> None:
    """A CustomResourceDefinition's x_kubernetes_* properties are sent as x-kubernetes-*."""
    inputs = {"spec": {"x_kubernetes_preserve_unknown_fields": True}}
    state = checkpoint(
        *2 * [{"spec": {"x-kubernetes-preserve-unknown-fields": True}}], {}, "v1", "m"
    )
    assert state["spec"] == inputs["spec"]
    assert parse_checkpoint(state)[1]["spec"] == {"x-kubernetes-preserve-unknown-fields": True}


def test_every_builtin_kind_of_the_program_is_known() -> None:
    """The classes that hold a kind's inputs are found by its type token alone."""
    for token in ("core/v1:Pod", "apps/v1:DaemonSet", "scheduling.k8s.io/v1:PriorityClass",
                  "rbac.authorization.k8s.io/v1:ClusterRole", "networking.k8s.io/v1:Ingress",
                  "apiextensions.k8s.io/v1:CustomResourceDefinition"):  # fmt: skip
        assert schema.input_class(f"kubernetes:{token}") is not None, token
    assert schema.input_class("kubernetes:apps.example.com/v1:DaemonSet") is None
