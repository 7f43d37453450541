"""The whole rehearsal of `Pulumi.train.yaml`: an EKS node group goes from zero to one, and back.

Only that shows AWS, autoscaler, scheduler and engine together, down to an empty account.
"""

import json
from pathlib import Path

import pytest

from gpu_cluster.components.cluster import GPU_TAINT
from tests.rehearsal.conftest import run_cli

TEMPLATE = "k8s.io/cluster-autoscaler/node-template"


@pytest.mark.prove
def test_the_whole_rehearsal_of_train(tmp_path: Path) -> None:
    """GPU nodes go 0, 1, 0; the tags, read back, are what came up; no GPU before the plugin ran."""
    folder = tmp_path / "sandbox"
    done = run_cli("rehearse", "train", "--folder", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((folder / "report.json").read_text())
    assert [count for _, count in report["gpu_nodes"]] == [0, 1, 0]
    pods = {pod["workload"]: pod for pod in report["pods"]}
    job = pods["Job default/sample-gpu-job"]
    plugin = pods["DaemonSet kube-system/nvidia-device-plugin"]
    (gpu_node,) = [node for node in report["nodes"] if node["gpus"]]
    assert job["state"] == "succeeded"
    assert job["node"] == plugin["node"] == gpu_node["name"]
    ready = gpu_node["parts"]["plugin"]
    assert gpu_node["joined"] < ready <= gpu_node["gpus_at"] <= job["bound"]
    (promise,) = report["template_checks"]
    assert promise["node"] == gpu_node["name"]
    assert promise["differences"] == []
    disk = f"{TEMPLATE}/resources/ephemeral-storage"
    said, real = dict(promise["tags"]), dict(promise["real"])
    assert (said.pop(disk), real.pop(disk)) == ("88Gi", "89Gi")
    memory = f"{TEMPLATE}/resources/memory"  # a lower bound as well
    assert (said.pop(memory), real.pop(memory)) == ("14481Mi", "14891Mi")
    assert said == real == {
        f"{TEMPLATE}/label/gpu-cluster/pool": "train-gpu",
        f"{TEMPLATE}/label/k8s.amazonaws.com/accelerator": "nvidia-tesla-t4",
        f"{TEMPLATE}/label/nvidia.com/gpu.present": "true",
        f"{TEMPLATE}/label/role": "train-gpu",
        f"{TEMPLATE}/resources/cpu": "3920m",
        f"{TEMPLATE}/resources/nvidia.com/gpu": "1",
        f"{TEMPLATE}/taint/nvidia.com/gpu": f"{GPU_TAINT.value}:NoSchedule",
    }  # fmt: skip
    steps = {step["name"]: step["detail"] for step in report["steps"]}
    assert steps["idempotency"] == "no changes"
    assert steps["leak check"] == (
        "nothing left in the state, nothing left in the cloud, no cluster"
    )
