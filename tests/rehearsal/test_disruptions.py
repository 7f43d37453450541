"""Rehearsals in which an autoscaler, or somebody who drains a node, wants a running job's node.

The real Job and JobSet controllers, scheduler and eviction API decide what becomes of the job.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal.nodes.pods import full_name, phase, workload
from rehearsal.sandbox import Sandbox
from stacks.program import Mutation
from tests.rehearsal.conftest import STATE_AT_THE_END, changed, configured

JOB = "Job default/train"
IMAGE = "example.com/image:1"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/ddp"
NO_ANNOTATION = changed(
    "kubernetes:batch/v1:Job", "props['spec']['template']['metadata'].pop('annotations')"
)
Begin = Callable[..., Sandbox]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """A sandbox of train-gke with a pool of two nodes with four GPUs, whose jobs run for a
    while."""
    with ExitStack() as sandboxes:

        def begin(
            workloads: dict[str, Any], *mutations: Mutation, job_seconds: float = 15, **more: Any
        ) -> Sandbox:
            def four_gpus(config: dict[str, Any]) -> None:
                pool = config["gpu-cluster:gpuPools"]["train-gpu"]
                pool.update(machineType="n1-standard-16", gpusPerNode=4, maxNodes=2)
                config.update({"gpu-cluster:workloads": workloads, **more})

            def mutate(program: Path) -> None:
                for mutation in (configured(four_gpus), *mutations):
                    mutation(program)

            folder = tmp_path / "sandbox"
            sandbox = Sandbox(
                "train-gke",
                folder=folder,
                mutate=mutate,
                preload_sdks=True,
                job_seconds=job_seconds,
            )
            sandboxes.enter_context(sandbox)
            sandbox.engine.environment.update(STATE_AT_THE_END)
            up(sandbox)
            return sandbox

        yield begin


def up(sandbox: Sandbox, change: Callable[[dict[str, Any]], None] = lambda workloads: None) -> None:
    """Changes the workloads in the stack's file, and runs the program."""
    file = sandbox.folder / "program" / "Pulumi.train-gke.yaml"
    document = yaml.safe_load(file.read_text())
    change(document["config"]["gpu-cluster:workloads"])
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    outcome = sandbox.engine.up()
    assert outcome.ok, outcome.errors


def until(true: Callable[[], object], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


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
    up(sandbox, lambda workloads: workloads.update(train=train))
    until(lambda: nodes_of(sandbox, JOB, "ready"), "the job runs")
    assert nodes_of(sandbox, JOB, "ready") != nodes_of(sandbox, "Pod default/small", "ready")
    # Not by another `up`: on a busy machine the job would be done before.
    sandbox.control_plane.api.delete("/apis/apps/v1/namespaces/default/deployments/large")
    return sandbox


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


@pytest.mark.prove
def test_without_the_failure_policy_an_eviction_is_a_failure(begin: Begin) -> None:
    """What the test above would not notice if Kubernetes forgave evictions by itself."""
    no_policy = changed("kubernetes:batch/v1:Job", "props['spec'].pop('pod_failure_policy', None)")
    sandbox = job_alone_on_a_node(begin, NO_ANNOTATION, no_policy)
    job = "/apis/batch/v1/namespaces/default/jobs/train"
    api = sandbox.control_plane.api
    until(
        lambda: any(
            each["type"] == "Failed" and each["reason"] == "BackoffLimitExceeded"
            for each in api.get(job)["status"].get("conditions") or []
        ),
        "the job has failed",
    )


def test_a_drained_worker_does_not_use_up_the_restarts(begin: Begin) -> None:
    """All workers start again and finish, with `maxRestarts: 0`; each has a node of its own."""
    ddp = {
        "pool": "train-gpu",
        "nodes": 2,
        "gpus": 1,
        "image": IMAGE,
        "command": ["train.py"],
        "maxRestarts": 0,
    }
    more = {"gpu-cluster:batch": {"jobSet": True}, "gpu-cluster:trainingJobs": {"ddp": ddp}}
    sandbox = begin({}, job_seconds=8, **more)
    workers, api = "Job default/ddp-workers-0", sandbox.control_plane.api
    until(lambda: len(nodes_of(sandbox, workers, "ready")) == 2, "both workers run")
    assert len(set(nodes_of(sandbox, workers, "ready"))) == 2
    pod = next(pod for pod in sandbox.cluster_cache.pods if workload(pod) == workers)
    path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}"
    eviction = {"name": pod["metadata"]["name"], "namespace": "default"}
    api.create(
        f"{path}/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": eviction},
    )
    until(
        lambda: any(
            each["type"] in ("Completed", "Failed") and each["status"] == "True"
            for each in api.get(JOB_SETS)["status"].get("conditions") or []
        ),
        f"the training job ends after the eviction of {full_name(pod)}",
    )
    status = api.get(JOB_SETS)["status"]
    assert status["terminalState"] == "Completed"
    assert status["restarts"] == 1
    assert not status.get("restartsCountTowardsMax")
