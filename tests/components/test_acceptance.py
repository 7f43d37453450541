"""The acceptance test, as the real program declares it on every platform."""

import json
from typing import Any

import pytest

from gpu_cluster.components.catalog.data_sheets import DATA_SHEETS
from gpu_cluster.components.gpu.acceptance_program.all_reduce import NODES_SECONDS
from gpu_cluster.components.gpu.acceptance_program.report import MARKER
from tests.components.recording import Recording, record
from tests.program.environments import (
    ANSWERS,
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
    outputs = None if preview else ANSWERS
    return record(run_program, config=as_engine_config(values), outputs=outputs, preview=preview)


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


@pytest.mark.parametrize(
    ("stack", "models"),
    [("dev", ["T4"]), ("train", ["T4"]), ("autopilot", ["T4"]), ("onprem", list(DATA_SHEETS))],
)
def test_the_request_names_the_pool_s_cards(stack: str, models: list[str]) -> None:
    """The pool's accelerator decides which GPU is expected; all data sheets travel along."""
    data = declared(stack).one(CONFIG_MAP, f"gpu-test-{pool_of(stack)}").inputs["data"]
    asked = json.loads(data["request.json"])
    assert asked["expected"] == models
    assert asked["pool"] == pool_of(stack)
    assert [sheet["model"] for sheet in asked["sheets"]] == list(DATA_SHEETS)


def test_the_pods_of_several_nodes_meet_by_name() -> None:
    """Each on its own node, with all adapters of the pool's nodes; no other pod reaches them."""
    values = values_of("train")
    pool = pool_of("train")
    kind = {"instanceTypes": ["p5.48xlarge"], "efa": True, "zones": ["us-east-1a"], "maxNodes": 4}
    values["gpu-cluster:gpuPools"] = {pool: kind}
    for block in ("workloads", "services", "trainingJobs", "batch", "monitoring"):
        values.pop(f"gpu-cluster:{block}", None)
    values["gpu-cluster:gpuTest"] = {"pools": [pool], "image": IMAGE, "nodes": 3}
    found = recorded(values)
    job, name = job_of(found, "train")["spec"], f"gpu-test-{pool}"
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 3, 3)
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == {
        "nvidia.com/gpu": "8",
        "vpc.amazonaws.com/efa": "32",
    }
    env = {row["name"]: row.get("value") for row in container["env"]}
    assert env["MASTER_ADDR"] == f"{name}-0.{pod['subdomain']}"
    assert env["FI_PROVIDER"] == "efa"
    (spread,) = pod["topologySpreadConstraints"]
    assert (spread["maxSkew"], spread["minDomains"]) == (1, 3)
    labels = job["template"]["metadata"]["labels"]
    assert spread["labelSelector"]["matchLabels"].items() <= labels.items()
    service = found.one("kubernetes:core/v1:Service", name).inputs["spec"]
    assert pod["subdomain"] == name
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"]
    policy = found.one("kubernetes:networking.k8s.io/v1:NetworkPolicy", name).inputs["spec"]
    for selector in (
        service["selector"],
        policy["podSelector"]["matchLabels"],
        policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    data = found.one(CONFIG_MAP, name).inputs["data"]
    assert json.loads(data["request.json"])["network"] == 400
    # It may wait for the others after its own test, and its failure does not end theirs.
    assert pod["activeDeadlineSeconds"] >= 1800 + NODES_SECONDS
    assert "backoffLimit" not in job
    assert job["backoffLimitPerIndex"] == 0


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


def test_the_program_travels_whole() -> None:
    """The ConfigMap has every module, which the pod finds as one package."""
    recording = declared("dev")
    data = recording.one(CONFIG_MAP, "gpu-test-train-gpu").inputs["data"]
    assert {"__init__.py", "__main__.py", "measures.py", "verdict.py"} <= set(data)
    assert MARKER in "".join(data.values())
    pod = job_of(recording, "dev")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["python3", "-m", "gpu_test"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["program"] == f"{container['workingDir']}/gpu_test"
    assert pod["volumes"][0] == {"name": "program", "configMap": {"name": "gpu-test-train-gpu"}}


def test_the_same_check_is_the_same_job_and_another_one_is_not() -> None:
    """A Job's template cannot change, so whatever changes the measurement is in it."""

    def digest(**check: Any) -> str:
        template = job_of(declared("dev", **check), "dev")["spec"]["template"]
        return str(template["metadata"]["annotations"]["gpu-cluster/acceptance"])

    assert digest() == digest()
    different = {digest(), digest(generation=2), digest(thresholds={"matmul": 0.5})}
    assert len(different) == 3


@pytest.mark.parametrize("stack", ["dev", "train", "autopilot", "onprem"])
def test_a_preview_shows_what_an_update_makes(stack: str) -> None:
    """Job and ConfigMap are known before the cluster is."""
    before, after = declared(stack, preview=True), declared(stack)
    assert sorted(one.urn for one in before.resources) == sorted(one.urn for one in after.resources)
