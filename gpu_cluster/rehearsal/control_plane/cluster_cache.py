"""The cluster's last known objects, and a record of every change."""

import threading
from typing import Any

from gpu_cluster.rehearsal.control_plane.pods import (
    CLAIMED,
    allocatable_gpus,
    claimed_gpus,
    full_name,
    gpus_asked,
    holds,
    is_starting,
    part,
    phase,
    workload,
)
from gpu_cluster.rehearsal.control_plane.watch import Change
from gpu_cluster.rehearsal.event_log import EventLog

KINDS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Deployment": "/apis/apps/v1/deployments",
    "Job": "/apis/batch/v1/jobs",
    "ConfigMap": "/api/v1/configmaps",
    "Event": "/api/v1/events",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/resourceclaims",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "Service": "/api/v1/services",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "Ingress": "/apis/networking.k8s.io/v1/ingresses",
    "Gateway": "/apis/gateway.networking.k8s.io/v1/gateways",
    "HTTPRoute": "/apis/gateway.networking.k8s.io/v1/httproutes",
    "Network": "/apis/networking.gke.io/v1/networks",
    "GKENetworkParamSet": "/apis/networking.gke.io/v1/gkenetworkparamsets",
    "NodePool": "/apis/karpenter.sh/v1/nodepools",
    "EC2NodeClass": "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    "NodeClass": "/apis/eks.amazonaws.com/v1/nodeclasses",
}


class ClusterCache:
    """Objects by kind and name. Thread-safe; the objects themselves must not be changed."""

    def __init__(self, event_log: EventLog) -> None:
        self._event_log = event_log
        self._items: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in KINDS}
        self._lock = threading.RLock()
        """Held until a change is recorded: what others do because of it has a later event."""
        self._with_gpus: dict[str, dict[str, Any]] = {}

    def all(self, kind: str) -> list[dict[str, Any]]:
        """The objects of a kind of `KINDS`."""
        with self._lock:
            items = list(self._items[kind].values())
            return [self._counted(item) for item in items] if kind == "Pod" else items

    def _counted(self, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod, with the number of GPUs that it claims. Those of a claim that pods share count
        for the first of them."""
        claims = pod["spec"].get("resourceClaims")
        if not claims:
            return pod
        space, classes, count = pod["metadata"]["namespace"], self.device_classes, 0
        made = {
            entry["name"]: entry.get("resourceClaimName")
            for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        }
        for entry in claims:
            name = made.get(entry["name"]) or entry.get("resourceClaimName")
            claim = self._items["ResourceClaim"].get(f"{space}/{name}")
            template = f"{space}/{entry.get('resourceClaimTemplateName')}"
            found = claim or self._items["ResourceClaimTemplate"].get(template)
            users = ((found or {}).get("status") or {}).get("reservedFor") or [pod["metadata"]]
            if found and users[0].get("uid") == pod["metadata"].get("uid"):
                count += claimed_gpus(found, classes)
        return {**pod, "spec": {**pod["spec"], CLAIMED: count}} if count else pod

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """All nodes."""
        return self.all("Node")

    @property
    def pods(self) -> list[dict[str, Any]]:
        """All pods, in all namespaces."""
        return self.all("Pod")

    @property
    def config_maps(self) -> dict[str, dict[str, Any]]:
        """ConfigMaps by `namespace/name`."""
        with self._lock:
            return dict(self._items["ConfigMap"])

    @property
    def device_classes(self) -> dict[str, dict[str, Any]]:
        """DeviceClasses by name."""
        return {item["metadata"]["name"]: item for item in self.all("DeviceClass")}

    @property
    def gpu_nodes(self) -> list[dict[str, Any]]:
        """Every node that was ever ready with GPUs, as last seen with them."""
        with self._lock:
            return list(self._with_gpus.values())

    def clear(self) -> None:
        """Forgets everything, because the cluster was deleted."""
        with self._lock:
            kept = [(kind, list(items.values())) for kind, items in self._items.items()]
            for items in self._items.values():
                items.clear()
        for kind, items_gone in kept:
            for item in items_gone:
                if kind == "Node":
                    self._event_log.record("node", item["metadata"]["name"], "cluster gone")
                self._record(kind, item, None)

    def change(self, kind: str, change: Change, item: dict[str, Any]) -> None:
        """Records one change from a watch."""
        name = full_name(item)
        with self._lock:
            before = self._items[kind].get(name)
            if change == "DELETED":
                self._items[kind].pop(name, None)
            else:
                self._items[kind][name] = item
                if kind == "Node" and has_its_gpus(item):
                    self._with_gpus[name] = item
            self._record(kind, before, None if change == "DELETED" else item)

    def _record(
        self, kind: str, before: dict[str, Any] | None, after: dict[str, Any] | None
    ) -> None:
        if kind == "Node":
            self._record_node(before, after)
        elif kind == "Pod":
            self._record_pod(before, after)

    def _record_node(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        if after is None:
            if before is not None:
                self._event_log.record("node", before["metadata"]["name"], "left")
            return
        name = after["metadata"]["name"]
        if before is None:
            self._event_log.record("node", name, "joined")
        if holds(after, "Ready") and not (before and holds(before, "Ready")):
            self._event_log.record("node", name, "ready")

    def _record_pod(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        now = "deleted" if after is None else phase(after)
        pod = after or before
        if pod is None or (before is not None and after is not None and phase(before) == now):
            return
        self._event_log.record(
            "pod",
            full_name(pod),
            now,
            workload=workload(pod),
            gpus=gpus_asked(self._counted(pod)["spec"]),
            node=pod["spec"].get("nodeName"),
            part=part(pod),
        )


def has_its_gpus(node: dict[str, Any]) -> bool:
    """Whether the node is ready and offers GPUs. Not while it starts, although the object that the
    autoscaler creates has GPUs from the beginning."""
    return allocatable_gpus(node) > 0 and holds(node, "Ready") and not is_starting(node)
