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
from tests.unit.stacks.served import kubeconfig_of

GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": GPU_TAINT.value, "effect": "NoSchedule"}
NOBODY = "http://127.0.0.1:1"
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


IN_POOL = {"gpus": "true", "nvidia.com/gpu.present": "true"}
NO_GPUS = a_node(gpus=None, labels=IN_POOL)
WITH_INSTALLER = [a_pool(installer="cos", device_plugin=False)]
DRIVER_LABEL = {"gpus": "true", "nvidia.com/cuda.driver-version.full": "580.159.03"}
TEAM_TAINT = {"key": "team", "effect": "NoExecute"}
TOLERATION = {"key": "team", "operator": "Exists", "effect": "NoExecute"}
PATCH = [{"op": "add", "path": "/spec/template/spec/tolerations/-", "value": TOLERATION}]
NOT_THERE = {"matchExpressions": [{"key": "gpus", "operator": "NotIn", "values": ["true"]}]}
AWAY = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NOT_THERE]}}
NVIDIA_S = (
    "https://raw.githubusercontent.com/NVIDIA/k8s-device-plugin/"
    f"{images.DEVICE_PLUGIN.tag}/deployments/static/nvidia-device-plugin.yml"
)


@pytest.mark.parametrize(
    ("node", "pod", "driver", "plugin", "state"),
    [
        (a_node(), PLUGIN, "works", "ready", "ready"),
        (a_node(gpus=None, labels={}, taints=()), PLUGIN, None, None, "ready"),
        (a_node(labels=DRIVER_LABEL, unschedulable=True), PLUGIN, "580.159.03", "ready",
         "ready, cordoned"),
        (NO_GPUS, a_pod(ready=False, **PLUGIN_SPEC), "not known", "starting", "ready"),
        (NO_GPUS, a_pod(ready=False, **INSTALLER_SPEC), "installer starting", "missing", "ready"),
    ],
    ids=["ready", "no GPU node", "cordoned", "plugin starts", "installer starts"],
)  # fmt: skip
def test_nothing_is_amiss(
    node: dict[str, Any], pod: Any, driver: str | None, plugin: str | None, state: str
) -> None:
    """A GPU node with label, plugin and taint, one whose plugin or installer is on its way, and a
    CPU node. The driver's version comes from the plugin's labels."""
    row, found = survey(node, pod)
    assert found == []
    assert (row.driver, row.plugin, row.state) == (driver, plugin, state)


@pytest.mark.parametrize(
    ("given", "lacks", "says", "command"),
    [
        pytest.param(
            {"node": a_node(labels={"gpus": "no"})},
            "label", "lacks the label gpus=true of pool gpus",
            "kubectl label node n gpus=true --overwrite",
            id="another value of the label",
        ),
        pytest.param(
            {"pod": a_pod(ready=False, waiting="CrashLoopBackOff", **PLUGIN_SPEC)},
            "plugin", "its device plugin kube-system/p is failing (CrashLoopBackOff)",
            "kubectl -n kube-system logs p --all-containers",
            id="plugin fails",
        ),
        pytest.param(
            {"pod": PLUGIN},
            "driver", "its device plugin kube-system/plugin-x offers no GPUs: the driver is",
            "kubectl -n kube-system logs plugin-x --all-containers",
            id="plugin finds nothing",
        ),
        pytest.param(
            {"sets": []},
            "plugin", "the cluster has no device plugin", f"kubectl apply -f {NVIDIA_S}",
            id="no plugin in the cluster",
        ),
        pytest.param(
            {"sets": [a_daemon_set("plugin", PLUGIN_SPEC, nodeSelector={"a": "x"})]},
            "plugin", "does not select it: it lacks the label a=x", "kubectl label node n a=x",
            id="plugin selects other nodes",
        ),
        pytest.param(
            {"sets": [a_daemon_set("plugin", PLUGIN_SPEC, affinity={"nodeAffinity": AWAY})]},
            "plugin", "the device plugin kube-system/plugin excludes it by its node affinity",
            "kubectl -n kube-system describe daemonset plugin",
            id="affinity leaves the node out",
        ),
        pytest.param(
            {"node": a_node(gpus=None, labels=IN_POOL, taints=[TAINT, TEAM_TAINT])},
            "plugin", "does not tolerate its taint team:NoExecute",
            "kubectl -n kube-system patch daemonset plugin --type=json "
            f"-p {shlex.quote(json.dumps(PATCH))}",
            id="plugin does not tolerate a taint",
        ),
        pytest.param(
            {},
            "plugin", "the device plugin kube-system/plugin has no pod on the node",
            "kubectl -n kube-system rollout restart daemonset/plugin",
            id="no pod, and no reason to see",
        ),
        pytest.param(
            {"pod": a_pod(ready=False, waiting="ErrImageNeverPull", **INSTALLER_SPEC),
             "pools": WITH_INSTALLER},
            "driver", "its driver installer kube-system/p is failing (ErrImageNeverPull)",
            "kubectl -n kube-system logs p --all-containers",
            id="installer fails",
        ),
        pytest.param(
            {"sets": [a_daemon_set("installer", INSTALLER_SPEC,
                                   tolerations=[{"operator": "Exists"}])],
             "pools": WITH_INSTALLER},
            "driver", "the driver installer kube-system/installer has no pod on the node",
            "kubectl -n kube-system rollout restart daemonset/installer",
            id="no installer, named before the plugin",
        ),
    ],
)  # fmt: skip
def test_what_a_gpu_node_lacks(given: dict[str, Any], lacks: str, says: str, command: str) -> None:
    """One finding, with the command that repairs it or shows more."""
    node, pods = given.get("node", NO_GPUS), [given["pod"]] if "pod" in given else []
    _, (found,) = survey(
        node, *pods, sets=given.get("sets", [PLUGIN_SET]), pools=given.get("pools")
    )
    assert (found.lacks, found.command) == (lacks, command)
    assert says in found.message


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


def test_unhealthy_gpus() -> None:
    """A node that offers fewer GPUs than it has is named with both numbers."""
    row, found = survey(a_node(allocatable=8), PLUGIN)
    assert row.resources == {GPU: (9, 8, 0)}
    assert [(one.lacks, one.message.split(":")[0]) for one in found] == [
        ("gpus", "offers 8 of its 9 nvidia.com/gpu")
    ]


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
    with pytest.raises(CheckError, match=r"^the cluster does not respond: "):
        gpus.answer("dev", kubeconfig_of(NOBODY, {"token": "t"}))
    with pytest.raises(CheckError, match=r"^the kubeconfig cannot be used: "):
        gpus.answer("dev", "{}")


def test_a_plugin_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the command that signs in the client would ask as nobody, and be refused."""
    monkeypatch.setenv("PATH", "/nowhere")
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": "gke-gcloud-auth-plugin"}
    with pytest.raises(CheckError, match="not on PATH; install it with: gcloud components "):
        client_of(kubeconfig_of(NOBODY, {"exec": run}))
    assert caplog.records == []
    assert client_of(kubeconfig_of(NOBODY, {"token": "t"}))


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
        client_of(kubeconfig_of(NOBODY, {"exec": run}))
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
