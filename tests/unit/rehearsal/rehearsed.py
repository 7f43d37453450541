"""Node groups, nodes and pods as the rehearsal's unit tests need them, plain but complete."""

import json
from dataclasses import asdict
from typing import Any

from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, NodeTaint, NodeTemplate

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
T4 = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
GPU_TAINT = NodeTaint(key=GPU, value="present", effect="NoSchedule")


def shape(
    *,
    labels: dict[str, str] | None = None,
    taints: tuple[NodeTaint, ...] = (GPU_TAINT,),
    gpus: int = 1,
) -> NodeTemplate:
    capacity = {"cpu": "4", "memory": "15Gi", "pods": "110"}
    return NodeTemplate(
        labels=T4 if labels is None else labels,
        taints=taints,
        capacity=capacity | ({GPU: str(gpus)} if gpus else {}),
    )


def group(name: str = "train-gpu", **fields: Any) -> NodeGroup:
    given: dict[str, Any] = {
        "min_nodes": 0,
        "max_nodes": 3,
        "target_nodes": 0,
        "template": shape(),
        "node": fields.get("template", shape()),
    }
    return NodeGroup(name=name, **{**given, **fields})


SYSTEM = group("system", template=shape(labels={"pool": "system"}, taints=(), gpus=0))


def node(
    name: str = "n1", of: NodeGroup | None = None, *, gpus: int | None = None, **annotations: str
) -> Object:
    """A node of a group; `gpus` are those that it offers now, by default all of them."""
    made = (of or group()).node
    allocatable = dict(made.capacity)
    if gpus is not None:
        allocatable.pop(GPU, None)
        if gpus:
            allocatable[GPU] = str(gpus)
    annotated = {"annotations": annotations} if annotations else {}
    return {
        "metadata": {"name": name, "labels": dict(made.labels), **annotated},
        "spec": {"taints": list(map(asdict, made.taints))},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(
    name: str = "sample-abc-1",
    *,
    owner: tuple[str, str] | None = ("ReplicaSet", "sample-abc"),
    on: str | None = None,
    phase: str = "Pending",
    gpus: int = 1,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod that selects a T4, tolerates the GPU taint and asks for GPUs, unless told otherwise."""
    limits = {GPU: str(gpus)} if gpus else {}
    full = {
        "nodeSelector": T4,
        "tolerations": [{"key": GPU, "operator": "Exists"}],
        "containers": [{"name": "c", "resources": {"limits": limits}}],
        **spec,
    }
    if on:
        full["nodeName"] = on
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "namespace": "default",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"pod-template-hash": "abc"},
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [{"kind": owner[0], "name": owner[1]}] if owner else [],
        },
        "spec": full,
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True"}] if phase == "Running" else [],
        },
    }


COS_INSTALLER: dict[str, Any] = {
    "volumes": [
        {"name": "root", "hostPath": {"path": "/"}},
        {"name": "driver", "hostPath": {"path": "/home/kubernetes/bin/nvidia"}},
    ],
    "initContainers": [
        {"name": "nvidia-driver-installer", "securityContext": {"privileged": True}}
    ],
    "containers": [{"name": "pause"}],
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": T4,
}
UBUNTU_INSTALLER: dict[str, Any] = {
    **COS_INSTALLER,
    "volumes": [
        {"name": "root", "hostPath": {"path": "/"}},
        {"name": "boot", "hostPath": {"path": "/boot"}},
    ],
}
PLUGIN_IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
DEVICE_PLUGIN: dict[str, Any] = {
    "volumes": [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins/"}}],
    "containers": [{"name": "plugin", "image": PLUGIN_IMAGE}],
    "tolerations": [{"key": GPU, "operator": "Exists"}],
}
CONFIG = "/etc/plugin/config.yaml"
SHARING_PLUGIN: dict[str, Any] = {
    **DEVICE_PLUGIN,
    "volumes": [*DEVICE_PLUGIN["volumes"], {"name": "config", "configMap": {"name": "shares"}}],
    "containers": [
        {
            "name": "plugin",
            "image": PLUGIN_IMAGE,
            "env": [{"name": "CONFIG_FILE", "value": CONFIG}],
            "volumeMounts": [
                {"name": "plugins", "mountPath": "/var/lib/kubelet/device-plugins"},
                {"name": "config", "mountPath": "/etc/plugin"},
            ],
        }
    ],
}
"""The device plugin with a config in a ConfigMap `shares`."""


def sharing_config(block: str = "timeSlicing", replicas: int = 4, **fields: Any) -> dict[str, Any]:
    """The plugin's config where pods share each GPU."""
    resources = [{"name": GPU, "replicas": replicas}]
    return {"version": "v1", "sharing": {block: {"resources": resources, **fields}}}


def config_map(config: dict[str, Any]) -> Object:
    return {
        "metadata": {"namespace": "kube-system", "name": "shares"},
        "data": {"config.yaml": json.dumps(config)},
    }


def daemon_set(name: str, spec: dict[str, Any]) -> Object:
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"template": {"metadata": {}, "spec": spec}},
    }


def daemon_pod(name: str, spec: dict[str, Any], *, on: str, phase: str = "Running") -> Object:
    made = pod(f"{name}-x", owner=("DaemonSet", name), on=on, phase=phase)
    made["metadata"]["namespace"] = "kube-system"
    made["spec"] = {**spec, "nodeName": on}
    return made
