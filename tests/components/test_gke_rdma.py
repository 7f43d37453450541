"""GPUDirect RDMA of pools: networks, labels, NCCL's plugin, and the claims of pods."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.components.batch.published import Published, parse_published
from gpu_cluster.components.batch.training_args import TrainingArgs
from gpu_cluster.components.batch.training_spec import spec
from gpu_cluster.components.cluster import GpuPool
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.gpu import gpu_claims
from gpu_cluster.components.gpu.device_plugin import _env, _groups
from tests.components.recording import Recording
from tests.components.test_acceptance import IMAGE
from tests.components.test_gke import NODE_POOL, declare
from tests.program.environments import recorded, values_of

ZONE = ["us-central1-b"]
CLAIMS = "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"


def args(machine: str = "a3-ultragpu-8g", **given: Any) -> GkeGpuNodePoolArgs:
    """A pool of two Spot machines in one zone, with RDMA."""
    return GkeGpuNodePoolArgs(
        machine_type=machine, capacity_type="spot", zones=ZONE, max_nodes=2,
        **{"gpu_direct": "rdma", **given},
    )  # fmt: skip


FAST, PLAIN = args().gpu_pool("fast"), args(gpu_direct=None).gpu_pool("fast")


def test_the_plugin_of_nccl_is_copied_to_these_nodes_only(tmp_path: Path) -> None:
    """One DaemonSet for all such pools, whatever their names. It copies once, and the file for
    which pods wait is the last."""
    pools = {"fast": args(), "slow": args(gpu_direct=None)}
    sets = declare(pools, location="us-central1").of(DAEMON_SET)
    (installer,) = [item.inputs for item in sets if item.name == "gib-installer"]
    pod = installer["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"cloud.google.com/gke-networking-dra-driver": "true"}
    assert "fast" not in str(pod)
    script = pod["initContainers"][0]["args"][0]
    (tmp_path / "gib").mkdir()
    (tmp_path / "gib/lib64").write_text("new")
    (tmp_path / "host").mkdir()
    (tmp_path / "host/lib64").write_text("old")
    for word, path in {"/scripts/container_entry.sh": "echo", "/var/lib/gib": "../gib"}.items():
        script = script.replace(word, path)
    script = script.replace("cd /host", "cd host")
    with (tmp_path / "host/lib64").open() as loaded:
        for copies in (1, 0):
            run = ["sh", "-c", script]
            done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
            assert done.stderr.count("cp -r") == copies
        assert loaded.read() == "old"
    assert (tmp_path / "host/lib64").read_text() == "new"
    assert sorted(item.name for item in (tmp_path / "host").iterdir()) == [
        "installed", "lib64", "next",
    ]  # fmt: skip


def test_without_the_setting_nothing_of_it_is_declared() -> None:
    """Even on a machine that has the interfaces."""
    recorded = declare({"fast": args(gpu_direct=None)}, location="us-central1")
    assert not recorded.of(DAEMON_SET)
    pool = recorded.one(NODE_POOL, "fast").inputs
    assert "networkConfig" not in pool
    assert not [label for label in pool["nodeConfig"]["labels"] if "network" in label]


def pod(pool: GpuPool, **given: Any) -> dict[str, Any]:
    """The pod of a training job's workers."""
    needed: dict[str, Any] = {"pool": "fast", "nodes": 2, "image": "i:1", "command": ["a"]}
    job = TrainingArgs(**{**needed, **given})
    job.check_fits(replace(pool, max_nodes=2))
    (workers,) = spec("large", job, pool, {}, None)["replicatedJobs"]
    found: dict[str, Any] = workers["template"]["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize(
    ("pool", "given", "claims"),
    [(FAST, {}, True), (FAST, {"nodes": 1}, False), (FAST, {"gpus": 4}, False), (PLAIN, {}, False)],
)  # fmt: skip
def test_workers_with_all_gpus_of_several_nodes_claim_all_interfaces(
    pool: GpuPool, given: dict[str, Any], claims: bool
) -> None:
    """And wait for NCCL's plugin, as a file that the kubelet looks for."""
    worker = pod(pool, **given)
    (container,) = worker["containers"]
    assert ("resourceClaims" in worker) == ("claims" in container["resources"]) == claims
    assert (container["command"][0] == "torchrun") != claims
    if claims:
        assert worker["resourceClaims"][0]["resourceClaimTemplateName"] == "large"
        paths = {volume.get("hostPath", {}).get("path"): volume for volume in worker["volumes"]}
        last = paths["/home/kubernetes/bin/gib/installed"]
        assert last["hostPath"]["type"] == "File"
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert {last["name"], paths["/home/kubernetes/bin/gib"]["name"]} <= mounted


def test_a_pods_own_variables_take_precedence() -> None:
    """Over those of Google's script, which runs in the container."""
    own = {"NCCL_DEBUG": "INFO", "HOME": "/tmp", "LD_LIBRARY_PATH": "/opt/lib"}
    (container,) = pod(FAST, env=own)["containers"]
    _, _, script, _, *command = container["command"]
    setup, run = script.split("; ")
    assert setup == "source /usr/local/gib/scripts/set_nccl_env.sh"
    printed = subprocess.run(
        ["bash", "-c", run, "bash", "sh", "-c", "echo $LD_LIBRARY_PATH"],
        env={"LD_LIBRARY_PATH": "/opt/lib", "PATH": os.environ["PATH"]}, capture_output=True,
        text=True, check=True,
    ).stdout  # fmt: skip
    assert printed == "/usr/local/gib/lib64:/opt/lib\n"
    assert command[:2] == ["NCCL_DEBUG=$(NCCL_DEBUG)", "torchrun"]
    assert {"name": "LD_LIBRARY_PATH", "value": "/opt/lib"} in container["env"]


def test_a_claim_is_for_all_interfaces_of_a_node() -> None:
    """As in Google's test of NCCL."""
    assert FAST.fabric
    (claim,) = gpu_claims.claims("job", FAST, 0, fabric=FAST.fabric)
    (request,) = claim.spec["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": "mrdma.google.com", "allocationMode": "ExactCount", "count": 8,
    }  # fmt: skip


def test_nvidias_plugin_leaves_the_interfaces_to_gke() -> None:
    """It would give each pod all devices of /dev/infiniband (k8s-device-plugin issue 1692)."""
    own = args(device_plugin="nvidia", driver="daemonset").gpu_pool("fast")
    (group,) = _groups({"fast": own})
    assert {"name": "MOFED_ENABLED", "value": "false"} in _env(group)


def stack(**blocks: Any) -> Recording:
    """A stack with the pool `fast`, and these blocks."""
    values = values_of("train-gke")
    pool = {"machineType": "a4-highgpu-8g", "capacityType": "spot", "zones": ZONE, "maxNodes": 2}
    fast = {**pool, **({"gpuDirect": "rdma"} if blocks.pop("direct", True) else {})}
    changes = {"gpuPools": {"fast": fast}, "workloads": {}, **blocks}
    values |= {f"gpu-cluster:{name}": value for name, value in changes.items()}
    return recorded(values)


def test_the_network_test_claims_all_interfaces() -> None:
    """As training jobs do, with the same plugin."""
    found = stack(gpuTest={"pools": ["fast"], "image": IMAGE, "nodes": 2})
    pod = found.one("kubernetes:batch/v1:Job", "gpu-test-fast").inputs["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["resourceClaims"][0]["resourceClaimTemplateName"] == "gpu-test-fast"
    assert container["resources"]["claims"] == [{"name": "network"}]
    assert container["command"][-3:] == ["python3", "-m", "gpu_test"]
    assert found.one(CLAIMS, "gpu-test-fast")
    data = found.one("kubernetes:core/v1:ConfigMap", "gpu-test-fast").inputs["data"]
    assert json.loads(data["request.json"])["network"] == 400


@pytest.mark.parametrize("direct", [True, False])
def test_those_who_submit_jobs_may_create_claims(direct: bool) -> None:
    """Only if the stack has such a pool."""
    queue = {"pools": ["fast"], "groups": ["researchers"], "namespaces": ["team"]}
    batch = {"jobSet": True, "queues": {"training": queue}}
    found = stack(batch=batch, namespaces={"team": {}}, direct=direct)
    role = found.one("kubernetes:rbac.authorization.k8s.io/v1:Role", "submit-jobs-team")
    rights = {resource for rule in role.inputs["rules"] for resource in rule["resources"]}
    assert ("resourceclaimtemplates" in rights) == direct


def test_submitted_jobs_know_the_network() -> None:
    """From what the stack publishes; that of other pools is as it was."""
    text = Published(pools={"fast": FAST, "plain": PLAIN}).text()
    assert parse_published(text).pools["fast"].fabric == FAST.fabric
    assert "claimed" not in Published(pools={"plain": PLAIN}).text()
