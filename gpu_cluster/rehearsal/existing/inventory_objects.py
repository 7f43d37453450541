"""The objects of an existing cluster's owner, as an inventory lists them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpu_cluster.components.catalog.gke_volumes import STACK_CLASSES
from gpu_cluster.components.catalog.kubernetes import BATCH_DEFINITIONS
from gpu_cluster.components.eks.disk_args import STORAGE_CLASS
from gpu_cluster.components.lifecycle.ownership import owner_of
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.rehearsal.nodes.scalers import KARPENTER
from gpu_cluster.stacks.capacity.conflicts import (
    InCluster,
    in_cluster,
    is_autoscaler,
    is_efa_plugin,
    is_installer,
    is_plugin,
)
from gpu_cluster.stacks.outcome import CheckError

_EVERYWHERE = ("default", "kube-node-lease", "kube-public", "kube-system")
_POD = ("serviceAccountName", "tolerations", "nodeSelector")
_EFA = ("affinity", "volumes")
"""Also of AWS's device plugin, which a rehearsal knows by the directories that it mounts."""
_CONTAINER = ("name", "image", "command", "args")
"""Without `env`: it may contain secrets, and no simulated container reads it but Karpenter's."""
_KARPENTER_ENV = ("CLUSTER_NAME", "FEATURE_GATES", "BATCH_IDLE_DURATION", "BATCH_MAX_DURATION")
_KARPENTER_CLASS = "ec2nodeclasses.karpenter.k8s.aws"

Object = Mapping[str, Any]


def described(kubeconfig: str, settings: Settings[Any], owner: str) -> dict[str, Any]:
    """The keys `objects`, `controllers` and `gpuOperator` of a stack's inventory. `owner`: the
    stack, `<project>/<stack>`. Raises CheckError if the cluster cannot be queried."""
    cluster = in_cluster(kubeconfig, owner)
    for missing in cluster.denied.values():
        raise CheckError(missing)
    defined = {definition["metadata"]["name"]: definition for definition in cluster.definitions}
    controllers = [
        name
        for name, definition in {**BATCH_DEFINITIONS, "karpenter": _KARPENTER_CLASS}.items()
        if definition in defined and owner_of(defined[definition]) != owner
    ]
    return {
        "objects": _objects(cluster, settings, owner),
        **({"controllers": controllers} if controllers else {}),
        **({"gpuOperator": "before"} if cluster.gpu_operator else {}),
    }


def _objects(cluster: InCluster, settings: Settings[Any], owner: str) -> list[dict[str, Any]]:
    daemons = [] if cluster.gpu_operator else cluster.daemons
    workloads = [
        *(_workload("DaemonSet", obj) for obj in daemons if is_plugin(obj) or is_installer(obj)),
        *(_workload("DaemonSet", obj, _EFA) for obj in cluster.daemons if is_efa_plugin(obj)),
        *(
            _workload("Deployment", deployment)
            for deployment in cluster.deployments
            if is_autoscaler(deployment) or _is_karpenter(deployment)
        ),
    ]
    theirs = {obj["metadata"]["name"]: obj for obj in cluster.namespaces if owner_of(obj) != owner}
    inside = {workload["metadata"]["namespace"] for workload in workloads}
    named = [name for name in theirs if name in settings.namespaces or name in inside]
    classes = {*STACK_CLASSES, STORAGE_CLASS, *settings.runs.storage_classes}
    return [
        *(_named("v1", "Namespace", theirs[name]) for name in named if name not in _EVERYWHERE),
        *(
            _named("storage.k8s.io/v1", "StorageClass", item)
            | {key: item[key] for key in ("provisioner", "parameters") if item.get(key)}
            for item in cluster.storage_classes
            if item["metadata"]["name"] in classes
        ),
        *_service_accounts(workloads),
        *workloads,
    ]


def _is_karpenter(deployment: Object) -> bool:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return any(f"/{KARPENTER}" in str(container["image"]) for container in containers)


def _environment(container: Object) -> dict[str, Any]:
    """What Karpenter has to know of its cluster."""
    known = [var for var in container.get("env") or () if var["name"] in _KARPENTER_ENV]
    return {"env": known} if known else {}


def _service_accounts(workloads: Iterable[Object]) -> Iterator[dict[str, Any]]:
    """The workloads' service accounts, without which the API server refuses their pods."""
    for workload in workloads:
        if name := workload["spec"]["template"]["spec"].get("serviceAccountName"):
            metadata = {"name": name, "namespace": workload["metadata"]["namespace"]}
            yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
            if _is_karpenter(workload):  # whose own rules are taken to suffice
                yield {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": name},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "cluster-admin",
                    },
                    "subjects": [{"kind": "ServiceAccount", **metadata}],
                }


def _named(version: str, kind: str, obj: Object) -> dict[str, Any]:
    kept = {key: obj["metadata"][key] for key in ("name", "namespace") if key in obj["metadata"]}
    return {"apiVersion": version, "kind": kind, "metadata": kept}


def _workload(kind: str, obj: Object, more: Sequence[str] = ()) -> dict[str, Any]:
    template = obj["spec"]["template"]
    pod, labels = template["spec"], (template.get("metadata") or {}).get("labels") or {}
    return _named("apps/v1", kind, obj) | {
        "spec": {
            "selector": obj["spec"]["selector"],
            "template": {
                "metadata": {"labels": labels},
                "spec": {key: pod[key] for key in (*_POD, *more) if pod.get(key)}
                | {
                    "containers": [
                        {key: container[key] for key in _CONTAINER if container.get(key)}
                        | (_environment(container) if _is_karpenter(obj) else {})
                        for container in pod["containers"]
                    ]
                },
            },
        }
    }
