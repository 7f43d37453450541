"""Jobs with all that a stack gives them: buckets by their identity, disks and a file system, and
GPUs that NVIDIA's GPU Operator brings.

One environment of each cloud has all of it, because starting one takes longer than what is checked
there. What goes wrong with each: test_buckets.py, test_volumes.py, test_gpu_operator.py.
"""

from collections.abc import Iterator

import pytest

from gpu_cluster.rehearsal.control_plane.pods import part
from gpu_cluster.rehearsal.existing.gpu_operator import NAMESPACE
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.live import leftovers
from gpu_cluster.stacks.outcome import ExitCode
from tests.rehearsal.conftest import (
    all_pools,
    as_it_was,
    configured,
    entered,
    nothing_stays,
    with_inventory,
)
from tests.rehearsal.test_buckets import with_bucket
from tests.rehearsal.test_change import refuses_to_delete_a_disk
from tests.rehearsal.test_volumes import with_volumes

UBUNTU = {"osImage": "ubuntu", "driver": "none", "secureBoot": False}
EQUIPPED = {
    "train": (
        "after",
        [with_bucket("train"), all_pools(devicePlugin="none", discoveryLabels=True)],
    ),
    "train-gke": (
        "before",
        [
            configured(lambda config: with_volumes(config, "other", "other")),
            with_bucket("train-gke"),
            all_pools(devicePlugin="none", **UBUNTU),
        ],
    ),
}
"""Environment -> when the GPU Operator comes, and what it has in addition to its file."""


@pytest.fixture(scope="module", params=EQUIPPED)
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rehearsal]:
    """The environment up, its jobs on their GPUs, and a second up; the last test ends it."""
    stack, folder = request.param, tmp_path_factory.mktemp(request.param)
    operator, mutations = EQUIPPED[stack]
    options = with_inventory(folder, stack, {"gpuOperator": operator})
    with entered(stack, folder / "sandbox", *mutations, options=options) as sandbox:
        rehearsal = Rehearsal(sandbox=sandbox, deadline=90)
        rehearsal.run_until_ready()
        yield rehearsal


def test_jobs_read_and_write_what_they_mount(run: Rehearsal) -> None:
    """By their identity in buckets; on a claim of the default class, and on GKE on a disk of a
    machine that attaches Hyperdisk only, and in a file system."""
    assert run.failures == []
    api, held = run.sandbox.control_plane.api, run.sandbox.cloud.list_resources()
    claim = api.get("/api/v1/namespaces/default/persistentvolumeclaims/results")
    assert claim["status"]["phase"] == "Bound"
    on_gke = run.sandbox.stack == "train-gke"
    assert any(line.startswith("Filestore instance ") for line in held) is on_gke


def test_the_operator_gives_nodes_their_gpus(run: Rehearsal) -> None:
    """Driver and device plugin on Ubuntu, before the stack's pods are there; the device plugin on
    EKS, after the stack is up and its pods wait."""
    owners = sorted(
        f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        for one in run.sandbox.cluster_cache.all("DaemonSet")
        if part(one["spec"]["template"])
    )
    second = [step.name for step in run.steps][2]
    plugin, driver = (f"{NAMESPACE}/nvidia-{one}-daemonset" for one in ("device-plugin", "driver"))
    if run.sandbox.stack == "train":
        assert (owners, second) == ([plugin], "GPU Operator installed")
    else:
        assert (owners, second) == ([plugin, driver], "workloads run")


@pytest.mark.parametrize("run", ["train"], indirect=True)
def test_an_update_that_would_delete_a_disk_is_refused(run: Rehearsal) -> None:
    """Another zone, for which EBS would need another disk: in a preview and in an `up`."""

    def elsewhere(config: dict) -> None:
        config["gpu-cluster:gpuPools"]["train-gpu"]["zones"] = ["us-east-1b"]
        config["gpu-cluster:volumeClaims"]["results"]["zone"] = "us-east-1b"

    with as_it_was(run.sandbox) as program:
        configured(elsewhere)(program)
        assert any("[GPUC-CLAIMS]" in line for line in run.sandbox.engine.preview().errors)
        refuses_to_delete_a_disk(run.sandbox)


def test_everything_goes_with_the_stack(run: Rehearsal) -> None:
    """Buckets are not leftovers, and the stack deletes its own claims and disks; only the peering
    of a Filestore instance may stay."""
    kubeconfig = run.sandbox.control_plane.kubeconfig.read_text()
    code, document, _ = leftovers.answer(run.sandbox.stack, kubeconfig)
    assert code == ExitCode.OK
    assert [row["name"] for row in document["leftovers"] if not row["after"]] == []
    assert run.teardown(), run.failures
    nothing_stays(run)
