"""One node for each request, however long driver and device plugin take on it.

Cluster Autoscaler counts a node that has the accelerator's label and offers no GPU yet as one that
is still coming up (kubernetes/autoscaler cloudprovider/aws/README.md, "Special note on GPU
instances"); GKE labels its nodes itself.
"""

import pytest

from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.report.report import node_lives
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import Rehearse, changed, configured, said

GROUP, TAG = "aws:eks/nodeGroup:NodeGroup", "aws:autoscaling/tag:Tag"
LATE, MINUTES = 20.0, 130.0
"""Seconds: many rounds of the autoscaler, which looks every second here; and as a driver takes."""


def unlabelled() -> list[Mutation]:
    """The pool's nodes without the label, and its group without the tag for it."""
    label = "k8s.amazonaws.com/accelerator"
    return [
        changed(GROUP, f'props["labels"].pop("{label}")', name="train-gpu"),
        changed(TAG, 'props["tag"]["key"] = props["tag"]["key"].replace("accelerator", "other")',
                name=f"train-gpu-label-{label}"),
    ]  # fmt: skip


@pytest.mark.prove
@pytest.mark.parametrize(("stack", "late"), [("train", MINUTES), ("train-gke", LATE)])
def test_a_plugin_that_is_held_back_costs_no_second_node(
    rehearse: Rehearse, stack: str, late: float
) -> None:
    """The pod waits on the one node that came for it, and nothing else joins."""
    rehearsal = rehearse(stack=stack, faults=Faults(gpus_late=late), deadline=late + 70)
    assert rehearsal.failures == []
    (node,) = [one for one in node_lives(rehearsal.sandbox.event_log.events) if one.gpus]
    assert node.gpus_at is not None
    assert node.gpus_at - node.joined >= late


@pytest.mark.prove
def test_without_the_accelerators_label_the_rehearsal_fails(rehearse: Rehearse) -> None:
    """It says that a second node would come, and for want of what."""
    failures = said(
        rehearse(*unlabelled(), stack="train", faults=Faults(gpus_late=LATE), deadline=90)
    )
    assert any(
        "unnecessary scale-up: while the driver and device plugin start on a ready node, the "
        "autoscaler starts another node for the same pods: its nodes have no label "
        "k8s.amazonaws.com/accelerator" in failure
        for failure in failures
    ), failures


@pytest.mark.prove(reason="test_scale_down shows which idle node goes")
def test_one_node_stays_of_a_minimum_of_one_in_two_zones(rehearse: Rehearse) -> None:
    """GKE starts one in each zone; the autoscaler removes the one without a pod, and the rehearsal
    fails if it does not."""

    def in_two_zones(config: dict) -> None:
        zones = ["us-central1-a", "us-central1-b"]
        config["gpu-cluster:gpuPools"]["train-gpu"].update(minNodes=1, zones=zones)
        config["gpu-cluster:cluster"]["location"] = "us-central1"

    rehearsal = rehearse(configured(in_two_zones))
    assert rehearsal.failures == []
    assert rehearsal.teardown(), rehearsal.failures
    lives = [one for one in node_lives(rehearsal.sandbox.event_log.events) if one.gpus]
    assert sum(not one.added for one in lives) == 2, "one in each zone"
    destroy = next(step for step in rehearsal.steps if step.name == "pulumi destroy")
    stayed = [one for one in lives if one.left is None or one.left >= destroy.began]
    assert [one.added for one in stayed] == [False]
