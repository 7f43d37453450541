"""The checks as commands, against rehearsed clouds, a real API server and the engine's outputs."""

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from gpu_cluster.components.catalog.gke import GLOBAL_GPU_QUOTA as GLOBAL
from gpu_cluster.rehearsal.control_plane.pods import GPU
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.rehearsal.simulators.aws.cloud import AwsCloud
from gpu_cluster.rehearsal.simulators.cloud import ControlPlane
from gpu_cluster.rehearsal.simulators.google import GoogleCloud, serve_api
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES
from tests.rehearsal.conftest import Sandboxes, run_cli

NODES = "/api/v1/nodes"
pytestmark = pytest.mark.xdist_group("running")


def run(*words: str, env: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """Exit code and document of a check."""
    done = run_cli(*words, "--json", env=env)
    document = json.loads(done.stdout)
    assert document["exit"] == done.returncode, done.stderr
    return done.returncode, document


@pytest.fixture(scope="module")
def dev(running: Sandboxes) -> Sandbox:
    return running("dev")


@pytest.fixture(scope="module")
def onprem(running: Sandboxes) -> Sandbox:
    return running("onprem")


def cloud_api(sandbox: Sandbox) -> str:
    return str(json.loads((sandbox.folder / "sandbox.json").read_text())["cloudApi"])


def test_quota_of_a_running_stack(dev: Sandbox) -> None:
    """One of three T4 runs; they are the stack's own, so three of three are enough, two are not."""
    code, document = run("capacity", "dev", "--endpoint", cloud_api(dev))
    assert code == 0, document
    *gpus, disks, cpus, all_cpus = document["quotas"]
    assert (cpus["quota"], cpus["need"]) == ("CPUS", 18)
    assert all_cpus["use"] == cpus["use"] >= 4
    assert [(quota["quota"], quota["need"], quota["limit"], quota["use"]) for quota in gpus] == [
        ("NVIDIA_T4_GPUS", 3, 16, 1),
        ("GPUS_ALL_REGIONS", 3, 16, 1),
    ]
    # How many disks are in use depends on the nodes that other tests of this stack have started.
    assert (disks["quota"], disks["need"], disks["limit"]) == ("SSD_TOTAL_GB", 450, 1_000_000)
    system, offer = document["offers"]
    assert (system["types"], system["verdict"]) == (["e2-standard-2"], "offered")
    assert (offer["types"], offer["zones"], offer["verdict"]) == (
        ["n1-standard-4", "nvidia-tesla-t4"],
        ["us-central1-a"],
        "offered",
    )
    assert offer["offeredIn"] == [f"us-central1-{letter}" for letter in "abcf"]
    for limit, expected in ((3, 0), (2, 1)):
        quota = dev.cloud.faults.quota  # type: ignore[attr-defined]
        quota["NVIDIA_T4_GPUS"] = limit
        try:
            shown = run_cli("capacity", "dev", "--endpoint", cloud_api(dev))
        finally:
            del quota["NVIDIA_T4_GPUS"]
        assert shown.returncode == expected, shown.stderr
        link = "https://console.cloud.google.com/iam-admin/quotas?project=my-project"
        assert (link in shown.stdout) == ("too little" in shown.stdout) == (expected == 1)


def test_gpus_by_the_stacks_output(dev: Sandbox) -> None:
    """With the kubeconfig from the stack's output: one T4 node, its GPU taken, nothing wrong."""
    code, document = run("gpus", "dev", env={**os.environ, **dev.engine.environment})
    assert code == 0, document
    (node,) = [one for one in document["nodes"] if one["gpuSign"]]
    assert (node["pool"], node["model"]) == ("train-gpu", "nvidia-tesla-t4")
    counts = {"capacity": 1, "allocatable": 1, "requested": 1, "free": 0}
    assert node["resources"] == {GPU: counts}
    assert (node["driver"], node["plugin"]) == ("installed", "not a pod")


def test_a_kubeconfig_that_is_not_let_in(dev: Sandbox, tmp_path: Path) -> None:
    """Where the cluster refuses, the check could not ask: exit code 2 and one line."""
    kubeconfig = json.loads(dev.control_plane.kubeconfig.read_text())
    kubeconfig["users"][0]["user"] = {"token": "nobody's"}
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(kubeconfig))
    code, document = run("gpus", "dev", "--kubeconfig", str(file))
    assert code == 2
    assert document["error"] == "the cluster returned not allowed to look: HTTP 401 Unauthorized"


def machine(node: str) -> str:
    """The machine of the inventory that a node is."""
    inventory = yaml.safe_load((INVENTORIES / "onprem.yaml").read_text())
    (name,) = [one["name"] for one in inventory if node.startswith(one["name"])]
    return str(name)


def test_gpus_on_premises(onprem: Sandbox) -> None:
    """Both nodes of 9 GPUs are listed, and the GPU node without the label is named."""
    code, document = run("gpus", "onprem", "--kubeconfig", str(onprem.control_plane.kubeconfig))
    assert code == 1, document
    nodes = {machine(node["name"]): node for node in document["nodes"]}
    of_9 = [node for node in nodes.values() if node["resources"].get(GPU, {}).get("capacity") == 9]
    assert [machine(one["name"]) for one in of_9] == ["dgx-a", "dgx-b"]
    assert sum(one["resources"][GPU]["requested"] for one in of_9) == 2 * 2
    assert nodes["control"]["gpuSign"] is None
    forgotten = nodes["forgotten"]["name"]
    lacking = [(machine(finding["node"]), finding["lacks"]) for finding in document["findings"]]
    assert sorted(lacking) == [
        ("dgx-a", "taint"),
        ("forgotten", "label"),
        ("forgotten", "taint"),
        ("workstation", "taint"),
    ]
    (label,) = [finding for finding in document["findings"] if finding["lacks"] == "label"]
    assert label["command"] == f"kubectl label node {forgotten} gpus=true"


def test_the_named_command_mends_the_node(onprem: Sandbox) -> None:
    """With the label that the check names, the plugin comes to the node and its GPUs appear."""
    api, kubeconfig = onprem.control_plane.api, str(onprem.control_plane.kubeconfig)
    names = [item["metadata"]["name"] for item in api.items(NODES)]
    (forgotten,) = [name for name in names if machine(name) == "forgotten"]
    api.patch(f"{NODES}/{forgotten}", {"metadata": {"labels": {"gpus": "true"}}})
    for _ in range(20):
        _, document = run("gpus", "onprem", "--kubeconfig", kubeconfig)
        (node,) = [one for one in document["nodes"] if one["name"] == forgotten]
        if node["resources"][GPU]["free"] == 4:
            break
    assert node["resources"][GPU]["free"] == 4, document
    assert node["plugin"] == "ready"
    lacking = [finding["lacks"] for finding in document["findings"] if finding["node"] == forgotten]
    assert lacking == ["taint"]


@pytest.mark.parametrize(("limit", "expected"), [(3, 1), (4, 0)])
def test_quota_of_the_rehearsed_aws_account(limit: int, expected: int) -> None:
    """One g4dn.xlarge needs 4 vCPUs of G and VT: 3 are a finding, 4 are enough. The zones have the
    instance types, and who signs in is the stack's admin."""
    # The quota is the account's: no cluster has to stand.
    faults = Faults(quota={"G_VT": limit})
    with ExitStack() as ending:
        cloud = AwsCloud(control_plane=cast("ControlPlane", None), faults=faults)
        ending.callback(cloud.close)
        cloud.account.open("us-east-1")
        session = cloud.account.client("sts").assume_role(
            RoleArn="arn:aws:iam::123456789012:role/deployer", RoleSessionName="me"
        )["Credentials"]
        env = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
            "AWS_SESSION_TOKEN": session["SessionToken"],
            "AWS_ENDPOINT_URL": cloud.endpoint,
        }
        code, document = run("capacity", "train", env=env)
    rows = document["quotas"]
    (system,) = [row for row in rows if "L-1216C47A" in row["quota"]]
    (one,) = [row for row in rows if "L-DB2E81BA" in row["quota"]]
    assert code == expected, document
    assert (system["quota"], system["need"]) == ("L-1216C47A standard on demand", 6)
    assert (one["quota"], one["need"], one["limit"], one["use"]) == (
        "L-DB2E81BA G/VT on demand",
        4,
        limit,
        0,
    )
    assert document["findings"] == []


def test_quota_of_a_rehearsed_autopilot_cluster() -> None:
    """On Autopilot the GPUs of the stack's own pods are counted, on demand and Spot apart."""
    faults = Faults(quota={GLOBAL: 0})
    api = serve_api(GoogleCloud(control_plane=cast("ControlPlane", None), faults=faults))
    try:
        code, document = run("capacity", "autopilot", "--endpoint", api.endpoint)
    finally:
        api.stop()
    assert code == 1
    assert [(quota["quota"], quota["need"], quota["verdict"]) for quota in document["quotas"]] == [
        ("NVIDIA_T4_GPUS", 1, "enough"),
        (GLOBAL, 1, "too little"),
    ]
    assert [(offer["pool"], offer["verdict"]) for offer in document["offers"]] == [
        ("t4", "offered"),
        ("t4-spot", "offered"),
    ]
