"""A stack whose pools Karpenter launches, with upstream's own Karpenter, and three mistakes in it.

Only that shows what Karpenter makes of the declared pools and rights, and EC2 of what it asks for.
"""

import dataclasses
from pathlib import Path

import pytest

from gpu_cluster.components.eks.cluster_args import EksClusterArgs
from gpu_cluster.rehearsal.change import ChangeRehearsal, before
from gpu_cluster.rehearsal.control_plane.pods import allocatable_gpus
from gpu_cluster.rehearsal.nodes.autoscaler import NODE_POOLS
from gpu_cluster.rehearsal.report.report import node_lives
from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.definition.program import Mutation
from tests.integration.stacks.test_cost import git
from tests.program.effects import set_scaler
from tests.rehearsal.conftest import (
    Rehearse,
    changed,
    configured,
    entered,
    pools,
    said,
    up,
    whole_life,
    with_inventory,
)
from tests.rehearsal.test_change import repository

pytestmark = [
    pytest.mark.prove,
    pytest.mark.skipif(
        "scaler" not in {field.name for field in dataclasses.fields(EksClusterArgs)},
        reason="the program declares no Karpenter yet",
    ),
]
JOB = "pool train-gpu: Job default/sample-gpu-job "
CLASS, POOL = (
    "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass",
    "kubernetes:karpenter.sh/v1:NodePool",
)
POLICY = "aws:iam/rolePolicy:RolePolicy"


KARPENTER = configured(lambda config: set_scaler(config, "karpenter"))


def _choices(config: dict) -> None:
    """Two pods on each GPU, one node that is always there, and a pool in a reservation."""
    set_scaler(config, "karpenter")
    pools, jobs = config["gpu-cluster:gpuPools"], config["gpu-cluster:workloads"]
    sharing = {"strategy": "time-slicing", "replicas": 2}
    pools["train-gpu"] |= {"minNodes": 1, "maxNodes": 2, "sharing": sharing}
    pools["reserved"] = {
        "instanceTypes": ["g6.xlarge"],
        "maxNodes": 1,
        "capacityType": "reservation",
        "reservation": "cr-0123456789abcdef0",
        "zones": ["us-east-1a"],
    }
    job = jobs["sample-gpu-job"]
    for number in range(3):
        jobs[f"shared-{number}"] = dict(job)
    jobs["reserved-job"] = {key: job[key] for key in job if key != "nodeSelector"}
    jobs["reserved-job"]["pool"] = "reserved"


def test_a_static_node_shares_and_a_pool_has_a_reservation(tmp_path: Path) -> None:
    """Four pods share two GPUs, of a node that was there before them and of one that came; the
    fifth runs on a machine of the reservation. Nothing is left of any."""
    change = configured(_choices)
    with whole_life("train", tmp_path / "sandbox", change, deadline=240) as rehearsal:
        nodes = {
            node["metadata"]["labels"]["karpenter.sh/nodepool"]: node
            for node in rehearsal.sandbox.cluster_cache.gpu_nodes
        }
    found = {
        name: (
            node["status"]["allocatable"]["nvidia.com/gpu"],
            node["metadata"]["labels"]["karpenter.sh/capacity-type"],
        )
        for name, node in nodes.items()
    }
    assert found == {
        "train-gpu-static": ("2", "on-demand"),
        "train-gpu": ("2", "on-demand"),
        "reserved": ("1", "reserved"),
    }


def _served(config: dict) -> None:
    """A service that scales, on nodes with an image of the account's own."""
    set_scaler(config, "karpenter")
    pool = config["gpu-cluster:gpuPools"]["train-gpu"]
    pool |= {"maxNodes": 2, "amiId": "ami-0123456789abcdef0"}
    config["gpu-cluster:workloads"] = {}
    config["gpu-cluster:services"] = {
        "rank": {
            "pool": "train-gpu",
            "image": "example.com/rank:1",
            "port": 8000,
            "scaling": {"maxReplicas": 2, "metric": {"name": "waiting", "averageValue": "5"}},
        }
    }


def test_the_next_update_of_a_kept_rehearsal_has_no_conflict(tmp_path: Path) -> None:
    """The rehearsal has made Karpenter hurry, and owns no field of a NodePool afterwards."""
    with entered("train", tmp_path / "sandbox", configured(_served)) as sandbox:
        rehearsal = Rehearsal(sandbox=sandbox, deadline=240)
        assert rehearsal.run_until_ready(), rehearsal.failures
        owners = {
            owner["manager"]
            for pool in sandbox.control_plane.api.items(NODE_POOLS)
            for owner in pool["metadata"]["managedFields"]
            if not owner.get("subresource")
        }
        assert {name.partition("-")[0] for name in owners} <= {"pulumi", "karpenter"}, owners
        slower = {"consolidateAfter": "20m"}
        up(sandbox, pools(karpenter=slower))


def test_a_change_waits_until_karpenter_has_replaced_its_nodes(tmp_path: Path) -> None:
    """Another instance type: the node of a Deployment drifts, and the report counts it."""
    root = repository(tmp_path, "train")
    deployment = configured(
        lambda config: config["gpu-cluster:workloads"]["sample-gpu-job"].update(kind="deployment")
    )
    for change in (KARPENTER, pools(maxNodes=2), deployment):
        change(root)
    git(root, "commit", "--quiet", "--all", "--message", "with Karpenter")
    pools(instanceTypes=["g4dn.2xlarge"])(root)
    earlier = before("HEAD", "train", root)
    with Sandbox("train", source=root, folder=tmp_path / "sandbox") as sandbox:
        run = ChangeRehearsal(before=earlier, sandbox=sandbox, deadline=240)
        assert run.run_until_ready(), run.failures
        change = run.change()
        (node,) = [node for node in sandbox.cluster_cache.nodes if allocatable_gpus(node)]
    assert change is not None
    (replaced,) = change["recycled"]
    assert (len(change["drifted"]), replaced == node["metadata"]["name"]) == (0, False)


def test_an_existing_cluster_gets_karpenter_and_loses_it(tmp_path: Path) -> None:
    """Its own nodes run the controller, which always has a node for a pool without GPUs; afterwards
    it is as its owner made it."""
    loaders = {"instanceTypes": ["m7i.xlarge"], "minNodes": 1, "maxNodes": 1}

    def installed(config: dict) -> None:
        given = {"scaler": "karpenter", "karpenter": {}, "cpuPools": {"loaders": loaders}}
        config["gpu-cluster:cluster"] |= given
        del config["gpu-cluster:gpuPools"]["train-gpu"]["nodeRepair"]

    with entered("on-eks", tmp_path / "sandbox", configured(installed)) as sandbox:
        rehearsal = Rehearsal(sandbox=sandbox, deadline=180)
        assert rehearsal.run_until_ready(), rehearsal.failures
        assert rehearsal.teardown(), rehearsal.failures
        assert sandbox.disturbed() == []
    lives = [life for life in node_lives(sandbox.event_log.events) if life.added]
    assert {(life.group, life.used or not life.gpus, life.left is not None) for life in lives} == {
        ("train-gpu", True, True), ("loaders-static", True, True),
    }  # fmt: skip


def test_train_goes_from_zero_to_one_and_back(tmp_path: Path) -> None:
    """The node is an instance that Karpenter launched, and its owner's agent removes a taint of it;
    after destroy nothing of it is left."""
    taint = {"key": "node.cilium.io/agent-not-ready", "value": "true", "effect": "NoExecute"}
    options = with_inventory(tmp_path, "train", {"startupTaints": [taint["key"]]})
    with whole_life(
        "train", tmp_path / "sandbox", KARPENTER, pools(startupTaints=[taint]), options=options
    ) as rehearsal:
        sandbox = rehearsal.sandbox
        # The images are of the cluster's version, not of the programs that play its control plane.
        classes = sandbox.control_plane.api.get("/apis/karpenter.k8s.aws/v1/ec2nodeclasses")
        names = [ami["name"] for row in classes["items"] for ami in row["status"]["amis"]]
        assert names
        assert all("-1.35-" in name for name in names), names
    (node,) = [life for life in node_lives(sandbox.event_log.events) if life.gpus]
    assert node.group == "train-gpu"
    assert node.name.startswith("ip-10-")
    assert node.added
    assert node.used
    assert node.left is not None


@pytest.mark.parametrize(
    ("mistake", "names"),
    [
        (
            changed(CLASS, 'props["spec"]["subnetSelectorTerms"] = [{"id": "subnet-0"}]'),
            "EC2NodeClass train-gpu: SubnetsReady is False",
        ),
        (
            changed(
                POLICY,
                'if "karpenter" in args.name:\n'
                '    props["policy"] = pulumi.Output.from_input(props["policy"]).apply(\n'
                '        lambda text: text.replace("iam:PassRole", "iam:GetRole"))',
            ),
            "may not do iam:PassRole on arn:aws:iam::",
        ),
        (
            changed(
                POOL,
                'for each in props["spec"]["template"]["spec"]["requirements"]:\n'
                '    if each["key"] == "node.kubernetes.io/instance-type":\n'
                '        each["values"] = ["m5.large"]',
            ),
            "cannot be scheduled: it requests 1 nvidia.com/gpu, and a node there has none",
        ),
    ],
)  # fmt: skip
def test_a_pool_that_never_scales_says_why(
    rehearse: Rehearse, mistake: Mutation, names: str
) -> None:
    """A wrong subnet, a missing right of the controller, types without a GPU."""
    rehearsal = rehearse(KARPENTER, mistake, stack="train", deadline=120)
    (line,) = [line for line in said(rehearsal) if line.startswith(JOB)]
    assert names in line
