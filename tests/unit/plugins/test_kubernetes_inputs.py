"""What the Kubernetes offline plugin makes of a resource's inputs, and of properties on the
wire."""

from typing import Any

import pytest

from rehearsal.plugins.kubernetes import schema, wire
from rehearsal.plugins.kubernetes.objects import checkpoint, parse_checkpoint
from rehearsal.plugins.kubernetes.planning import checked
from rehearsal.plugins.kubernetes.resource import Autonaming, ProviderError, Resource
from rehearsal.plugins.kubernetes.wire import UNKNOWN, Secret

POD = {"containers": [{"name": "c", "image": "x"}]}


def check(
    token: str,
    inputs: dict[str, Any],
    old: dict[str, Any] | None = None,
    *,
    namespace: str = "default",
    autonaming: Autonaming | None = None,
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    return checked(
        Resource(urn=f"urn:pulumi:dev::p::parent$kubernetes:{token}::it"),
        old or {},
        inputs,
        namespace=namespace,
        scope=lambda kind: kind.kind != "Galaxy",
        seed=bytes.fromhex("0123456789abcdef"),
        autonaming=autonaming,
    )


def config_map(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", **fields}


def test_unnamed_objects_get_a_name() -> None:
    """A name is the resource's and eight hexadecimal digits, and is marked as made up."""
    inputs, faults = check("core/v1:ConfigMap", config_map(metadata={"labels": {"a": "b"}}))
    assert faults == []
    assert inputs["metadata"] == {
        "name": "it-01234567",
        "namespace": "default",
        "labels": {"a": "b"},
        "annotations": {"pulumi.com/autonamed": "true"},
    }


def test_autonamed_objects_keep_their_name() -> None:
    """The next update finds the object under the name that the first one gave it."""
    first, _ = check("core/v1:ConfigMap", config_map())
    first["metadata"]["name"] = "it-feedbeef"
    again, _ = check("core/v1:ConfigMap", config_map(), first)
    assert again["metadata"]["name"] == "it-feedbeef"


def test_given_names_stay() -> None:
    """A name that the user chose is not annotated."""
    inputs, _ = check("core/v1:ConfigMap", config_map(metadata={"name": "mine"}))
    assert inputs["metadata"] == {"name": "mine", "namespace": "default"}


def test_unknown_names_stay_unknown() -> None:
    """A name that comes from another resource is not replaced by a made-up one."""
    inputs, _ = check("core/v1:ConfigMap", config_map(metadata={"name": UNKNOWN}))
    assert inputs["metadata"]["name"] is UNKNOWN


def test_unknown_metadata_stay_unknown() -> None:
    """Metadata that come from another resource whole are not named, and not refused."""
    inputs, faults = check("core/v1:ConfigMap", config_map(metadata=UNKNOWN))
    assert faults == []
    assert inputs["metadata"] is UNKNOWN


def test_autonaming_configuration() -> None:
    """The engine's proposed name is taken; with autonaming off a name is required."""
    named = Autonaming(mode="enforce", name="chosen")
    assert (
        check("core/v1:ConfigMap", config_map(), autonaming=named)[0]["metadata"]["name"]
        == "chosen"
    )
    with pytest.raises(ProviderError, match="autonaming is disabled, resource requires the"):
        check("core/v1:ConfigMap", config_map(), autonaming=Autonaming(mode="disable", name=""))


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
    inputs, faults = check(token, {"apiVersion": version, "kind": kind})
    assert faults == []
    assert inputs["metadata"].get("namespace") == namespace


def daemon_set(**spec: Any) -> dict[str, Any]:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {**POD, **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


@pytest.mark.parametrize(
    ("spec", "path", "reason"),
    [
        ({"nodeSelektor": {}}, "spec.template.spec.nodeSelektor", "unknown property"),
        ({"containers": [{"image": "x"}]}, "spec.template.spec.containers[0].name", "missing"),
        ({"hostPID": "yes"}, "spec.template.spec.hostPID", "'yes' is given, a boolean is wanted"),
        (
            {"containers": {}},
            "spec.template.spec.containers",
            "an object is given, a list is wanted",
        ),
        ({"nodeSelector": ["a"]}, "spec.template.spec.nodeSelector", "a list is given"),
        ({"nodeSelector": {"a": True}}, "spec.template.spec.nodeSelector.a", "a string is wanted"),
        ({"priority": 1.5}, "spec.template.spec.priority", "an integer is wanted"),
        ({"tolerations": ["all"]}, "spec.template.spec.tolerations[0]", "an object is wanted"),
    ],
)
def test_wrong_inputs_are_refused_with_their_path(
    spec: dict[str, Any], path: str, reason: str
) -> None:
    """What the SDK's classes do not have, miss or type otherwise is one fault with its path."""
    _, faults = check("apps/v1:DaemonSet", daemon_set(**spec))
    assert [fault[0] for fault in faults] == [path]
    assert reason in faults[0][1]


def test_right_inputs_have_no_faults() -> None:
    """Secrets, unknowns, whole numbers for names and free-form maps are all right."""
    spec = {
        "nodeSelector": {"nvidia.com/gpu": Secret("true")},
        "tolerations": [{"key": UNKNOWN, "operator": "Exists"}],
        "containers": [
            {
                "name": "c",
                "livenessProbe": {"httpGet": {"port": "http"}},
                "readinessProbe": {"httpGet": {"port": 8080}},
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ],
    }
    assert check("apps/v1:DaemonSet", daemon_set(**spec))[1] == []


def test_object_of_another_kind_is_refused() -> None:
    """A resource's type and its object's kind are the same thing said twice."""
    inputs = config_map(kind="Secret")
    _, faults = check("core/v1:ConfigMap", inputs)
    assert (
        "kind",
        "v1/Secret is given in a resource of type kubernetes:core/v1:ConfigMap",
    ) in faults


def test_bad_wait_for_is_refused() -> None:
    """A waitFor annotation that means nothing is found before anything is made."""
    metadata = {"name": "a", "annotations": {"pulumi.com/waitFor": "Ready"}}
    _, faults = check("core/v1:ConfigMap", config_map(metadata=metadata))
    assert 'expected a "jsonpath=" or "condition=" prefix, got "Ready"' in faults[0][1]


@pytest.mark.parametrize(
    ("token", "inputs", "message"),
    [
        ("helm.sh/v3:Release", {}, "the offline plugin has no Helm"),
        ("yaml:ConfigFile", {}, "use the plain resources instead"),
        ("core/v1:ConfigMapList", {"kind": "ConfigMapList"}, "list resources exist for compat"),
        ("core/v1:ConfigMapPatch", config_map(), "patch resources require the `.metadata.name`"),
        ("core/v1:ConfigMap", config_map(metadata={"generateName": "a-"}), "generateName"),
    ],
)
def test_what_it_does_not_play(token: str, inputs: dict[str, Any], message: str) -> None:
    """Types that the offline plugin does not simulate are refused, not half done."""
    with pytest.raises(ProviderError, match=message):
        check(token, inputs)


def test_patch_resources_name_their_object() -> None:
    """A ConfigMapPatch is checked as the ConfigMap that it patches."""
    given = config_map(metadata={"name": "theirs"}, data={"a": "1"})
    inputs, faults = check("core/v1:ConfigMapPatch", given)
    assert faults == []
    assert inputs["metadata"]["namespace"] == "default"


def test_secrets_stay_secret_in_inputs_and_state() -> None:
    """A Secret's stringData is secret in the inputs, and so is the data that it becomes."""
    given = {"apiVersion": "v1", "kind": "Secret", "stringData": {"t": Secret("hush"), "u": "open"}}
    inputs, _ = check("core/v1:Secret", given)
    assert inputs["stringData"] == {"t": Secret("hush"), "u": "open"}
    live = {"apiVersion": "v1", "kind": "Secret", "data": {"t": "aHVzaA==", "u": "b3Blbg=="}}
    state = checkpoint(wire.plain(inputs), live, inputs, "v1", "m")
    assert state["data"] == {"t": Secret("aHVzaA=="), "u": "b3Blbg=="}
    assert state["__inputs"]["stringData"]["t"] == Secret("hush")


def test_state_survives_the_wire() -> None:
    """What the engine stores and sends back is what the provider made."""
    inputs = config_map(metadata={"name": "a"}, data={"n": "1"}, x=[1, 2.5, True, {"y": "z"}])
    live = {**inputs, "status": {"observedGeneration": 3}}
    state = wire.decode(wire.encode(checkpoint(inputs, live, {"data": Secret({})}, "v1", "m")))
    assert state["data"] == Secret({"n": "1"})
    assert state["__fieldManager"] == "m"
    assert parse_checkpoint(state) == (inputs, live)


def test_unknowns_survive_the_wire() -> None:
    """An unknown value stays unknown, also inside a secret."""
    sent = {"a": UNKNOWN, "b": [Secret(UNKNOWN)]}
    received = wire.decode(wire.encode(sent))
    assert received == sent
    assert wire.has_unknown(received["b"])
    assert not wire.has_unknown({"b": [Secret("known")]})


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
