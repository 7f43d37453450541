"""GKE: what waits for the CPU nodes, and what need not."""

import pytest

from tests.components.recording import Recording
from tests.program.environments import recorded, values_of

SYSTEM_POOL = "gcp:container/nodePool:NodePool::k8s-ml-system"


@pytest.fixture(scope="module")
def recording() -> Recording:
    """An environment with a driver installer, monitoring and a job."""
    return recorded(values_of("train-gke"))


def test_only_kinds_that_gke_brings_wait_for_the_cpu_nodes(recording: Recording) -> None:
    """A GPU node starts beside them; only the webhook of GKE's own kinds needs one to run on."""
    assert {
        resource.type
        for resource in recording.resources
        if resource.custom and any(urn.endswith(SYSTEM_POOL) for urn in resource.depends_on)
    } == {"kubernetes:monitoring.googleapis.com/v1:ClusterPodMonitoring"}


def test_every_object_waits_for_the_cluster(recording: Recording) -> None:
    """No object is made before the API server that it is sent to."""
    objects = [r for r in recording.resources if r.type.startswith("kubernetes:")]
    assert objects
    provider = recording.one("pulumi:providers:kubernetes")
    assert any("container/cluster:Cluster" in urn for urn in provider.depends_on)
    assert all(each.provider.startswith("urn:") for each in objects)
