"""Services from zero pods and nodes to some and back, with the real API server and its controllers.

Kubernetes' HorizontalPodAutoscaler runs, without metrics; KEDA does not. The rehearsal changes the
scale in their place.
"""

import copy
import json
from typing import Any

import pytest

from gpu_cluster.rehearsal.control_plane import keda
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.report.report import node_lives
from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.rehearsal.scenario import Rehearsal
from tests.program.environments import recorded, values_of
from tests.rehearsal.conftest import configured, up

IMAGE = "docker.io/vllm/vllm-openai:v0.11.0"
KEDA = {"serverAddress": "http://prometheus.monitoring:9090", "query": "up", "threshold": 5}
METRIC = {"name": "vllm_num_requests_waiting", "averageValue": "5"}


def with_services(config: dict[str, Any]) -> None:
    """Dev with `chat`, which KEDA scales from zero, and `rank` on a pool of its own."""
    pools = config["gpu-cluster:gpuPools"]
    pools["other-gpu"] = {**pools["train-gpu"], "labels": {"role": "other-gpu"}, "maxNodes": 2}
    config["gpu-cluster:workloads"] = {}
    config["gpu-cluster:services"] = {
        "chat": {
            "pool": "train-gpu",
            "image": IMAGE,
            "port": 8000,
            "scaling": {"minReplicas": 0, "maxReplicas": 2, "prometheus": KEDA},
        },
        "rank": {
            "pool": "other-gpu",
            "image": IMAGE,
            "port": 8000,
            "scaling": {"maxReplicas": 2, "metric": METRIC},
        },
    }


def test_services_go_from_zero_to_some_and_back(tmp_path: Any) -> None:
    """The nodes follow, a second `up` leaves the number of pods alone, and destroy leaves
    nothing."""
    with Sandbox("dev", folder=tmp_path / "sandbox", mutate=configured(with_services)) as sandbox:
        rehearsal = Rehearsal(sandbox=sandbox, deadline=120)
        assert rehearsal.run_until_ready(), rehearsal.failures
        steps = {step.name: step for step in rehearsal.steps}
        assert steps["services scale out"].detail == "chat has 2 pods, rank has 2 pods"
        assert steps["idempotency"].detail == "no changes"
        assert steps["services scale in"].detail.startswith("chat has 0 pods, rank has 1 pods")
        lives = [life for life in node_lives(sandbox.event_log.events) if life.gpus]
        out, back = steps["services scale out"].began, steps["services scale in"].began
        before = [life.group for life in lives if life.joined < out]
        assert len(before) == 1
        assert "other" in before[0]
        came = [life for life in lives if out < life.joined < back]
        assert len(came) == 3
        left = [life for life in lives if life.left is not None and life.left > back]
        assert sum("train" in life.group for life in left) == 2
        assert sandbox.engine.outputs()["services"]["chat"]["url"] == "http://chat.default.svc:8000"
        assert _with_two_pods_each(sandbox) == {"chat": 2, "rank": 2}
        rehearsal.teardown()
        assert rehearsal.failures == []


def _with_two_pods_each(sandbox: Sandbox) -> dict[str, int]:
    """How many pods the services are to have once `replicas` takes the place of `scaling`: until
    then others decided it, and Kubernetes calls that a conflict."""

    def fixed(config: dict[str, Any]) -> None:
        for service in config["gpu-cluster:services"].values():
            del service["scaling"]
            service["replicas"] = 2

    up(sandbox, configured(fixed))
    items = sandbox.control_plane.api.items("/apis/apps/v1/namespaces/default/deployments")
    return {item["metadata"]["name"]: item["spec"]["replicas"] for item in items}


@pytest.mark.xdist_group("plane")
def test_kubernetes_itself_refuses_zero_pods_by_a_metric(plane: LocalControlPlane) -> None:
    """As the settings say, for the version that a rehearsal runs; with one pod it is accepted."""
    value = {"metric": {"name": "waiting"}, "target": {"type": "AverageValue", "averageValue": "5"}}
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "rank"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "rank"},
            "minReplicas": 0,
            "maxReplicas": 2,
            "metrics": [{"type": "External", "external": value}],
        },
    }
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    with pytest.raises(ApiError, match=r"spec\.minReplicas: Invalid value: 0"):
        plane.api.create(path, hpa)
    plane.api.create(path, {**hpa, "spec": {**hpa["spec"], "minReplicas": 1}})


@pytest.mark.xdist_group("plane")
def test_the_declared_object_is_one_that_keda_takes(plane: LocalControlPlane) -> None:
    """By the rules of its definition; a misspelled field and a number in `metadata` are refused."""
    plane.define([keda.DEFINITION])
    config = copy.deepcopy(values_of("dev"))
    with_services(config)
    config["gpu-cluster:services"]["chat"]["scaling"]["prometheus"] = {
        **KEDA, "authentication": "prometheus",
    }  # fmt: skip
    sent = recorded(config).one("kubernetes:keda.sh/v1alpha1:ScaledObject").inputs["spec"]
    # The wire has one type of numbers.
    spec = json.loads(json.dumps(sent), parse_float=lambda number: int(float(number)))
    path = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects?fieldValidation=Strict"
    head = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "chat"}}
    (trigger,) = spec["triggers"]
    number = {**trigger, "metadata": {**trigger["metadata"], "threshold": 5}}
    for wrong, says in (
        ({**spec, "minReplicas": 0}, r'unknown field "spec\.minReplicas"'),
        ({**spec, "triggers": [number]}, r"spec\.triggers\[0\]\.metadata\.threshold"),
        ({**spec, "minReplicaCount": 3}, "minReplicaCount must be less than or equal to max"),
    ):
        with pytest.raises(ApiError, match=says):
            plane.api.create(path, {**head, "spec": wrong})
    assert plane.api.create(path, {**head, "spec": spec})["spec"] == spec
    plane.api.delete(f"{path.partition('?')[0]}/chat")
