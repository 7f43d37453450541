"""GPU pools on a GKE cluster that somebody else made, rehearsed: the cluster is as it was."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.rehearsal.simulators.google import GoogleCloud
from gpu_cluster.rehearsal.simulators.google.container.tokens import CLUSTER
from tests.rehearsal.conftest import late
from tests.rehearsal.test_existing_eks import (
    a_cpu_pool_grows_and_shrinks,
    ends_without_the_stack,
    preview_ends,
    rehearsed,
)

pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """The sample on its cluster with a pool without GPUs; the tests below end it."""
    loaders = {"machineType": "n2-standard-4", "zones": ["us-central1-b"], "maxNodes": 2}
    folder = tmp_path_factory.mktemp("on-gke")
    with rehearsed("on-gke", folder, cpuPools={"loaders": loaders}) as rehearsal:
        assert rehearsal.run_until_ready(), rehearsal.failures
        yield rehearsal


def test_pools_grow_from_zero_and_a_second_up_changes_nothing(run: Rehearsal) -> None:
    """By GKE's autoscaler."""
    assert [step.name for step in run.steps if not step.ok] == []


def test_a_pool_without_gpus_grows_too(run: Rehearsal) -> None:
    """In its own zone. A failure would have shown what Karpenter did."""
    a_cpu_pool_grows_and_shrinks(run.sandbox)
    assert any("disrupting node" in line for line in late(run.sandbox))


def test_what_it_changes_of_the_cluster_is_found(run: Rehearsal) -> None:
    """Anything of another owner, in Google Cloud and in Kubernetes."""
    cloud, api = run.sandbox.cloud, run.sandbox.control_plane.api
    assert isinstance(cloud, GoogleCloud)
    before = set(cloud.list_resources()), set(run.sandbox.disturbed())
    (cluster,) = cloud.of(CLUSTER)
    deployment = "/apis/apps/v1/namespaces/platform/deployments/gateway"
    cluster.state["resourceLabels"] = {"team": "ml"}
    api.patch(deployment, {"spec": {"replicas": 0}})
    changed = f"changed: cluster {cluster.identity}, which is somebody else's"
    assert set(cloud.list_resources()) - before[0] == {changed}
    changed = "changed: Deployment platform/gateway, which is somebody else's"
    assert set(run.sandbox.disturbed()) - before[1] == {changed}
    del cluster.state["resourceLabels"]
    api.patch(deployment, {"spec": {"replicas": 1}})


def test_destroy_removes_the_stack_and_nothing_else(run: Rehearsal) -> None:
    """The pool goes to zero, then all that the stack added; the cluster is as before."""
    ends_without_the_stack(run)


def test_a_cluster_without_workload_identity_ends_the_preview(tmp_path: Path) -> None:
    """Before anything is created, and with what its owner has to do."""
    preview_ends(tmp_path, "on-gke", "no Workload Identity Federation", workloadIdentity=False)
