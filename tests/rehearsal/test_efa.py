"""A training job on two machines with Elastic Fabric Adapters, and one mistake at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.sandbox import SandboxOptions
from gpu_cluster.rehearsal.simulators.aws.network_interfaces import adapters
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES
from gpu_cluster.stacks.definition.program import Mutation
from tests.program.effects import set_scaler
from tests.rehearsal.conftest import (
    Rehearse,
    changed,
    configured,
    details,
    found_by_its_words,
    rehearsed,
    whole_life,
    with_inventory,
    without_pods,
)
from tests.rehearsal.gpu_direct import two_workers

pytestmark = pytest.mark.prove(reason="rehearsals; test_eks_efa.py has what the program declares")


def two_machines(scaler: str = "") -> Callable[[dict[str, Any]], None]:
    """A job with two workers in a queue, on p4d.24xlarge close together, and nothing else."""

    def configure(config: dict[str, Any]) -> None:
        pool = {"instanceTypes": ["p4d.24xlarge"], "zones": ["us-east-1a"]}
        two_workers(config, {**pool, "efa": True, "placementGroup": "cluster"})
        if scaler:
            set_scaler(config, scaler)

    return configure


@pytest.mark.parametrize("scaler", ["", "karpenter"])
def test_a_job_on_two_machines_runs_with_their_adapters(tmp_path: Path, scaler: str) -> None:
    """From no node to two and back; a second up changes nothing, and nothing is left. Upstream's
    Karpenter launches the instances with EFA interfaces."""
    with whole_life(
        "train", tmp_path / "sandbox", configured(two_machines(scaler)),
        options=SandboxOptions(job_seconds=2),
    ) as rehearsal:  # fmt: skip
        if scaler:
            machines = rehearsal.sandbox.cloud.account.backend("ec2").all_instances()  # type: ignore[attr-defined]
            launched = [
                machine.launch_data for machine in machines if hasattr(machine, "launch_data")
            ]
            assert [adapters(data) for data in launched] == [4, 4]
            assert all(data["Placement"]["GroupId"] for data in launched)


def in_existing(config: dict[str, Any]) -> None:
    """The same in a cluster of another owner, whose VPC and security group are read."""
    two_machines()(config)
    cluster = config["gpu-cluster:cluster"]
    cluster.pop("endpoint")
    cluster.pop("certificateAuthority")
    pool = config["gpu-cluster:gpuPools"]["train-gpu"]
    pool.pop("zones")
    pool |= {"subnetIds": ["subnet-0aaaaaaaaaaaaaaa1"], "nodeRepair": {"enabled": False}}


@pytest.mark.parametrize("second", [False, True], ids=["alone", "its owner has the plugin"])
def test_a_job_runs_with_adapters_in_an_existing_cluster(tmp_path: Path, second: bool) -> None:
    """The security group is in its owner's VPC, and deleted with the stack. A second plugin that
    tolerates everything is named."""
    inventory = yaml.safe_load((INVENTORIES / "on-eks.yaml").read_text())
    if second:
        inventory.setdefault("objects", []).append(yaml.safe_load(OWNERS_PLUGIN))
    rehearsal = rehearsed(
        "on-eks", tmp_path / "sandbox", configured(in_existing), deadline=180,
        options=with_inventory(tmp_path, "on-eks", inventory, job_seconds=2),
    )  # fmt: skip
    if second:
        assert any("efa on one node" in line for line in rehearsal.failures)
        return
    assert rehearsal.failures == []
    steps = details(rehearsal)
    assert steps["idempotency"] == "no changes"
    assert steps["leak check"].endswith("nothing left in the cluster, which still exists")


OWNERS_PLUGIN = """
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: efa-plugin, namespace: kube-system }
spec:
  selector: { matchLabels: { app: efa-plugin } }
  template:
    metadata: { labels: { app: efa-plugin } }
    spec:
      tolerations: [{ operator: Exists }]
      containers: [{ name: efa, image: example.com/eks/aws-efa-k8s-device-plugin:v0.5.30 }]
      volumes:
        - { name: sockets, hostPath: { path: /var/lib/kubelet/device-plugins } }
        - { name: devices, hostPath: { path: /dev/infiniband } }
"""
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
RESOURCE = "k8s.io/cluster-autoscaler/node-template/resources/vpc.amazonaws.com/efa"
_tag = changed(
    "aws:autoscaling/tag:Tag",
    'props["tag"]["key"] = "something-else"',
    name="train-gpu-resource-vpc.amazonaws.com/efa",
)
_own_tag = changed(
    "aws:eks/nodeGroup:NodeGroup", f'del props["tags"]["{RESOURCE}"]', name="train-gpu"
)


def untagged(program: Path) -> None:
    """Without the tags that Cluster Autoscaler reads: the group's, and the node group's own."""
    _tag(program)
    _own_tag(program)


MISTAKES: dict[str, tuple[Mutation, str]] = {
    "a card that the machine does not have": (
        changed(
            TEMPLATE,
            'props["network_interfaces"][1]["network_card_index"] = 7',
            name="train-gpu",
        ),
        "network card 7, device 1: p4d.24xlarge has 4 network cards",
    ),
    "a placement group that does not exist": (
        changed(TEMPLATE, 'props["placement"] = {"group_name": "near"}', name="train-gpu"),
        "The Placement Group 'near' is unknown",
    ),
    "no rule that lets EFA out": (
        changed("aws:ec2/securityGroup:SecurityGroup", 'props["egress"] = []', name="k8s-ml-efa"),
        "no EFA traffic passes between its nodes",
    ),
    "no device plugin": (
        without_pods("aws-efa-k8s-device-plugin"),
        "vpc.amazonaws.com/efa",
    ),
    "NVIDIA's plugin takes the devices": (
        changed(
            "kubernetes:apps/v1:DaemonSet",
            'pod = props["spec"]["template"]["spec"]\n'
            'for container in pod["containers"]:\n'
            '    container["env"] = [\n'
            '        item for item in container.get("env", []) if item["name"] != "MOFED_ENABLED"\n'
            "    ]",
            name="nvidia-device-plugin",
        ),
        "gives every pod with a GPU all EFA devices of its node",
    ),
    "no tag of the adapters": (untagged, "vpc.amazonaws.com/efa"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_wrong_thing_about_adapters_is_named(rehearse: Rehearse, mistake: str) -> None:
    """Each by its own words."""
    found_by_its_words(rehearse, two_machines(), MISTAKES[mistake], stack="train")
