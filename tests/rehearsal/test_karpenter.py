"""A stack whose pools Karpenter launches, with upstream's own Karpenter, and three mistakes in it.

Only that shows what Karpenter makes of the declared pools and rights, and EC2 of what it asks for.
"""

import dataclasses
from contextlib import ExitStack
from pathlib import Path

import pytest

from components.eks.cluster_args import EksClusterArgs
from rehearsal.report import node_lives
from rehearsal.scenario import Rehearsal
from stacks.definition.program import Mutation
from tests.rehearsal.conftest import Rehearse, changed, configured, entered, said

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


def _karpenter(config: dict) -> None:
    cluster = config["gpu-cluster:cluster"]
    cluster.pop("autoscaler", None)
    cluster["scaler"] = "karpenter"


KARPENTER = configured(_karpenter)


def test_train_goes_from_zero_to_one_and_back(tmp_path: Path) -> None:
    """The node is an instance that Karpenter launched; after destroy nothing of it is left."""
    with ExitStack() as sandboxes:
        sandbox = entered(sandboxes, "train", tmp_path / "sandbox", KARPENTER)
        rehearsal = Rehearsal(sandbox=sandbox, deadline=180)
        assert rehearsal.run_until_ready(), rehearsal.failures
        assert rehearsal.teardown(), rehearsal.failures
        lives = node_lives(sandbox.event_log.events)
    (node,) = [life for life in lives if life.gpus]
    assert node.group == "train-gpu"
    assert node.name.startswith("ip-10-")
    assert node.added
    assert node.used
    assert node.left is not None
    steps = {step.name: step.detail for step in rehearsal.steps}
    assert steps["idempotency"] == "no changes"
    assert steps["leak check"] == (
        "nothing left in the state, nothing left in the cloud, no cluster"
    )


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
