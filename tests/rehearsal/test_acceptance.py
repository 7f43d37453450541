"""The acceptance test on a rehearsed pool: scheduled, completed, asked for its result.

Only a real scheduler and API server show that its Job fits a node of the pool that it measures.
"""

from typing import Any

import pytest

from gpu_cluster.components.gpu.acceptance_args import GpuTestArgs, job_name
from gpu_cluster.rehearsal.control_plane.pods import gpus_asked, holds
from gpu_cluster.stacks.live.gpu_test import outcomes
from tests.rehearsal.conftest import Rehearse, Sandboxes, configured, up, updated

IMAGE = "docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime"


@pytest.mark.xdist_group("running")
@pytest.mark.parametrize(
    ("stack", "pool", "asked", "label"),
    [
        ("dev", "train-gpu", {"nodes": 2}, "cloud.google.com/gke-accelerator"),
        pytest.param(
            "autopilot", "t4", {}, "cloud.google.com/gke-accelerator", marks=pytest.mark.prove
        ),
        pytest.param(
            "train", "train-gpu", {}, "k8s.amazonaws.com/accelerator", marks=pytest.mark.prove
        ),
        # The samples have two GPUs of each of these nodes.
        pytest.param("onprem", "gpus", {"gpus": 7}, "gpus", marks=pytest.mark.prove),
    ],
)
def test_it_completes_on_a_node_of_its_pool(
    running: Sandboxes, stack: str, pool: str, asked: dict[str, Any], label: str
) -> None:
    """A node comes for it where none is free, and another one for each further pod; a simulated pod
    leaves no log, which the check says."""
    check: dict[str, Any] = {"pools": [pool], "image": IMAGE, **asked}
    change = configured(lambda config: config.update({"gpu-cluster:gpuTest": check}))
    with updated(running(stack), change) as rehearsal:
        assert rehearsal.failures == []
        cluster_cache, name = rehearsal.sandbox.cluster_cache, job_name(pool)
        (job,) = [one for one in cluster_cache.all("Job") if one["metadata"]["name"] == name]
        assert holds(job, "Complete")
        pods = [pod for pod in cluster_cache.pods if pod["metadata"]["labels"].get("app") == name]
        by_node = {pod["spec"]["nodeName"]: pod for pod in pods}
        assert len(pods) == len(by_node) == asked.get("nodes", 1)
        for ran_on, pod in by_node.items():
            assert gpus_asked(pod["spec"]) == asked.get("gpus", 1)
            (node,) = [one for one in cluster_cache.gpu_nodes if one["metadata"]["name"] == ran_on]
            assert label in node["metadata"]["labels"]
            selector = pod["spec"]["nodeSelector"]
            assert selector.items() <= node["metadata"]["labels"].items()
        kubeconfig = rehearsal.sandbox.control_plane.kubeconfig.read_text()
        results = outcomes(GpuTestArgs(pools=[pool], image=IMAGE, **asked), kubeconfig)
        assert len(results) == len(pods)
        for found in results:
            assert found["exit"] == 2
            assert found["why"].startswith(f"Job {name}: its log cannot be read (")
            assert found["why"].endswith("its pod is Succeeded (Completed, exit code 0)")


@pytest.mark.prove
def test_another_round_is_another_job(rehearse: Rehearse) -> None:
    """A Job never runs twice: raising `round` makes it, and the program that it mounts, again."""
    check: dict[str, Any] = {"pools": ["train-gpu"], "image": IMAGE}
    change = configured(lambda config: config.update({"gpu-cluster:gpuTest": check}))
    rehearsal = rehearse(change, deadline=60)
    sandbox = rehearsal.sandbox

    def job() -> dict[str, Any]:
        (found,) = sandbox.cluster_cache.all("Job")
        return found

    first = job()["metadata"]["uid"]
    up(
        sandbox,
        configured(lambda config: config["gpu-cluster:gpuTest"].update(generation=2, wait=True)),
    )
    assert job()["metadata"]["uid"] != first
    assert holds(job(), "Complete")
