"""GKE: what waits for the CPU nodes, and what need not."""

import pytest

from tests.components.recording import Recording, record
from tests.program.environments import config_of, run_program

SYSTEM_POOL = "gcp:container/nodePool:NodePool::k8s-ml-system"
OUTPUTS = {
    "gcp:container/cluster:Cluster": {
        "endpoint": "192.0.2.1",
        "masterAuth": {"clusterCaCertificate": "Q0E="},
    }
}


@pytest.fixture(scope="module")
def recording() -> Recording:
    """An environment with a driver installer, monitoring and a job."""
    return record(run_program, config=config_of("train-gke"), outputs=OUTPUTS)


def waiting(recording: Recording) -> set[tuple[str, str]]:
    """Type and name of what waits for the pool of CPU nodes, and is made in the cluster."""
    return {
        (resource.type, resource.name)
        for resource in recording.resources
        if resource.custom and any(urn.endswith(SYSTEM_POOL) for urn in resource.depends_on)
    }


def test_only_kinds_that_gke_brings_wait_for_the_cpu_nodes(recording: Recording) -> None:
    """A GPU node starts beside them; only the webhook of GKE's own kinds needs one to run on."""
    kinds = {kind for kind, _ in waiting(recording)}
    assert kinds == {"kubernetes:monitoring.googleapis.com/v1:ClusterPodMonitoring"}


def test_every_object_waits_for_the_cluster(recording: Recording) -> None:
    """No object is made before the API server that it is sent to."""
    objects = [r for r in recording.resources if r.type.startswith("kubernetes:")]
    assert objects
    provider = recording.one("pulumi:providers:kubernetes")
    assert any("container/cluster:Cluster" in urn for urn in provider.depends_on)
    assert all(each.provider.startswith("urn:") for each in objects)
