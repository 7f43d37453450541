"""Small queries on pods and nodes."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.components.kube.requests import requests
from gpu_cluster.rehearsal.nodes.gpus import GPU

Object = Mapping[str, Any]


def full_name(item: Object) -> str:
    """Returns `namespace/name`."""
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def condition(item: Object, kind: str) -> Object:
    """The condition of this type; empty if there is none yet."""
    for found in item.get("status", {}).get("conditions") or []:
        if found["type"] == kind:
            return dict(found)
    return {}


def holds(item: Object, kind: str) -> bool:
    """Whether the condition of this type is True."""
    return condition(item, kind).get("status") == "True"


def workload(pod: Object) -> str:
    """The workload of the pod: `Deployment default/name`, `Job ...`, `DaemonSet ...`, `Pod ...`."""
    namespace = pod["metadata"].get("namespace", "")
    for owner in pod["metadata"].get("ownerReferences") or []:
        kind, name = owner["kind"], owner["name"]
        if kind == "ReplicaSet":
            template_hash = (pod["metadata"].get("labels") or {}).get("pod-template-hash", "")
            kind, name = "Deployment", name.removesuffix(f"-{template_hash}")
        return f"{kind} {namespace}/{name}"
    return f"Pod {namespace}/{pod['metadata']['name']}"


def gpus_asked(spec: Object) -> int:
    """The `nvidia.com/gpu` that the scheduler reserves for a pod with this spec."""
    return int(requests(spec).get(GPU, 0))


def allocatable_gpus(node: Object) -> int:
    """The `nvidia.com/gpu` currently allocatable on a node."""
    return int(node.get("status", {}).get("allocatable", {}).get(GPU, 0))


def phase(pod: Object) -> str:
    """The pod's phase: pending, bound, running, ready, succeeded, failed, or deleting."""
    if pod["metadata"].get("deletionTimestamp"):
        return "deleting"
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed"):
        return str(status["phase"]).lower()
    if status.get("phase") == "Running":
        return "ready" if holds(pod, "Ready") else "running"
    return "bound" if pod["spec"].get("nodeName") else "pending"
