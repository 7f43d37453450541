"""An existing cluster with its machines, neither of which the stack creates.

No cloud is simulated. What matters is that the stack leaves the cluster as it found it.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_cluster.components import crds
from gpu_cluster.components.existing.settings import ExistingSettings
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.rehearsal.control_plane.api import Api, Object
from gpu_cluster.rehearsal.control_plane.pods import GPU
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, NodeTaint, NodeTemplate, not_as_before
from gpu_cluster.rehearsal.simulators.inventory import Machine
from gpu_cluster.stacks.definition.names import StackError

DEFINITIONS = Path(crds.__file__).parent
"""Resource definitions, including those that others install: upstream's, which a test compares."""
STORAGE_SECONDS = 10.0
"""How long the server may take to serve a newly defined kind, for which it answers 429 "storage is
(re)initializing"."""
_PODS = "110"
_DISK = "500Gi"
_OWN_GROUPS = (".sh", ".x-k8s.io")
"""Suffixes of the API groups that only the rehearsal's autoscaler and kubelets use."""


class ExistingCluster:
    """The `Cloud` of a platform without a cloud: each machine is a group of exactly one node."""

    def __init__(
        self, machines: Sequence[Machine], api: Callable[[], Api], *, real: str | None = None
    ) -> None:
        """`machines`: as an inventory lists them; `real`: the name of the one with a real node."""
        self._groups = [_group(machine, real=machine["name"] == real) for machine in machines]
        self._api = api

    def node_groups(self) -> list[NodeGroup]:
        """The machines, which never change."""
        return list(self._groups)

    def set_size(self, group: str, nodes: int) -> None:
        """Does nothing: no autoscaler scales existing machines."""

    def release(self, group: str, provider_id: str) -> None:
        """Does nothing: no autoscaler scales existing machines."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Does nothing: an existing cluster never changes."""

    def list_resources(self) -> list[str]:
        """All objects in the cluster that Pulumi created or changed, of any kind."""
        api = self._api()
        return [
            f"{item.get('kind', kind)} {_name_in_cluster(item)}"
            for path, kind in _listable(api)
            for item in _items(api, path)
            if _touched_by_pulumi(item)
        ]


def with_runtime_classes(api: Api, settings: Settings[Any] | None) -> None:
    """Adds the RuntimeClasses that the pools name: an existing cluster has them, and pods that name
    a missing one are refused."""
    existing = settings is not None and isinstance(settings.own, ExistingSettings)
    pools = [pool.pool for pool in settings.pools.values()] if settings and existing else []
    for name in sorted({pool.runtime_class for pool in pools if pool.runtime_class}):
        kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
        body = kind | {"metadata": {"name": name}, "handler": "nvidia"}
        api.create("/apis/node.k8s.io/v1/runtimeclasses", body)


def with_controllers(api: Api, named: Sequence[str]) -> None:
    """Adds the resource definitions of controllers that the cluster's owner installed with Helm."""
    for name in named:
        file = DEFINITIONS / f"{'karpenter-aws' if name == 'karpenter' else name}.json"
        for definition in json.loads(file.read_text())["definitions"]:
            body = {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {
                    "name": definition["metadata"]["name"],
                    "labels": {"app.kubernetes.io/managed-by": "Helm"},
                    # The API server requires it for API groups of Kubernetes itself.
                    "annotations": {
                        "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs"
                    },
                },
                "spec": definition["spec"],
            }
            api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)


def with_objects(api: Api, objects: Sequence[Object]) -> None:
    """Creates the owner's objects in the cluster."""
    for body in objects:
        metadata, version = body["metadata"], body["apiVersion"]
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        (resource,) = [
            kind for kind in api.get(group)["resources"]
            if kind["kind"] == body["kind"] and "/" not in kind["name"]
        ]  # fmt: skip
        inside = f"/namespaces/{metadata.get('namespace', 'default')}"
        path = f"{group}{inside if resource['namespaced'] else ''}/{resource['name']}"
        api.create(path, body)


def owners_objects(api: Api) -> Mapping[str, str]:
    """Kind and name of each object in a cluster -> its manifest as its owner wrote it, as JSON.
    Kinds that the cluster itself keeps updating are omitted, and EKS's own objects."""
    return {
        f"{kind} {_name_in_cluster(item)}": json.dumps(_manifest(item), sort_keys=True)
        for path, kind in _listable(api)
        if kind not in _RESTLESS
        for item in _items(api, path)
        if (item["metadata"].get("labels") or {}).get("app.kubernetes.io/managed-by") != "eks"
    }


_RESTLESS = ("Event", "Lease", "Node", "CSINode", "Pod", "Endpoints", "EndpointSlice",
             "ControllerRevision", "ReplicaSet")  # fmt: skip


def _manifest(item: Object) -> Object:
    metadata = item["metadata"]
    kept = {key: metadata.get(key) for key in ("labels", "annotations", "uid", "finalizers")}
    rest = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    return {**rest, "metadata": kept}


def disturbed(api: Api, before: Mapping[str, str]) -> list[str]:
    """The changes that the stack made in another owner's cluster, and its objects that remain."""
    now = owners_objects(api)
    found = not_as_before(before.keys(), now.keys(), before, now)
    return [f"{line} in the cluster" if line in now else line for line in found]


def with_real_node(
    stack: str, machines: Sequence[Machine], here: Mapping[str, Any]
) -> list[Machine]:
    """The machine marked `real`, with this machine's GPUs, and without the rest of its pool."""
    marked = next((machine for machine in machines if machine.get("real")), None)
    if marked is None:
        raise StackError(
            f"no machine of {stack} is a real node: mark one with `real: true` in "
            f"inventories/{stack}.yaml"
        )
    others = [machine for machine in machines if machine.get("labels") != marked.get("labels")]
    return [{**marked, **here}, *others]


def _group(machine: Machine, *, real: bool = False) -> NodeGroup:
    gpus = machine.get("gpus", 0)
    shape = NodeTemplate(
        labels={"kubernetes.io/os": "linux", **machine.get("labels", {})},
        taints=tuple(NodeTaint(**taint) for taint in machine.get("taints", ())),
        capacity={
            "pods": _PODS,
            "ephemeral-storage": _DISK,
            **machine["capacity"],
            **({GPU: str(gpus)} if gpus else {}),
        },
    )
    return NodeGroup(
        name=machine["name"],
        min_nodes=1,
        max_nodes=1,
        target_nodes=1,
        template=shape,
        node=shape,
        plugin="cloud" if machine.get("devicePlugin") else "pod",
        autoscaled=False,
        real=real,
        gpus=gpus,
    )


def _listable(api: Api) -> list[tuple[str, str]]:
    """Path and kind of each resource that the server can list."""
    groups = ["/api/v1"] + [
        f"/apis/{group['preferredVersion']['groupVersion']}"
        for group in api.get("/apis")["groups"]
        if not group["name"].endswith(_OWN_GROUPS)
    ]
    return [
        (f"{group}/{resource['name']}", resource["kind"])
        for group in groups
        for resource in api.get(group)["resources"]
        if "list" in resource["verbs"] and "/" not in resource["name"]
    ]


def _items(api: Api, path: str) -> list[Object]:
    deadline = time.monotonic() + STORAGE_SECONDS
    while True:
        try:
            return api.items(path)
        except ApiError as error:
            if error.status in (403, 404, 405):  # discovered, but not served to this user
                return []
            if error.status != 429 or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _touched_by_pulumi(item: Object) -> bool:
    managers = item["metadata"].get("managedFields") or []
    return any(str(manager.get("manager", "")).startswith("pulumi") for manager in managers)


def _name_in_cluster(item: Object) -> str:
    metadata = item["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
