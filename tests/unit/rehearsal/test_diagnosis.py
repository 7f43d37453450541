"""Why a pod does not run, in one line that names pool, workload and mismatch."""

from collections.abc import Sequence

import pytest

from gpu_cluster.rehearsal.control_plane.attachments import PROVISIONER
from gpu_cluster.rehearsal.control_plane.pods import STARTING
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, NodeTaint
from gpu_cluster.rehearsal.verify.diagnosis import ClusterSnapshot, Diagnosis, diagnose
from tests.unit.rehearsal.rehearsed import (
    COS_INSTALLER,
    DEVICE_PLUGIN,
    GPU,
    SYSTEM,
    T4,
    UBUNTU_INSTALLER,
    daemon_pod,
    daemon_set,
    group,
    node,
    pod,
    shape,
)

WHO = "Deployment default/sample"


def diagnosis(
    waiting: dict, *groups: NodeGroup, nodes: Sequence[dict] = (), **more: object
) -> Diagnosis:
    """The diagnosis where `nodes` are those of the first group."""
    of = {groups[0].name: nodes} if groups else {}
    snapshot = ClusterSnapshot(
        groups=groups, nodes=of, pods=[waiting, *more.pop("pods", [])], **more
    )
    return diagnose(waiting, snapshot)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"tolerations": []}, "it does not tolerate the taint nvidia.com/gpu=present:NoSchedule"),
        ({"tolerations": [{"key": GPU, "operator": "Equal", "value": "true"}]},
            "it does not tolerate the taint nvidia.com/gpu=present:NoSchedule, only "
            "nvidia.com/gpu=true:any effect"),
        ({"tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoExecute"}]},
            "it does not tolerate the taint nvidia.com/gpu=present:NoSchedule, only "
            "nvidia.com/gpu=:NoExecute"),
        ({"nodeSelector": {"role": "train"}},
            "it selects label role=train, a node there has no label role"),
        ({"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-l4"}},
            "it selects label cloud.google.com/gke-accelerator=nvidia-l4, a node there has "
            "cloud.google.com/gke-accelerator=nvidia-tesla-t4"),
        ({"gpus": 2}, "it requests 2 nvidia.com/gpu, and a node there has 1"),
        ({"containers": [{"name": "c", "resources": {"requests": {"cpu": "8", GPU: "1"}}}]},
            "it requests 8 cpu, and a node there has 4"),
        ({"containers": [{"name": "c", "resources": {"requests": {"memory": "20Gi"}}}]},
            "it requests 20 Gi of memory, and a node there has 15Gi"),
    ],
)  # fmt: skip
def test_a_pod_that_fits_no_pool_is_told_what_keeps_it_away(spec: dict, why: str) -> None:
    """Each single mismatch is named, with the pool that was meant; waiting would not help."""
    found = diagnosis(pod(**spec), group())
    assert found.message == f"pool train-gpu: {WHO} cannot be scheduled: {why}"
    assert found.permanent


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ({"key": "role", "operator": "In", "values": ["a", "b"]},
            "label role In (a, b), a node there has no label role"),
        ({"key": "role", "operator": "Exists"}, "a label role, a node there has no label role"),
        ({"key": "cloud.google.com/gke-accelerator", "operator": "DoesNotExist"},
            "no label cloud.google.com/gke-accelerator, a node there has "
            "cloud.google.com/gke-accelerator=nvidia-tesla-t4"),
    ],
)  # fmt: skip
def test_node_affinity_is_read(expression: dict, why: str) -> None:
    """Required node affinity keeps a pod away like a selector does."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    found = diagnosis(pod(affinity=affinity), group())
    assert found.message == (
        f"pool train-gpu: {WHO} cannot be scheduled: its node affinity requires {why}"
    )


def test_of_several_affinity_terms_one_is_enough() -> None:
    """The terms of a node affinity are alternatives."""
    terms = [
        {"matchExpressions": [{"key": "role", "operator": "Exists"}]},
        {"matchExpressions": [{"key": key, "operator": "Exists"} for key in T4]},
    ]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }
    assert not diagnosis(pod(affinity=affinity), group()).permanent


def test_the_pool_with_gpus_is_named_although_another_is_nearer() -> None:
    """A GPU pod without its toleration is compared with the GPU pool, not with the CPU pool."""
    found = diagnosis(pod(tolerations=[], nodeSelector={}), SYSTEM, group())
    assert found.message.startswith("pool train-gpu: ")


def test_without_any_pool_that_is_said() -> None:
    """A cloud without node pools cannot run anything."""
    found = diagnosis(pod())
    assert found.message == f"{WHO}: the cloud has no node pool"
    assert found.permanent


def test_a_template_without_the_label_cannot_grow_from_zero() -> None:
    """Where nodes would fit but the autoscaler cannot know, its belief is named."""
    blind = group(template=shape(labels={}), node=shape())
    found = diagnosis(pod(), blind)
    assert found.message == (
        f"pool train-gpu: {WHO} cannot be scheduled: the pool cannot scale up from zero for it: "
        "to the "
        "autoscaler, it selects label cloud.google.com/gke-accelerator=nvidia-tesla-t4, a node "
        "there has no label cloud.google.com/gke-accelerator"
    )
    assert found.permanent


def test_a_node_that_joins_otherwise_than_its_template_is_told() -> None:
    """The autoscaler adds a node for the pod, but the pod cannot be on it."""
    other = shape(taints=(NodeTaint(key="team", value="ml", effect="NoSchedule"),))
    found = diagnosis(pod(tolerations=[]), group(template=shape(taints=()), node=other))
    assert found.message == (
        f"pool train-gpu: {WHO} cannot be scheduled: on the node that joins, it does not tolerate "
        "the taint team=ml:NoSchedule"
    )


def test_a_refusal_of_the_cloud_is_passed_on() -> None:
    """Quota and stockouts are the cloud's own words."""
    found = diagnosis(pod(), group(), refusals={"train-gpu": "Quota 'NVIDIA_T4_GPUS' exceeded"})
    assert found.message == (
        f"pool train-gpu: {WHO} cannot be scheduled: the cloud refuses another node: Quota "
        "'NVIDIA_T4_GPUS' exceeded"
    )
    assert found.permanent


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"max_nodes": 0}, "the pool's maximum is 0 nodes"),
        ({"autoscaled": False}, "the pool has 0 nodes and no autoscaling"),
    ],
)
def test_a_pool_that_may_have_no_nodes_is_hopeless(fields: dict, why: str) -> None:
    """A maximum of zero and a fixed size of zero are distinguished."""
    found = diagnosis(pod(), group(**fields))
    assert found.message == f"pool train-gpu: {WHO} cannot be scheduled: {why}"
    assert found.permanent


@pytest.mark.parametrize(("owner", "permanent"), [("ReplicaSet", True), ("Job", False)])
def test_a_full_pool_names_who_fills_it(owner: str, permanent: bool) -> None:
    """At its maximum a pool is full for good, unless what runs there is a Job, which ends."""
    other = pod("other-abc-1", owner=(owner, "other"), on="n1", phase="Running")
    found = diagnosis(pod(), group(max_nodes=1), nodes=[node()], pods=[other])
    kind = "Deployment" if owner == "ReplicaSet" else owner
    assert found.message == (
        f"pool train-gpu: {WHO} cannot be scheduled: the pool has all 1 node of its maximum, and "
        f"none has 1 nvidia.com/gpu free, used by {kind} default/other"
    )
    assert found.permanent is permanent


@pytest.mark.parametrize(
    "part",
    [
        {"metadata": {"name": "n1", "labels": {}, "deletionTimestamp": "2026-11-28T00:00:00Z"}},
        {"spec": {"taints": [STARTING]}},
        {"spec": {"taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]}},
    ],
)
@pytest.mark.parametrize("gpus", [0, 1])
def test_a_node_that_the_cloud_may_refuse_or_has_refused_fills_no_pool(
    part: dict, gpus: int
) -> None:
    """It is in the cluster for a moment, which is long on a busy machine."""
    found = diagnosis(pod(), group(max_nodes=1), nodes=[node(gpus=gpus) | part])
    assert "the pool has all 1 node of its maximum" in found.message
    assert not found.permanent


def test_a_finished_pod_takes_no_room() -> None:
    """What has succeeded uses no GPU any more."""
    other = pod("other-abc-1", owner=("Job", "other"), on="n1", phase="Succeeded")
    found = diagnosis(pod(), group(max_nodes=1), nodes=[node()], pods=[other])
    assert "used by" not in found.message


def test_a_pool_that_can_grow_is_waited_for() -> None:
    """Nothing is wrong while a node may still come; the scheduler's words are passed on."""
    waiting = pod()
    waiting["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    ]
    found = diagnosis(waiting, group())
    assert found.message == (
        f"pool train-gpu: {WHO} waits for a node; the scheduler says: 0/1 nodes are available"
    )
    assert not found.permanent


def test_the_words_of_karpenter_are_passed_on_where_it_launches_the_instances() -> None:
    """Those about the pod, and of no other component; a stand-in's say nothing about a cloud."""
    waiting = pod()
    waiting["metadata"]["uid"] = "uid-1"
    events = [
        {
            "reason": "FailedScheduling",
            "message": f"{component} on {uid}",
            "source": {"component": component},
            "involvedObject": {"uid": uid},
        }
        for component, uid in (
            ("karpenter", "uid-1"), ("karpenter", "uid-2"), ("default-scheduler", "uid-1"),
        )
    ]  # fmt: skip
    found = diagnosis(waiting, group(machines=()), events=events)
    assert found.message.endswith("; Karpenter says: karpenter on uid-1")
    assert "Karpenter" not in diagnosis(waiting, group(), events=events).message


def test_a_claim_for_which_no_disk_is_made_is_named() -> None:
    """In the controller's words, which say why; other claims' are nobody's business."""
    waiting = pod()
    waiting["spec"]["volumes"] = [{"persistentVolumeClaim": {"claimName": "results"}}]
    events = [
        {
            "reason": "ProvisioningFailed",
            "message": f'storageclass "{name}-ssd" not found',
            "involvedObject": {"namespace": "default", "name": name},
        }
        for name in ("results", "others")
    ]
    found = diagnosis(waiting, group(), events=events)
    assert found.message.endswith('; of its claim results: storageclass "results-ssd" not found')


def test_a_volume_that_its_driver_refuses_is_permanent() -> None:
    """Waiting changes nothing, however many nodes the pool may still have."""
    waiting = pod()
    waiting["spec"]["volumes"] = [{"persistentVolumeClaim": {"claimName": "results"}}]
    refusal = {
        "reason": "ProvisioningFailed",
        "message": "network 'default' does not exist",
        "involvedObject": {"namespace": "default", "name": "results"},
        "source": {"component": PROVISIONER},
    }
    found = diagnosis(waiting, group(), events=[refusal])
    assert found.message == (
        f"pool train-gpu: {WHO} cannot be scheduled; of its claim results: network 'default' does "
        "not exist"
    )
    assert found.permanent


WITHOUT_DRIVER = group(driver="pod", node_os="cos")
WITHOUT_PLUGIN = group(plugin="pod")
WAITS = f"pool train-gpu: {WHO} waits for GPUs that never become allocatable on node n1: "


@pytest.mark.parametrize(
    ("of", "daemons", "why"),
    [
        (WITHOUT_DRIVER, {},
            "the cloud does not install a driver there, and the stack has no driver "
         "installer DaemonSet"),
        (WITHOUT_PLUGIN, {"installer": COS_INSTALLER},
            "the cloud does not install a device plugin there, and the stack has no device "
            "plugin DaemonSet"),
        (WITHOUT_DRIVER, {"installer": UBUNTU_INSTALLER},
            "DaemonSet kube-system/installer is built for ubuntu, but the node runs cos"),
        (WITHOUT_DRIVER, {"installer": {**COS_INSTALLER, "tolerations": []}},
            "DaemonSet kube-system/installer does not select it: it does not tolerate the taint "
            "nvidia.com/gpu=present:NoSchedule"),
        (WITHOUT_PLUGIN, {"plugin": {**DEVICE_PLUGIN, "nodeSelector": {"node-type": "gpu"}}},
            "DaemonSet kube-system/plugin does not select it: it selects label node-type=gpu, a "
            "node there has no label node-type"),
    ],
)  # fmt: skip
def test_gpus_that_never_appear_are_traced_to_who_should_bring_them(
    of: NodeGroup, daemons: dict, why: str
) -> None:
    """A node without GPUs says which DaemonSet is missing, or why it misses the node."""
    sets = [daemon_set(name, spec) for name, spec in daemons.items()]
    found = diagnosis(pod(), of, nodes=[node(of=of, gpus=0)], daemon_sets=sets)
    assert found.message == WAITS + why
    assert found.permanent


def test_an_installer_that_is_on_its_way_is_waited_for() -> None:
    """While the installer's pod is starting, the GPUs may still appear."""
    starting = daemon_pod("installer", COS_INSTALLER, on="n1", phase="Pending")
    found = diagnosis(
        pod(),
        WITHOUT_DRIVER,
        nodes=[node(of=WITHOUT_DRIVER, gpus=0)],
        pods=[starting],
        daemon_sets=[daemon_set("installer", COS_INSTALLER)],
    )
    assert found.message == WAITS + "the pod of DaemonSet kube-system/installer is bound there"
    assert not found.permanent


def test_workers_that_are_to_have_a_node_each_are_told_so() -> None:
    """There is room on the node, and yet no worker may come."""
    rule = {
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"jobset": "ddp"}},
    }
    two = group(template=shape(gpus=2), max_nodes=1)
    first, second = (pod(f"w{n}", topologySpreadConstraints=[rule]) for n in range(2))
    first["spec"]["nodeName"] = "n1"
    for each in (first, second):
        each["metadata"]["labels"]["jobset"] = "ddp"
    found = diagnosis(second, two, nodes=[node("n1", two)], pods=[first])
    assert "all 1 node of its maximum, and each has one of its pods" in found.message
    other = {**first, "metadata": {**first["metadata"], "labels": {}}}
    found = diagnosis(second, two, nodes=[node("n1", two)], pods=[other])
    assert "one of its pods" not in found.message
