"""What Auto Scaling tags promise of a node, against the node that comes up."""

from collections.abc import Mapping

import pytest

from gpu_cluster.rehearsal.simulators.aws.node_template_check import compare_template, real
from gpu_cluster.rehearsal.simulators.aws.nodes import tagged_taints
from gpu_cluster.rehearsal.simulators.cloud import NodeTaint, NodeTemplate

PREFIX = "k8s.io/cluster-autoscaler/node-template"
GPU_TAINT = NodeTaint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
NODE = NodeTemplate(
    labels={"role": "train-gpu", "eks.amazonaws.com/nodegroup": "train-gpu"},
    taints=(GPU_TAINT,),
    capacity={"cpu": "7910m", "memory": "60Gi", "pods": "110", "ephemeral-storage": "89Gi",
              "nvidia.com/gpu": "4"},
)  # fmt: skip


def promise(
    labels: Mapping[str, str] | None = None,
    taints: tuple[NodeTaint, ...] = (GPU_TAINT,),
    **resources: str | None,
) -> NodeTemplate:
    """A template that tells the truth about NODE, but for what is given."""
    names = {"gpus": "nvidia.com/gpu", "disk": "ephemeral-storage"}
    capacity = {
        "cpu": "7910m",
        "memory": "58Gi",
        "nvidia.com/gpu": "4",
        "ephemeral-storage": "88Gi",
    }
    for name, value in resources.items():
        capacity.pop(names.get(name, name))
        if value is not None:
            capacity[names.get(name, name)] = value
    return NodeTemplate(
        labels={"role": "train-gpu"} if labels is None else labels, taints=taints, capacity=capacity
    )


def test_a_true_promise_has_no_differences() -> None:
    """What EKS and the instance type add by themselves is no difference, nor is a little slack."""
    assert compare_template(promise(), NODE) == []


@pytest.mark.parametrize(
    ("template", "tag", "effect"),
    [
        (promise(cpu="8"), "resources/cpu says 8", "triggers unnecessary scale-ups"),
        (promise(memory="61Gi"), "resources/memory says 61Gi", "triggers unnecessary scale-ups"),
        (promise(labels={}), "label/role is missing", "never triggers a scale-up"),
        (promise(labels={"role": "x"}), "label/role says x", "never triggers a scale-up"),
        (promise(labels={"role": "train-gpu", "zone": "b"}),
            "label/zone says b, the nodes have no label zone", "unnecessary scale-ups"),
        (promise(taints=()), "taint/nvidia.com/gpu does not say present:NoSchedule",
            "does not tolerate it triggers an unnecessary scale-up"),
        (promise(taints=(GPU_TAINT, NodeTaint(key="a", value="b", effect="NoExecute"))),
            "taint/a says b:NoExecute, the nodes have no such taint", "never triggers a scale-up"),
        (promise(gpus="8"), "resources/nvidia.com/gpu says 8", "too few nodes are started"),
        (promise(gpus="1"), "resources/nvidia.com/gpu says 1", "scales up too often"),
        (promise(gpus=None), "resources/nvidia.com/gpu is missing", "never triggers a scale-up"),
        (promise(gpus="four"), "says four, which is not a quantity", "triggers a scale-up"),
        (promise(disk="100Gi"), "resources/ephemeral-storage says 100Gi", "unnecessary scale-ups"),
        (promise(disk="20G"), "resources/ephemeral-storage says 20G", "too often"),
        (promise(disk=None), "resources/ephemeral-storage is missing", "never triggers"),
    ],
)  # fmt: skip
def test_a_difference_names_its_tag_and_its_effect(
    template: NodeTemplate, tag: str, effect: str
) -> None:
    """Each difference is one line, with the tag and with what it would cause."""
    (line,) = compare_template(template, NODE)
    assert f"{PREFIX}/{tag}" in line or tag in line
    assert effect in line
    assert "\n" not in line


def test_a_changed_taint_is_told_from_both_sides() -> None:
    """Another value is a taint that is missing and one that is not there."""
    taint = NodeTaint(key="nvidia.com/gpu", value="", effect="NoSchedule")
    lines = compare_template(promise(taints=(taint,)), NODE)
    assert len(lines) == 2


def test_taints_in_the_clouds_own_spelling_are_dropped() -> None:
    """Cluster Autoscaler reads `<value>:<effect>` in Kubernetes spelling and nothing else."""
    tags = {
        f"{PREFIX}/taint/nvidia.com/gpu": "present:NoSchedule",
        f"{PREFIX}/taint/empty": ":NoExecute",
        f"{PREFIX}/taint/cloud": "present:NO_SCHEDULE",
        f"{PREFIX}/taint/bare": "NoSchedule",
    }
    assert tagged_taints(tags) == (NodeTaint(key="empty", value="", effect="NoExecute"), GPU_TAINT)


def test_each_tag_stands_beside_what_the_node_has() -> None:
    """As a tag would say it; tags that promise nothing of a node are left out."""
    tags = {
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"{PREFIX}/label/role": "train-gpu",
        f"{PREFIX}/label/zone": "b",
        f"{PREFIX}/taint/nvidia.com/gpu": "present:NoSchedule",
        f"{PREFIX}/resources/nvidia.com/gpu": "8",
    }
    assert real(tags, NODE) == {
        f"{PREFIX}/label/role": "train-gpu",
        f"{PREFIX}/label/zone": None,
        f"{PREFIX}/taint/nvidia.com/gpu": "present:NoSchedule",
        f"{PREFIX}/resources/nvidia.com/gpu": "4",
    }
