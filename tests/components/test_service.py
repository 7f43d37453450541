"""A service: its probes, who may call it, how it is replaced and scaled."""

import copy
from typing import Any

import pytest

from tests.components.recording import Recording
from tests.program.environments import recorded, values_of

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
SCALED = "kubernetes:keda.sh/v1alpha1:ScaledObject"
HPA = "kubernetes:autoscaling/v2:HorizontalPodAutoscaler"
KEDA = {"serverAddress": "http://prometheus:9090", "query": "up", "threshold": 2.5}
METRIC = {"name": "waiting", "averageValue": "5"}


def declared(**chat: Any) -> Recording:
    """Dev with the service `chat` alone."""
    values = copy.deepcopy(values_of("dev"))
    base = {"pool": "train-gpu", "image": "example.com/server:1", "port": 8000}
    return recorded(
        values | {"gpu-cluster:workloads": {}, "gpu-cluster:services": {"chat": base | chat}}
    )


def pod(found: Recording) -> Any:
    """The Deployment's pod."""
    return found.one(DEPLOYMENT).inputs["spec"]["template"]["spec"]


def test_an_update_needs_no_spare_gpu() -> None:
    """One pod after the other is replaced, never one more; a drain takes one at a time too."""
    found = declared()
    rolling = found.one(DEPLOYMENT).inputs["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 0, "maxUnavailable": 1}
    budget = found.one("kubernetes:policy/v1:PodDisruptionBudget").inputs["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == found.one(DEPLOYMENT).inputs["spec"]["selector"]


def test_a_model_has_time_to_load() -> None:
    """No other probe counts before the startup probe has succeeded."""
    (container,) = pod(declared(startupSeconds=615, livenessPath="/live"))["containers"]
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 620
    assert startup["httpGet"] == {"path": "/health", "port": "http"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/health"
    assert container["livenessProbe"]["httpGet"]["path"] == "/live"
    assert container["ports"] == [{"name": "http", "containerPort": 8000}]


def test_its_pods_have_no_token_and_no_variables_of_services() -> None:
    """Those would set VLLM_PORT to a URL in the namespace of a Service called vllm."""
    spec = pod(declared())
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False}
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_only_its_namespace_and_its_callers_reach_it() -> None:
    """On its port."""
    policy = declared(callers=["gateway"]).one("kubernetes:networking.k8s.io/v1:NetworkPolicy")
    (rule,) = policy.inputs["spec"]["ingress"]
    label = {"kubernetes.io/metadata.name": "gateway"}
    assert rule["from"] == [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": label}}]
    assert rule["ports"] == [{"port": 8000}]


@pytest.mark.parametrize(
    ("scaling", "kind", "bounds"),
    [
        ({"minReplicas": 0, "maxReplicas": 2, "prometheus": KEDA}, SCALED,
         {"minReplicaCount": 0, "maxReplicaCount": 2}),
        ({"maxReplicas": 2, "metric": METRIC}, HPA, {"minReplicas": 1, "maxReplicas": 2}),
    ],
)  # fmt: skip
def test_an_autoscaler_owns_how_many_pods_there_are(
    scaling: dict[str, Any], kind: str, bounds: dict[str, int]
) -> None:
    """The Deployment begins with the fewest, and a later update leaves their number alone."""
    found = declared(scaling=scaling)
    deployment = found.one(DEPLOYMENT)
    assert [*deployment.ignore_changes] == ["spec.replicas"]
    assert deployment.inputs["spec"]["replicas"] == min(bounds.values())
    spec = found.one(kind).inputs["spec"]
    assert bounds.items() <= spec.items()
    assert spec["scaleTargetRef"]["name"] == "chat"
    assert len(found.of(SCALED)) + len(found.of(HPA)) == 1


def test_keda_gets_numbers_as_text() -> None:
    """A trigger's metadata is a map of texts."""
    scaling = {"maxReplicas": 2, "prometheus": KEDA | {"authentication": "reader"}}
    (trigger,) = declared(scaling=scaling).one(SCALED).inputs["spec"]["triggers"]
    assert trigger["metadata"]["threshold"] == "2.5"
    assert trigger["metadata"]["activationThreshold"] == "0"
    assert trigger["authenticationRef"] == {"name": "reader"}


def test_the_output_says_how_to_reach_it() -> None:
    """By a name that every pod of the cluster resolves."""
    assert declared().outputs["services"] == {
        "chat": {
            "namespace": "default",
            "hostname": "chat.default.svc",
            "port": 8000,
            "url": "http://chat.default.svc:8000",
        }
    }
