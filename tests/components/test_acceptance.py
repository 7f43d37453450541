"""The acceptance test, as the real program declares it on every platform."""

import json
from typing import Any

import pytest

from gpu_cluster.components.gpu.acceptance_program.all_reduce import NODES_SECONDS
from tests.components.recording import Recording, record
from tests.program.environments import (
    STACKS,
    as_engine_config,
    recorded,
    run_program,
    values_of,
)

IMAGE = "docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime"
JOB, CONFIG_MAP = "kubernetes:batch/v1:Job", "kubernetes:core/v1:ConfigMap"


def pool_of(stack: str) -> str:
    return next(iter(values_of(stack)["gpu-cluster:gpuPools"]))


def declared(stack: str, *, preview: bool = False, **check: Any) -> Recording:
    """What the stack registers with its first pool to be measured."""
    values = values_of(stack)
    values["gpu-cluster:gpuTest"] = {"pools": [pool_of(stack)], "image": IMAGE, **check}
    if preview:
        return record(run_program, config=as_engine_config(values), preview=True)
    return recorded(values)


def job_of(recording: Recording, stack: str) -> Any:
    return recording.one(JOB, f"gpu-test-{pool_of(stack)}").inputs


@pytest.mark.parametrize("stack", STACKS)
def test_it_reaches_its_pool_through_the_pool(stack: str) -> None:
    """On every platform, selector, tolerations and resource are those of the exported contract."""
    recording = declared(stack)
    contract = recording.outputs["gpuPools"][pool_of(stack)]
    pod = job_of(recording, stack)["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == contract["nodeSelector"]
    assert pod["tolerations"] == contract["tolerations"]
    assert pod.get("runtimeClassName") == contract.get("runtimeClass")
    (container,) = pod["containers"]
    asked = json.loads(recording.one(CONFIG_MAP, f"gpu-test-{pool_of(stack)}").inputs["data"]
                       ["request.json"])  # fmt: skip
    assert container["resources"]["limits"] == {contract["resource"]: str(asked["gpus"])}
    assert asked["gpus"] in contract["gpusPerPod"]
    assert container["image"] == IMAGE


def test_the_pods_of_several_nodes_have_all_adapters_of_theirs() -> None:
    """And the time that the test of the network takes; `onprem_choices.txt` has how they meet."""
    values = values_of("train")
    pool = pool_of("train")
    kind = {"instanceTypes": ["p5.48xlarge"], "efa": True, "zones": ["us-east-1a"], "maxNodes": 4}
    values["gpu-cluster:gpuPools"] = {pool: kind}
    for block in ("workloads", "services", "trainingJobs", "batch", "monitoring"):
        values.pop(f"gpu-cluster:{block}", None)
    values["gpu-cluster:gpuTest"] = {"pools": [pool], "image": IMAGE, "nodes": 3}
    found = recorded(values)
    pod = job_of(found, "train")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == {
        "nvidia.com/gpu": "8",
        "vpc.amazonaws.com/efa": "32",
    }
    env = {row["name"]: row.get("value") for row in container["env"]}
    assert env["FI_PROVIDER"] == "efa"
    data = found.one(CONFIG_MAP, f"gpu-test-{pool}").inputs["data"]
    assert json.loads(data["request.json"])["network"] == 400
    assert pod["activeDeadlineSeconds"] >= 1800 + NODES_SECONDS


def test_a_pod_has_the_pool_s_runtime_class() -> None:
    """Where the NVIDIA runtime is not the node's default, the pod says that it wants it."""
    values = values_of("onprem")
    values["gpu-cluster:gpuPools"]["gpus"]["runtimeClass"] = "nvidia"
    values["gpu-cluster:gpuTest"] = {"pools": ["gpus"], "image": IMAGE}
    found = recorded(values)
    pod = job_of(found, "onprem")["spec"]["template"]["spec"]
    assert pod["runtimeClassName"] == "nvidia"


def test_a_pod_has_the_driver_where_nvidia_s_plugin_runs_on_gke() -> None:
    """That plugin hands out the device alone, and GKE's nodes have no runtime that adds to it."""
    values = values_of("dev")
    values["gpu-cluster:gpuPools"]["train-gpu"]["devicePlugin"] = "nvidia"
    values["gpu-cluster:gpuTest"] = {"pools": ["train-gpu"], "image": IMAGE}
    found = recorded(values)
    pod = job_of(found, "dev")["spec"]["template"]["spec"]
    paths = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
    assert paths == ["/home/kubernetes/bin/nvidia"]
    (container,) = pod["containers"]
    assert "/usr/local/nvidia" in [mount["mountPath"] for mount in container["volumeMounts"]]
    search = {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}
    assert search in container["env"]
    ours = job_of(declared("dev"), "dev")["spec"]["template"]["spec"]
    assert not any("hostPath" in volume for volume in ours["volumes"])


def test_the_same_check_is_the_same_job_and_another_one_is_not() -> None:
    """A Job's template cannot change, so whatever changes the measurement is in it."""

    def digest(*, preview: bool = False, **check: Any) -> str:
        template = job_of(declared("dev", preview=preview, **check), "dev")["spec"]["template"]
        return str(template["metadata"]["annotations"]["gpu-cluster/acceptance"])

    assert digest() == digest(preview=True)
    different = {digest(), digest(generation=2), digest(thresholds={"matmul": 0.5})}
    assert len(different) == 3


@pytest.mark.parametrize("stack", ["dev", "train", "autopilot", "onprem"])
def test_a_preview_shows_what_an_update_makes(stack: str) -> None:
    """Job and ConfigMap are known before the cluster is."""
    before, after = declared(stack, preview=True), declared(stack)
    assert sorted(one.urn for one in before.resources) == sorted(one.urn for one in after.resources)
