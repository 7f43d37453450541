"""A stack of EKS Auto Mode, whose nodes upstream's Karpenter launches here in the place of AWS's,
and three mistakes in it."""

from pathlib import Path

import pytest

from gpu_cluster.rehearsal.report.report import node_lives
from gpu_cluster.stacks.definition.program import Mutation
from tests.program.effects import set_scaler
from tests.rehearsal.conftest import Rehearse, changed, configured, said, whole_life

pytestmark = [
    # Each needs a control plane, and a minute.
    pytest.mark.prove,
]
JOB = "pool train-gpu: Job default/sample-gpu-job "
CLASS, POOL = (
    "kubernetes:eks.amazonaws.com/v1:NodeClass",
    "kubernetes:karpenter.sh/v1:NodePool",
)


def _automatic(config: dict) -> None:
    set_scaler(config, "auto-mode")
    config["gpu-cluster:cluster"]["tags"] = {"team": "ml"}
    config["gpu-cluster:gpuPools"]["train-gpu"]["maxNodes"] = 2
    jobs = config["gpu-cluster:workloads"]
    jobs["other-gpu-job"] = dict(jobs["sample-gpu-job"])


AUTO_MODE = configured(_automatic)


def test_train_goes_from_zero_to_two_and_back(tmp_path: Path) -> None:
    """Two nodes come with Auto Mode's labels and its own device plugin, and after destroy no
    instance, launch template or instance profile is left."""
    with whole_life("train", tmp_path / "sandbox", AUTO_MODE, deadline=240) as rehearsal:
        sandbox = rehearsal.sandbox
        nodes = sandbox.cluster_cache.gpu_nodes
        assert not sandbox.cluster_cache.all("DaemonSet")
    lives = [life for life in node_lives(sandbox.event_log.events) if life.gpus]
    for node in nodes:
        labels = node["metadata"]["labels"]
        assert labels["eks.amazonaws.com/compute-type"] == "auto"
        assert labels["eks.amazonaws.com/nodeclass"] == "train-gpu"
        assert labels["eks.amazonaws.com/instance-family"] == "g4dn"
        assert labels["eks.amazonaws.com/instance-gpu-name"] == "t4"
        assert not [key for key in labels if "karpenter.k8s.aws" in key]
    assert [(life.group, life.used, life.left is not None) for life in lives] == [
        ("train-gpu", True, True)
    ] * 2


@pytest.mark.parametrize(
    ("mistake", "names"),
    [
        (
            changed(CLASS, 'props["spec"]["role"] = "somebody-elses"'),
            "InstanceProfileReady is False: Role somebody-elses is unauthorized to join nodes",
        ),
        (
            changed(CLASS, 'props["spec"]["subnetSelectorTerms"] = [{"id": "subnet-0"}]'),
            "NodeClass train-gpu: SubnetsReady is False",
        ),
        (
            changed(
                POOL,
                'for each in props["spec"]["template"]["spec"]["requirements"]:\n'
                '    if each["key"] == "node.kubernetes.io/instance-type":\n'
                '        each |= {"key": "eks.amazonaws.com/instance-family", "values": ["g7"]}',
            ),
            "NodePool train-gpu: EKS Auto Mode starts no instance of g7",
        ),
    ],
)
def test_a_pool_that_never_scales_says_why(
    rehearse: Rehearse, mistake: Mutation, names: str
) -> None:
    """A role without an access entry, a wrong subnet, a family that Auto Mode lacks."""
    rehearsal = rehearse(AUTO_MODE, mistake, stack="train", deadline=60)
    (line,) = [line for line in said(rehearsal) if line.startswith(JOB)]
    assert names in line
