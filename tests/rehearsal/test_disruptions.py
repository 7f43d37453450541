"""Rehearsals in which an autoscaler, or somebody who drains a node, wants a running job's node.

The real Job and JobSet controllers, scheduler and eviction API decide what becomes of the job.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.rehearsal.control_plane.pods import phase, workload
from gpu_cluster.rehearsal.report.report import node_lives
from gpu_cluster.rehearsal.sandbox import Sandbox, SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.definition.program import Mutation
from tests.program.effects import set_scaler
from tests.rehearsal.conftest import changed, configured, entered, until, up

JOB = "Job default/train"
IMAGE = "example.com/image:1"
NO_ANNOTATION = changed(
    "kubernetes:batch/v1:Job", "props['spec']['template']['metadata'].pop('annotations')"
)
Begin = Callable[..., Sandbox]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """A sandbox of train-gke with a pool of two nodes with four GPUs, whose jobs run for a
    while."""
    with ExitStack() as sandboxes:

        def begin(workloads: dict[str, Any], *mutations: Mutation) -> Sandbox:
            def four_gpus(config: dict[str, Any]) -> None:
                pool = config["gpu-cluster:gpuPools"]["train-gpu"]
                pool.update(machineType="n1-standard-16", gpusPerNode=4, maxNodes=2)
                config["gpu-cluster:workloads"] = workloads

            changes, options = (configured(four_gpus), *mutations), SandboxOptions(job_seconds=15)
            sandbox = sandboxes.enter_context(
                entered("train-gke", tmp_path / "sandbox", *changes, options=options)
            )
            up(sandbox)
            return sandbox

        yield begin


def nodes_of(sandbox: Sandbox, who: str, *phases: str) -> list[str]:
    """The nodes of a workload's pods that are in one of these phases."""
    return [
        pod["spec"]["nodeName"]
        for pod in sandbox.cluster_cache.pods
        if workload(pod) == who and phase(pod) in phases
    ]


def job_alone_on_a_node(begin: Begin, *mutations: Mutation) -> Sandbox:
    """A job has one GPU of four, and the other node just as much room again."""
    large = {"kind": "deployment", "pool": "train-gpu", "image": IMAGE, "gpus": 3}
    small = {"kind": "pod", "pool": "train-gpu", "image": IMAGE, "gpus": 1}
    sandbox = begin({"large": large, "small": small}, *mutations)
    until(
        lambda: (
            nodes_of(sandbox, "Deployment default/large", "ready")
            == nodes_of(sandbox, "Pod default/small", "ready")
            != []
        ),
        "the two share a node",
    )
    train = {"kind": "job", "pool": "train-gpu", "image": IMAGE, "gpus": 1, "backoffLimit": 0}
    up(sandbox, configured(lambda config: config["gpu-cluster:workloads"].update(train=train)))
    until(lambda: nodes_of(sandbox, JOB, "ready"), "the job runs")
    assert nodes_of(sandbox, JOB, "ready") != nodes_of(sandbox, "Pod default/small", "ready")
    # Not by another `up`: on a busy machine the job would be done before.
    sandbox.control_plane.api.delete("/apis/apps/v1/namespaces/default/deployments/large")
    return sandbox


@pytest.mark.prove(
    reason="without those below it would also pass if nobody evicted; tests/components/"
    "test_gpu_layer.py has the annotation, tests/unit/rehearsal/test_scale_down.py what it does"
)
def test_the_autoscaler_leaves_a_running_job_its_node(begin: Begin) -> None:
    """Although only one of the node's four GPUs is in use and its pod would fit elsewhere."""
    sandbox = job_alone_on_a_node(begin)
    until(lambda: nodes_of(sandbox, JOB, "succeeded", "failed"), "the job ends")
    assert sandbox.event_log.findings == []
    assert len(nodes_of(sandbox, JOB, "succeeded")) == 1


@pytest.mark.prove
def test_without_the_annotation_it_is_evicted_and_named(begin: Begin) -> None:
    """It begins again on the other node, and has not failed: its only attempt is still unused."""
    sandbox = job_alone_on_a_node(begin, NO_ANNOTATION)
    until(lambda: nodes_of(sandbox, JOB, "succeeded"), "the job succeeds on the other node")
    (finding,) = sandbox.event_log.findings
    assert "1 of 4 GPUs were in use, and evicted the running Job default/train" in finding
    assert nodes_of(sandbox, JOB, "succeeded") == nodes_of(sandbox, "Pod default/small", "ready")


T4 = {"accelerator": "nvidia-tesla-t4", "gpusPerNode": 4}
FOUR_GPUS = {
    "train": {"instanceTypes": ["g4dn.12xlarge"], "maxNodes": 1},
    "train-gke": {"machineType": "n1-standard-16", "maxNodes": 1, **T4},
    "autopilot": T4,
}
"""Stack -> settings of a pool whose nodes have four GPUs."""


@pytest.mark.prove
@pytest.mark.parametrize(
    ("stack", "scaler"),
    [
        ("train", "cluster-autoscaler"),
        ("train", "karpenter"),
        ("train", "auto-mode"),
        ("train-gke", "node-pools"),
        ("train-gke", "compute-classes"),
        ("autopilot", "autopilot"),
    ],
)
def test_a_job_may_use_a_part_of_a_node(stack: str, scaler: str, tmp_path: Path) -> None:
    """One GPU of four, on demand and Spot: each scaler's own annotation protects it, or nothing
    can, and the rehearsal passes."""

    def parts(config: dict[str, Any]) -> None:
        set_scaler(config, scaler)
        config["gpu-cluster:gpuPools"] = {
            name: {**FOUR_GPUS[stack], "capacityType": name} for name in ("on-demand", "spot")
        }
        config["gpu-cluster:workloads"] = {
            f"job-{name}": {"kind": "job", "pool": name, "gpus": 1, "image": IMAGE}
            for name in ("on-demand", "spot")
        }

    with entered(stack, tmp_path / "sandbox", configured(parts)) as sandbox:
        rehearsal = Rehearsal(sandbox=sandbox, deadline=240)
        assert rehearsal.run_until_ready(), rehearsal.failures
        lives = node_lives(sandbox.event_log.events)
    assert [life.gpus for life in lives if life.used and life.gpus] == [4, 4]


@pytest.mark.prove
def test_without_the_failure_policy_an_eviction_is_a_failure(begin: Begin) -> None:
    """What the test above would not notice if Kubernetes forgave evictions by itself."""
    no_policy = changed("kubernetes:batch/v1:Job", "props['spec'].pop('pod_failure_policy', None)")
    sandbox = job_alone_on_a_node(begin, NO_ANNOTATION, no_policy)
    job = "/apis/batch/v1/namespaces/default/jobs/train"
    api = sandbox.control_plane.api
    until(
        lambda: any(
            condition["type"] == "Failed" and condition["reason"] == "BackoffLimitExceeded"
            for condition in api.get(job)["status"].get("conditions") or []
        ),
        "the job has failed",
    )
