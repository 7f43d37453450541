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
