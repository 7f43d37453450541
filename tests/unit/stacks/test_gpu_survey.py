"""What the GPU check makes of nodes, pods and DaemonSets, as plain API objects."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster import tools
from gpu_cluster.components.catalog import images
from gpu_cluster.components.cluster import GPU_TAINT, POOL_LABEL, GpuPool, Taint
from gpu_cluster.rehearsal.engine.engine import BIN
from gpu_cluster.stacks.definition import settings as stack
from gpu_cluster.stacks.live import gpu_survey as gpus
from gpu_cluster.stacks.live.cluster import client_of, listed_items
from gpu_cluster.stacks.live.gpu_findings import Finding
from gpu_cluster.stacks.live.gpu_nodes import (
    GpuNode,
    claimable,
    gpu_sign,
    model,
    pod_state,
    requested,
)
from gpu_cluster.stacks.outcome import CheckError
from gpu_cluster.stacks.table import table

GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": GPU_TAINT.value, "effect": "NoSchedule"}
PLUGIN_IMAGE = f"{images.DEVICE_PLUGIN.repository}:{images.DEVICE_PLUGIN.tag}"


def a_node(
    name: str = "n",
    gpus: int | None = 9,
    *,
    allocatable: int | None = None,
    labels: dict[str, str] | None = None,
    taints: Any = (TAINT,),
    **spec: Any,
) -> dict[str, Any]:
    capacity = {"cpu": "4"} | ({} if gpus is None else {GPU: str(gpus)})
    offered = capacity if allocatable is None else capacity | {GPU: str(allocatable)}
    return {
        "metadata": {"name": name, "labels": {"gpus": "true"} if labels is None else labels},
        "spec": {"taints": list(taints), **spec},
        "status": {
            "capacity": capacity,
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_pod(
    name: str = "p",
    node: str = "n",
    *,
    gpus: int = 0,
    phase: str = "Running",
    ready: bool = True,
    waiting: str | None = None,
    **spec: Any,
) -> dict[str, Any]:
    limits = {"limits": {GPU: str(gpus)}} if gpus else {}
    state = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": limits}], **spec},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"state": state}],
        },
    }


PLUGIN_SPEC: dict[str, Any] = {
    "containers": [{"name": "plugin", "image": PLUGIN_IMAGE}],
    "volumes": [{"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins/"}}],
}
INSTALLER_SPEC: dict[str, Any] = {
    "initContainers": [
        {"name": "nvidia-driver-installer", "securityContext": {"privileged": True}}
    ],
    "containers": [{"name": "pause"}],
}


OURS = {"gpu-cluster/stack": "gpu-cluster/lab"}


def a_daemon_set(name: str, template: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "kube-system", "annotations": OURS},
        "spec": {"template": {"spec": template | spec}},
    }


PLUGIN_SET = a_daemon_set(
    "plugin",
    PLUGIN_SPEC,
    nodeSelector={"gpus": "true"},
    tolerations=[{"key": GPU, "operator": "Exists"}],
)


def a_pool(name: str = "gpus", **given: Any) -> GpuPool:
    selector = given.pop("node_selector", {"gpus": "true"})
    return GpuPool(
        **{
            "name": name,
            "accelerator": "nvidia",
            "gpus_per_node": 9,
            "min_nodes": None,
            "max_nodes": None,
            "labels": selector,
            "node_selector": selector,
            "taints": [GPU_TAINT],
            "device_plugin": True,
            **given,
        }
    )


def survey(
    node: dict[str, Any], *pods: Any, sets: Any = (PLUGIN_SET,), pools: Any = None
) -> tuple[GpuNode, list[Finding]]:
    """The row and the findings of a node, beside one without GPUs."""
    nodes = [node, a_node("z-cpu", None, labels={}, taints=())]
    rows, found = gpus.survey(nodes, pods, sets, [a_pool()] if pools is None else pools)
    return rows[0], found


PLUGIN = a_pod("plugin-x", **PLUGIN_SPEC)


@pytest.mark.parametrize(
    ("node", "sign"),
    [
        (a_node(labels={}), "capacity nvidia.com/gpu"),
        (a_node(gpus=None, labels={"nvidia.com/gpu.present": "true"}),
         "label nvidia.com/gpu.present=true"),
        (a_node(gpus=None, labels={"nvidia.com/gpu.present": "false"}), None),
        (a_node(gpus=None, labels={"cloud.google.com/gke-accelerator": "nvidia-l4"}),
         "label cloud.google.com/gke-accelerator=nvidia-l4"),
        (a_node(gpus=None, labels={"k8s.amazonaws.com/accelerator": "nvidia-l4"}),
         "label k8s.amazonaws.com/accelerator=nvidia-l4"),
        (a_node(gpus=None, labels={"feature.node.kubernetes.io/pci-10de.present": "true"}),
         "label feature.node.kubernetes.io/pci-10de.present=true"),
        (a_node(gpus=None, labels={"feature.node.kubernetes.io/pci-0302_10de.present": "true"}),
         "label feature.node.kubernetes.io/pci-0302_10de.present=true"),
        (a_node(gpus=None, labels={"node.kubernetes.io/instance-type": "p3.2xlarge"}),
         "instance type p3.2xlarge"),
        (a_node(gpus=None, labels={"node.kubernetes.io/instance-type": "g2-standard-4"}),
         "instance type g2-standard-4"),
        (a_node(gpus=None, labels={"node.kubernetes.io/instance-type": "g4ad.xlarge"}), None),
        (a_node(gpus=None, labels={"node.kubernetes.io/instance-type": "m7i.large"}), None),
        (a_node(gpus=None, labels={"node.kubernetes.io/instance-type": "n1-standard-4"}), None),
        (a_node(gpus=None), None),
    ],
)  # fmt: skip
def test_what_looks_like_a_gpu_node(node: dict[str, Any], sign: str | None) -> None:
    """Capacity, a label or an instance type with NVIDIA's GPUs makes a node look like one."""
    assert gpu_sign(node) == sign


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (
            {"nvidia.com/gpu.product": "Tesla-T4", "k8s.amazonaws.com/accelerator": "nvidia-t4"},
            "Tesla-T4",
        ),
        ({"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, "nvidia-tesla-t4"),
        ({"node.kubernetes.io/instance-type": "p3.2xlarge"}, "V100 16GB"),
        ({}, None),
    ],
)
def test_model(labels: dict[str, str], expected: str | None) -> None:
    """The model is the plugin's own word, else the cloud's, else the instance type's."""
    assert model(a_node(labels=labels)) == expected


def container(gpus: int, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"limits": {GPU: str(gpus)}}, **more}


@pytest.mark.parametrize(
    ("spec", "phase", "units"),
    [
        ({"containers": [container(2), container(1)]}, "Running", 3),
        ({"containers": [container(2)]}, "Succeeded", 0),
        ({"containers": [container(2)]}, "Failed", 0),
        ({"containers": [{"name": "c"}]}, "Running", 0),
        ({"containers": [container(1)], "initContainers": [container(4)]}, "Pending", 4),
        ({"containers": [container(3)], "initContainers": [container(2)]}, "Running", 3),
        ({"containers": [container(1)], "initContainers": [container(2, restartPolicy="Always")]},
         "Running", 3),
        ({"containers": [container(1)],
          "initContainers": [container(1, restartPolicy="Always"), container(4)]}, "Running", 5),
    ],
)  # fmt: skip
def test_requested(spec: dict[str, Any], phase: str, units: int) -> None:
    """A pod holds what the scheduler counts for it, and nothing once it has ended."""
    assert requested({"spec": spec, "status": {"phase": phase}}, GPU) == units


def test_a_pod_whose_request_became_a_claim_holds_no_resource_of_its_node() -> None:
    """The claim counts, and a node that had a device plugin still has the resource, at zero."""
    mapping = {"containerName": "c", "resourceName": GPU, "requestName": "container-0-request-0"}
    claim = {"resourceClaimName": "a-extended-resources-x", "requestMappings": [mapping]}
    status = {"phase": "Running", "extendedResourceClaimStatus": claim}
    assert requested({"spec": {"containers": [container(2)]}, "status": status}, GPU) == 0


def test_pod_states() -> None:
    """A pod is ready, on its way, or failing with the reason."""
    failed = a_pod(ready=False)
    failed["status"]["initContainerStatuses"] = [{"state": {"terminated": {"exitCode": 3}}}]
    going = a_pod()
    going["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    assert [str(pod_state(pod)) for pod in (
        a_pod(), a_pod(ready=False), a_pod(ready=False, waiting="ContainerCreating"),
        a_pod(ready=False, waiting="ImagePullBackOff"), failed, going,
    )] == [
        "ready", "starting", "starting", "failing (ImagePullBackOff)", "failing (exit code 3)",
        "starting",
    ]  # fmt: skip


def test_two_nodes_of_9_and_one_without_the_label() -> None:
    """Two nodes of 9 GPUs are listed with what is free; the one without the label is named."""
    nfd = {"feature.node.kubernetes.io/pci-10de.present": "true"}
    nodes = [
        a_node("a"),
        a_node("b"),
        a_node("c", None, labels=nfd),
        a_node("cpu", None, taints=()),
    ]
    pods = [
        a_pod(node="a", gpus=2),
        a_pod(node="a", gpus=2),
        *(a_pod(f"plugin-{name}", name, **PLUGIN_SPEC) for name in "ab"),
    ]
    rows, found = gpus.survey(nodes, pods, [PLUGIN_SET], [a_pool()])
    assert [(row.name, row.resources) for row in rows] == [
        ("a", {GPU: (9, 9, 4)}),
        ("b", {GPU: (9, 9, 0)}),
        ("c", {GPU: (0, 0, 0)}),
        ("cpu", {}),
    ]
    assert [(one.node, one.lacks, one.command) for one in found] == [
        ("c", "label", "kubectl label node c gpus=true")
    ]
    text = gpus.survey_text(rows, found)
    assert text.splitlines()[1].split()[:8] == ["a", "gpus", "nvidia", GPU, "9", "9", "4", "5"]
    assert text.endswith("\n  kubectl label node c gpus=true")


def test_nothing_is_amiss() -> None:
    """A GPU node with label, plugin and taint gives no finding; a CPU node never does."""
    row, found = survey(a_node(), PLUGIN)
    assert found == []
    assert (row.driver, row.plugin, row.state) == ("works", "ready", "ready")
    row, found = survey(a_node(gpus=None, labels={}, taints=()))
    assert (found, row.gpu_sign, row.driver, row.plugin) == ([], None, None, None)


def test_label_with_another_value_is_overwritten() -> None:
    """Where the label is there with another value, the command overwrites it."""
    _, found = survey(a_node(labels={"gpus": "no"}))
    assert [one.command for one in found] == ["kubectl label node n gpus=true --overwrite"]


def test_label_of_the_nearest_pool_is_asked_for() -> None:
    """Of several pools the one with the fewest labels missing is named, with its alternatives."""
    pools = [
        a_pool("far", node_selector={"a": "1", "b": "2"}),
        a_pool("near", node_selector={"b": "2", "c": "3"}),
    ]
    _, found = survey(a_node(labels={"b": "2", "c": "4"}), pools=pools)
    assert [one.command for one in found] == ["kubectl label node n a=1"]
    _, found = survey(a_node(labels={"c": "3"}), pools=pools)
    assert [one.command for one in found] == ["kubectl label node n b=2"]
    assert "(or a=1,b=2 for pool far)" in found[0].message


@pytest.mark.parametrize(
    "key",
    ["cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "karpenter.sh/nodepool"],
)
def test_nodes_of_other_cloud_pools_are_left_alone(key: str) -> None:
    """In a cloud only a node of this stack's own pool is asked to have its label."""
    pools = [a_pool("train-gpu", node_selector={POOL_LABEL: "train-gpu"})]
    _, found = survey(a_node(labels={key: "train-gpu-ab12cd3"}), pools=pools)
    assert [one.command for one in found] == ["kubectl label node n gpu-cluster/pool=train-gpu"]
    _, found = survey(a_node(labels={key: "train-gpu-large-ab12cd3"}), pools=pools)
    assert found == []


def test_who_launched_a_node_is_known() -> None:
    """Karpenter, or EKS Auto Mode, whose device plugin is AWS's."""
    of_pool = {POOL_LABEL: "gpus", "gpus": "true", "karpenter.sh/nodepool": "gpus-static"}
    row, _ = survey(a_node(labels=of_pool))
    assert row.launched_by == "Karpenter, NodePool gpus-static"
    automatic = of_pool | {"eks.amazonaws.com/compute-type": "auto"}
    pools = [a_pool(device_plugin=False)]
    row, (found,) = survey(a_node(allocatable=0, labels=automatic), sets=[PLUGIN_SET], pools=pools)
    assert row.launched_by == "EKS Auto Mode, NodePool gpus-static"
    assert "its device plugin does not belong to this stack: the cloud" in found.message
    assert survey(a_node())[0].launched_by is None


def test_the_last_node_without_a_taint_keeps_none() -> None:
    """In a cluster of GPU nodes only, a taint on all of them would leave no node for the stack's
    controllers and the cluster's DNS."""
    nodes = [a_node(name, taints=()) for name in "ab"]
    pods = [a_pod(f"plugin-{name}", name, **PLUGIN_SPEC) for name in "ab"]
    assert gpus.survey(nodes, pods, [PLUGIN_SET], [a_pool()])[1] == []
    nodes.append(a_node("control-plane", None, labels={}, taints=[TAINT | {"key": "other"}]))
    assert gpus.survey(nodes, pods, [PLUGIN_SET], [a_pool()])[1] == []
    nodes.append(a_node("cpu", None, labels={}, taints=()))
    found = gpus.survey(nodes, pods, [PLUGIN_SET], [a_pool()])[1]
    assert [(one.node, one.lacks) for one in found] == [("a", "taint"), ("b", "taint")]


def test_missing_taints() -> None:
    """Each taint of the pool that a node has not is named; the value of the GPU taint is free."""
    pools = [a_pool(taints=[GPU_TAINT, Taint(key="team", value="ml", effect="NoExecute")])]
    _, found = survey(a_node(taints=()), PLUGIN, pools=pools)
    assert [(one.lacks, one.command) for one in found] == [
        ("taint", f"kubectl taint node n {GPU_TAINT}"),
        ("taint", "kubectl taint node n team=ml:NoExecute"),
    ]
    _, found = survey(a_node(taints=[TAINT | {"value": "true"}]), PLUGIN)
    assert found == []
    _, found = survey(a_node(taints=[TAINT | {"effect": "PreferNoSchedule"}]), PLUGIN)
    assert [one.lacks for one in found] == ["taint"]
    _, found = survey(a_node(taints=()), PLUGIN, pools=[a_pool(taints=[])])
    assert found == []


NO_GPUS = a_node(gpus=None, labels={"gpus": "true", "nvidia.com/gpu.present": "true"})


def test_plugin_that_fails_and_one_that_finds_nothing() -> None:
    """A failing plugin is named with its reason; one that runs and offers nothing, as a driver."""
    failing = a_pod("plugin-x", ready=False, waiting="CrashLoopBackOff", **PLUGIN_SPEC)
    row, found = survey(NO_GPUS, failing)
    assert row.plugin == "failing (CrashLoopBackOff)"
    assert [(one.lacks, one.command) for one in found] == [
        ("plugin", "kubectl -n kube-system logs plugin-x --all-containers")
    ]
    row, found = survey(NO_GPUS, PLUGIN)
    assert (row.plugin, [one.lacks for one in found]) == ("ready", ["driver"])


def test_a_node_that_comes_up_is_no_finding() -> None:
    """While a plugin or installer is on its way, its node lacks nothing yet."""
    row, found = survey(NO_GPUS, a_pod("plugin-x", ready=False, **PLUGIN_SPEC))
    assert (row.plugin, found) == ("starting", [])
    pools = [a_pool(installer="cos", device_plugin=False)]
    row, found = survey(NO_GPUS, a_pod("inst", ready=False, **INSTALLER_SPEC), pools=pools)
    assert (row.driver, found) == ("installer starting", [])


def test_installer_that_fails() -> None:
    """A failing driver installer is named with the command that shows its log."""
    failing = a_pod("inst", ready=False, waiting="ErrImageNeverPull", **INSTALLER_SPEC)
    row, found = survey(NO_GPUS, failing, pools=[a_pool(installer="cos", device_plugin=False)])
    assert row.driver == "installer failing (ErrImageNeverPull)"
    assert [(one.lacks, one.command) for one in found] == [
        ("driver", "kubectl -n kube-system logs inst --all-containers")
    ]


def test_no_plugin_in_the_cluster() -> None:
    """Without any plugin DaemonSet the command applies NVIDIA's own, in the pinned version."""
    row, found = survey(NO_GPUS, sets=())
    assert row.plugin == "missing"
    assert [one.lacks for one in found] == ["plugin"]
    assert found[0].command.startswith("kubectl apply -f https://")
    assert f"/{images.DEVICE_PLUGIN.tag}/" in found[0].command


def test_two_owners_of_one_part_are_named() -> None:
    """Two device plugins, or two driver installers, of different DaemonSets; a DaemonSet that is
    updated may have two pods on a node for a moment."""
    theirs = a_pod("operator-x", **PLUGIN_SPEC)
    _, found = survey(a_node(), PLUGIN, theirs)
    assert [(one.lacks, one.message) for one in found] == [
        (
            "plugin",
            "has two device plugins: kube-system/operator-x and kube-system/plugin-x; use only "
            "one of them",
        )
    ]
    for pod in (old := a_pod("plugin-y", **PLUGIN_SPEC), new := a_pod("plugin-z", **PLUGIN_SPEC)):
        pod["metadata"]["ownerReferences"] = [{"uid": "1"}]
    assert survey(a_node(), old, new)[1] == []
    installers = [a_pod(name, **INSTALLER_SPEC) for name in ("a", "b")]
    _, found = survey(a_node(), PLUGIN, *installers)
    assert [one.lacks for one in found] == ["driver"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {},
            "somebody else's kube-system/operator and this stack's; set devicePlugin of pool gpus",
        ),
        ({"nodeSelector": {"operator": "true"}}, None),
        ({"tolerations": []}, None),
    ],
)
def test_an_operator_s_plugin_is_named_before_the_stack_has_its_own(
    change: dict[str, Any], says: str | None
) -> None:
    """In a cluster that exists, before the first up: where its pods are on the pool's nodes."""
    operator = a_daemon_set("operator", PLUGIN_SET["spec"]["template"]["spec"], **change)
    del operator["metadata"]["annotations"]
    _, found = survey(a_node(), sets=(operator,))
    assert [says in one.message for one in found if says] == ([True] if says else [])
    assert bool(found) is bool(says)
    left = a_pool(device_plugin=False, left_to_others=["device plugin"])
    assert survey(a_node(), sets=(operator,), pools=[left])[1] == []


def test_a_pool_left_to_others_says_who_must_come() -> None:
    """Without any plugin it is the owner's to start; one that leaves the node out is named."""
    left = a_pool(device_plugin=False, left_to_others=["device plugin"])
    gke = {**NO_GPUS["metadata"]["labels"], "cloud.google.com/gke-nodepool": "gpus"}
    bare = a_node(gpus=None, labels=gke)
    (one,) = survey(bare, sets=(), pools=[left])[1]
    assert "its owner, such as the GPU Operator, must start it" in one.message
    wants = a_daemon_set("plugin", PLUGIN_SPEC, nodeSelector={"operator": "true"})
    (one,) = survey(bare, sets=(wants,), pools=[left])[1]
    assert "does not select it: it lacks the label operator=true" in one.message


def test_a_node_on_which_gke_s_plugin_still_runs_is_named() -> None:
    """The label that turns it off is the pool's, and somebody has taken it off the node."""
    key = "gke-no-default-nvidia-gpu-device-plugin"
    pool = a_pool(device_plugin=False, left_to_others=["device plugin"], labels={key: "true"})
    (one,) = survey(a_node(), pools=[pool])[1]
    assert f"lacks the label {key}=true, so GKE's device plugin runs on it" in one.message
    assert one.command == f"kubectl label node n {key}=true"
    assert survey(a_node(labels={"gpus": "true", key: "true"}), pools=[pool])[1] == []


def test_plugin_that_does_not_tolerate_the_node() -> None:
    """A taint that keeps the plugin away is named with the patch that tolerates it."""
    taints = [TAINT, {"key": "team", "effect": "NoExecute"}]
    node = a_node(gpus=None, labels=NO_GPUS["metadata"]["labels"], taints=taints)
    _, found = survey(node)
    (one,) = found
    assert "does not tolerate its taint team:NoExecute" in one.message
    words = shlex.split(one.command)
    assert words[:6] == ["kubectl", "-n", "kube-system", "patch", "daemonset", "plugin"]
    assert json.loads(words[-1]) == [
        {
            "op": "add",
            "path": "/spec/template/spec/tolerations/-",
            "value": {"key": "team", "operator": "Exists", "effect": "NoExecute"},
        }
    ]


def test_plugin_that_selects_other_nodes() -> None:
    """A label that the plugin asks for beyond the pool's is named."""
    wants = a_daemon_set("plugin", PLUGIN_SPEC, nodeSelector={"gpus": "true", "arch": "x"})
    _, found = survey(NO_GPUS, sets=[wants])
    assert [(one.lacks, one.command) for one in found] == [
        ("plugin", "kubectl label node n arch=x")
    ]


def test_plugin_whose_affinity_leaves_the_node_out() -> None:
    """Where no one label would bring it, the finding says that its affinity decides."""
    expression = {"key": "gpus", "operator": "NotIn", "values": ["true"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    wants = a_daemon_set("plugin", PLUGIN_SPEC, affinity=affinity)
    _, found = survey(NO_GPUS, sets=[wants])
    assert [(one.lacks, one.message, one.command) for one in found] == [
        (
            "plugin",
            "the device plugin kube-system/plugin excludes it by its node affinity",
            "kubectl -n kube-system describe daemonset plugin",
        )
    ]


def test_plugin_that_has_no_pod_for_no_reason_to_see() -> None:
    """Where label and taints fit and still no pod is there, its DaemonSet is to be restarted."""
    _, found = survey(NO_GPUS)
    assert [one.command for one in found] == [
        "kubectl -n kube-system rollout restart daemonset/plugin"
    ]


def test_missing_installer_is_named_before_the_plugin() -> None:
    """A pool whose driver comes from a DaemonSet lacks the driver where no installer runs."""
    pools = [a_pool(installer="cos", device_plugin=False)]
    installer = a_daemon_set("installer", INSTALLER_SPEC, tolerations=[{"operator": "Exists"}])
    _, found = survey(NO_GPUS, sets=[installer], pools=pools)
    assert [(one.lacks, one.command) for one in found] == [
        ("driver", "kubectl -n kube-system rollout restart daemonset/installer")
    ]


def test_unhealthy_gpus() -> None:
    """A node that offers fewer GPUs than it has is named with both numbers."""
    row, found = survey(a_node(allocatable=8), PLUGIN)
    assert row.resources == {GPU: (9, 8, 0)}
    assert [(one.lacks, one.message.split(":")[0]) for one in found] == [
        ("gpus", "offers 8 of its 9 nvidia.com/gpu")
    ]


def test_driver_and_state_of_a_node() -> None:
    """The driver's version comes from the plugin's labels; a cordoned node is called so."""
    labels = {"gpus": "true", "nvidia.com/cuda.driver-version.full": "580.159.03"}
    row, _ = survey(a_node(labels=labels, unschedulable=True), PLUGIN)
    assert (row.driver, row.state) == ("580.159.03", "ready, cordoned")


def test_mig_and_shared_resources_have_rows_of_their_own() -> None:
    """Every GPU resource of a node is counted by itself."""
    node = a_node(gpus=None)
    for part in ("capacity", "allocatable"):
        node["status"][part] |= {"nvidia.com/mig-1g.5gb": "7", "nvidia.com/gpu.shared": "4"}
    row, found = survey(node, PLUGIN)
    assert found == []
    assert row.resources == {"nvidia.com/gpu.shared": (4, 4, 0), "nvidia.com/mig-1g.5gb": (7, 7, 0)}
    assert len(gpus.survey_text([row], []).splitlines()) == 3


def test_table_aligns_numbers_right() -> None:
    """Numbers align right, words left, and what is not there is a dash."""
    assert table(["A", "N"], [["x", 10], ["long", None]]) == "A      N\nx     10\nlong   -"
    assert table(["NONE", "N"], [[None, 10]]) == "NONE   N\n-     10"
    assert table(["NONE", "N"], []) == "NONE  N"


def test_outputs_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the stack's outputs the check says what the engine said, and what to do."""

    def run(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 255, "", "error: no stack named 'x' found\n")

    monkeypatch.setattr(tools, "pulumi", lambda: ("pulumi", []))
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(CheckError, match="no stack named 'x' found; run `pulumi up` first, or"):
        stack.kubeconfig_output("x")


def test_cluster_that_does_not_answer() -> None:
    """A cluster that nobody serves is one line, no traceback."""
    kubeconfig = json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    })  # fmt: skip
    with pytest.raises(CheckError, match=r"^the cluster does not respond: "):
        gpus.answer("dev", kubeconfig)
    with pytest.raises(CheckError, match=r"^the kubeconfig cannot be used: "):
        gpus.answer("dev", "{}")


def a_kubeconfig(user: dict[str, Any]) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": user}, {"name": "other", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def test_a_plugin_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the command that signs in the client would ask as nobody, and be refused."""
    monkeypatch.setenv("PATH", "/nowhere")
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": "gke-gcloud-auth-plugin"}
    with pytest.raises(CheckError, match="not on PATH; install it with: gcloud components "):
        client_of(a_kubeconfig({"exec": run}))
    assert caplog.records == []
    assert client_of(a_kubeconfig({"token": "t"}))


def test_a_plugin_without_credentials_is_told_how_to_sign_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The client would log it, go on as nobody and be refused; here it is one line with the fix."""
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    run = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "gke-gcloud-auth-plugin",
        "args": ["--use_application_default_credentials"],
    }
    with pytest.raises(CheckError) as refused:
        client_of(a_kubeconfig({"exec": run}))
    said = str(refused.value)
    assert said.startswith(
        "the kubeconfig signs in by running gke-gcloud-auth-plugin, which returned no cred"
    )
    assert "google: could not find default credentials" in said
    assert said.endswith("; sign in: gcloud auth application-default login")
    assert caplog.records == []


@pytest.mark.parametrize("kubeconfig", ["", "[]", "abc", "5", "{", "contexts: null", "users: [1]"])
def test_a_kubeconfig_that_is_none_is_one_line(kubeconfig: str) -> None:
    """Whatever is in the file, the check ends with its line."""
    with pytest.raises(CheckError, match=r"^the kubeconfig cannot be used: .+$"):
        client_of(kubeconfig)


@pytest.mark.parametrize(
    "body", [b"<html>sign in</html>", b"null", b"[]", b"{}", b'{"items": null}']
)
def test_an_answer_that_is_no_list_is_one_line(body: bytes) -> None:
    """A proxy's page in place of the API server's list is no traceback."""
    with pytest.raises(CheckError, match="the server that responds is not a Kubernetes API server"):
        listed_items(body)
    assert listed_items(b'{"items": [1]}') == [1]


DRIVER_SPEC: dict[str, Any] = {
    "containers": [{"name": "gpus", "image": images.DRA_DRIVER.reference}],
    "volumes": [{"name": "d", "hostPath": {"path": "/var/lib/kubelet/plugins_registry"}}],
}
DRIVER_SET = a_daemon_set(
    "driver", DRIVER_SPEC, nodeSelector={"gpus": "true"}, tolerations=[{"operator": "Exists"}]
)
DRIVER = a_pod("driver-x", **DRIVER_SPEC)
CLAIMED = a_pool(device_plugin=False, device_class="gpu.nvidia.com")


def a_slice(node: str, gpus: int, *, tainted: int = 0, driver: str = "gpu.nvidia.com") -> Any:
    devices = [
        {"name": f"gpu-{n}", **({"taints": [{"key": "xid"}]} if n < tainted else {})}
        for n in range(gpus)
    ]
    return {"spec": {"driver": driver, "nodeName": node, "devices": devices}}


def a_claim(node: str, gpus: int, driver: str = "gpu.nvidia.com") -> Any:
    results = [{"driver": driver, "pool": node, "device": f"gpu-{n}"} for n in range(gpus)]
    return {"status": {"allocation": {"devices": {"results": results}}}}


def test_claimed_gpus_are_counted_by_node() -> None:
    """Those of other drivers, claims without an allocation and access for monitoring are not."""
    slices = [a_slice("n", 4, tainted=1), a_slice("m", 2), a_slice("n", 8, driver="dra.net")]
    admin = a_claim("m", 1)
    admin["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    claims = [a_claim("n", 2), a_claim("n", 8, driver="dra.net"), admin, {"status": {}}, {}]
    assert claimable(slices, claims) == {"n": (4, 3, 2), "m": (2, 2, 0)}


def test_a_node_whose_gpus_are_claimed_lacks_nothing() -> None:
    """They are a resource of their own, and the driver is its plugin."""
    rows, found = gpus.survey(
        [a_node(gpus=None)], [DRIVER], [DRIVER_SET], [CLAIMED], {"n": (4, 4, 1)}
    )
    assert rows[0].resources == {"gpu.nvidia.com": (4, 4, 1)}
    assert (rows[0].gpu_sign, rows[0].plugin) == ("ResourceSlice of gpu.nvidia.com", "ready")
    assert [finding for finding in found if finding.lacks != "taint"] == []


@pytest.mark.parametrize(
    ("pods", "sets", "message"),
    [
        ([], [], "the cluster has no DRA driver: `pulumi up --refresh` restores what the stack "
         "declares"),
        ([], [DRIVER_SET | {"spec": {"template": {"spec": DRIVER_SPEC | {"nodeSelector":
          {"gpus": "true", "x": "y"}}}}}],
         "the DRA driver kube-system/driver does not select it: it lacks the label x=y"),
        ([DRIVER, a_pod("plugin-x", **PLUGIN_SPEC)], [DRIVER_SET, PLUGIN_SET],
         "has two device plugins: kube-system/driver-x and kube-system/plugin-x; use only one of "
         "them"),
    ],
)  # fmt: skip
def test_a_pool_with_claims_lacks_its_driver_or_has_two_owners(
    pods: Any, sets: Any, message: str
) -> None:
    """The driver is looked for where other pools have a device plugin."""
    node = a_node(gpus=None, labels={"gpus": "true", "nvidia.com/gpu.present": "true"})
    _, found = survey(node, *pods, sets=sets, pools=[CLAIMED])
    assert message in [finding.message for finding in found]
