"""Makes the cluster's nodes those that the cloud would run, and gives them GPUs when they are due.

Two sorts of node join: those that the cloud keeps by itself (a group's initial or minimum count)
are created here; those that the autoscaler adds are Karpenter's, and get the shape that really
joins before anything can be scheduled on them.
"""

import queue
import secrets
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import urllib3

from rehearsal.api import STRATEGIC, Api, ApiError
from rehearsal.autoscaler import Autoscaler, pool_name, remove_node
from rehearsal.cloud import Cloud, NodeGroup
from rehearsal.control_plane import LocalControlPlane
from rehearsal.gpus import CLOUD_SECONDS, GPU, conflicts, gpu_parts
from rehearsal.handler import CloudError
from rehearsal.journal import Journal
from rehearsal.kubelets import MANAGED
from rehearsal.observed import KINDS, Observed
from rehearsal.pods import gpus_offered, holds
from rehearsal.watch import Watcher

GROUP = "rehearsal.gpu-cluster/group"
"""Annotation of the nodes that the cloud keeps by itself."""
UNREGISTERED, REGISTERED = "karpenter.sh/unregistered", "karpenter.sh/registered"
STARTING = {
    "key": "node.cloudprovider.kubernetes.io/uninitialized",
    "value": "true",
    "effect": "NoSchedule",
}
"""What a cloud's node carries until the cloud has labelled it. Karpenter knows to wait for it."""
SYSTEM_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")
TICK_SECONDS = 0.25


class Nodes:
    """One thread that follows the cluster and the cloud, while the control plane runs."""

    def __init__(
        self, control_plane: LocalControlPlane, cloud: Cloud, autoscaler: Autoscaler,
        observed: Observed, journal: Journal,
    ) -> None:  # fmt: skip
        self._control_plane = control_plane
        self._cloud = cloud
        self._autoscaler = autoscaler
        self._observed = observed
        self._journal = journal
        self._changes: queue.SimpleQueue[tuple[str, Any, Any]] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._watcher: Watcher | None = None
        self.refusals: dict[str, str] = {}
        """Group -> why the cloud would not run another node of it."""
        cloud.on_change(lambda: self._changes.put(("cloud", "MODIFIED", {})))

    @property
    def _api(self) -> Api:
        return self._control_plane.api

    def start(self) -> None:
        self._stopped = threading.Event()
        self._created: dict[str, float] = {}
        """Nodes that were created here and may not have been seen yet -> when."""
        self._sizes: dict[str, int] = {}
        self._labelled: dict[str, set[str]] = {}
        """Node -> the group's labels that it was given."""
        self._ready_since: dict[str, float] = {}
        self._members: set[str] = set()
        """Nodes whose group is on record."""
        self._offered: dict[str, int] = {}
        """Node -> the GPUs that it was given last."""
        self.refusals = {}
        self._thread = threading.Thread(target=self._run, name="nodes", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._watcher is not None:
            self._watcher.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(10)
        self._observed.clear()

    def _run(self) -> None:
        stopped = self._stopped
        self._autoscaler.install(self._api, stopped)
        self._watcher = Watcher(self._api, KINDS, lambda *change: self._changes.put(change))
        cloud_changed = True
        while not stopped.is_set():
            cloud_changed |= self._take_changes()
            if stopped.is_set():
                return
            try:
                groups = {group.name: group for group in self._cloud.node_groups()}
                if cloud_changed:
                    self.refusals.clear()
                    self._scale(groups)
                    cloud_changed = False
                self._reconcile(groups)
            except ApiError as error:
                if error.status not in (404, 409):  # overtaken by a change that is on its way
                    self._journal.record("node", "nodes", "error", message=str(error))
            except urllib3.exceptions.HTTPError as error:
                if not stopped.is_set():
                    self._journal.record("node", "nodes", "error", message=str(error))

    def _take_changes(self) -> bool:
        """Waits for changes and takes in all that are there; tells whether the cloud changed."""
        cloud = False
        try:
            change = self._changes.get(timeout=TICK_SECONDS)
            while True:
                if change[0] == "cloud":
                    cloud = True
                elif not self._stopped.is_set():
                    self._observed.change(*change)
                change = self._changes.get_nowait()
        except queue.Empty:
            return cloud

    def _scale(self, groups: Mapping[str, NodeGroup]) -> None:
        frozen = {
            name: sum(1 for node in self._of_group(groups[name]) if _karpenters(node))
            for name in self.refusals
            if name in groups
        }
        self._autoscaler.sync(
            self._api, self._control_plane.kubeconfig, list(groups.values()), frozen
        )

    def _of_group(self, group: NodeGroup) -> list[dict[str, Any]]:
        return [node for node in self._observed.nodes if _belongs(node, group)]

    def _reconcile(self, groups: Mapping[str, NodeGroup]) -> None:
        sizes: Counter[str] = Counter()
        seen = {node["metadata"]["name"] for node in self._observed.nodes}
        for name in seen & set(self._created):
            del self._created[name]
        for node in self._observed.nodes:
            name = node["metadata"]["name"]
            group = next((g for g in groups.values() if _belongs(node, g)), None)
            if group is None:
                if not _karpenters(node):  # Karpenter removes a deleted pool's nodes itself
                    self._api.delete(f"/api/v1/nodes/{name}")
                continue
            if name not in self._members:
                gpus = int(group.node.capacity.get(GPU, 0))
                self._members.add(name)
                self._journal.record("node", name, "member", group=group.name, gpus=gpus)
            if not node["metadata"].get("deletionTimestamp"):
                sizes[group.name] += 1
                self._shape(node, group)
                self._gpus(node, group)
        for group in groups.values():
            self._keep(group)
            if self._sizes.get(group.name, 0) != sizes[group.name]:
                self._resize(group, groups, sizes[group.name])

    def _keep(self, group: NodeGroup) -> None:
        """Creates or deletes nodes until the cloud's own count is there."""
        own = [node for node in self._of_group(group) if not _karpenters(node)]
        coming = sum(1 for name in self._created if name.startswith(_prefix(group)))
        for _ in range(group.target_nodes - len(own) - coming):
            name = _prefix(group) + secrets.token_hex(2)
            self._created[name] = time.monotonic()
            self._api.create("/api/v1/nodes", new_node(name, group))
            self._labelled[name] = set(group.node.labels)
        for node in own[max(group.target_nodes, 0) :]:
            self._api.delete(f"/api/v1/nodes/{node['metadata']['name']}")

    def _resize(self, group: NodeGroup, groups: Mapping[str, NodeGroup], nodes: int) -> None:
        before = self._sizes.get(group.name, 0)
        try:
            self._cloud.set_size(group.name, nodes)
        except KeyError:  # the group was deleted meanwhile; its nodes are next
            return
        except CloudError as error:
            self.refusals[group.name] = str(error)
            self._journal.record("cloud", group.name, "refused", nodes=nodes, message=str(error))
            added = [node for node in self._of_group(group) if _karpenters(node)]
            added.sort(key=lambda node: str(node["metadata"]["creationTimestamp"]))
            for node in added[before - nodes :]:
                remove_node(self._api, node)
            self._scale(groups)
            self._sizes[group.name] = nodes
            return
        self._sizes[group.name] = nodes
        self._journal.record("cloud", group.name, "size", nodes=nodes, before=before)

    def _shape(self, node: Mapping[str, Any], group: NodeGroup) -> None:
        """Gives the node the labels and taints that the group's nodes have now."""
        metadata, name = node["metadata"], node["metadata"]["name"]
        registered = not _karpenters(node) or REGISTERED in metadata["labels"]
        labels: dict[str, str | None] = {**group.node.labels}
        if _karpenters(node):
            labels["karpenter.sh/do-not-sync-taints"] = "true"
            # Karpenter labels the node as its template says until it is registered.
            given = self._labelled.setdefault(name, set(group.template.labels))
        else:
            given = self._labelled.setdefault(name, set())
        if registered:
            labels |= {key: None for key in given if key not in group.node.labels}
        current = metadata.get("labels") or {}
        changed = {key: value for key, value in labels.items() if current.get(key) != value}
        taints = wanted_taints(node["spec"].get("taints") or [], group, starting=not registered)
        patch: dict[str, Any] = {"metadata": {"resourceVersion": metadata["resourceVersion"]}}
        if changed:
            patch["metadata"]["labels"] = changed
        if taints is not None:
            patch["spec"] = {"taints": taints}
        if changed or taints is not None:
            self._api.patch(f"/api/v1/nodes/{name}", patch)
            self._labelled[name] = given | set(group.node.labels)

    def _gpus(self, node: Mapping[str, Any], group: NodeGroup) -> None:
        """Gives the node its GPUs once driver and plugin are there, and takes them with those."""
        name = node["metadata"]["name"]
        has = int(group.node.capacity.get(GPU, 0))
        if not holds(node, "Ready"):
            self._ready_since.pop(name, None)
            due = False
        else:
            since = self._ready_since.setdefault(name, time.monotonic())
            due = has > 0 and time.monotonic() - since >= CLOUD_SECONDS
        if due:
            pods = [pod for pod in self._observed.pods if pod["spec"].get("nodeName") == name]
            parts = gpu_parts(group, pods)
            for conflict in conflicts(name, group, parts):
                self._journal.finding(group.name, conflict)
            due = parts.complete
        wanted = has if due else 0
        offered = gpus_offered(node)
        capacity = node["status"].get("capacity", {})
        if offered == wanted and (wanted or GPU not in capacity):
            return
        quantity = str(wanted) if wanted else None
        size = {**group.node.capacity, GPU: quantity} if not offered else {GPU: quantity}
        self._api.patch(
            f"/api/v1/nodes/{name}/status",
            {"status": {"capacity": size, "allocatable": size}},
            STRATEGIC,
        )
        if self._offered.get(name, 0) != wanted:
            self._offered[name] = wanted
            self._journal.record("node", name, "gpus", gpus=wanted, group=group.name)


def new_node(name: str, group: NodeGroup) -> dict[str, Any]:
    """A node that the cloud starts by itself, still without its GPUs."""
    size = {key: value for key, value in group.node.capacity.items() if key != GPU}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {**MANAGED, GROUP: group.name},
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                **group.node.labels,
                "kubernetes.io/hostname": name,
            },
        },
        "spec": {
            "taints": [
                {"key": taint.key, "value": taint.value, "effect": taint.effect}
                for taint in group.node.taints
            ],
        },
        "status": {"capacity": size, "allocatable": size},
    }


def wanted_taints(
    current: list[dict[str, Any]], group: NodeGroup, *, starting: bool
) -> list[dict[str, Any]] | None:
    """The taints that a node must have, or None where it has them already."""
    wanted = [
        {"key": taint.key, "value": taint.value, "effect": taint.effect}
        for taint in group.node.taints
    ]
    wanted += [
        taint
        for taint in current
        if taint["key"].startswith(SYSTEM_TAINTS) and taint["key"] != STARTING["key"]
    ]
    if starting:
        wanted.append(STARTING)

    def plain(taints: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
        return {(taint["key"], taint.get("value") or "", taint["effect"]) for taint in taints}

    return None if plain(wanted) == plain(current) else wanted


def group_name(node: Mapping[str, Any], groups: list[NodeGroup]) -> str | None:
    """The group that a node belongs to, None for one that has left its group behind."""
    return next((group.name for group in groups if _belongs(node, group)), None)


def _belongs(node: Mapping[str, Any], group: NodeGroup) -> bool:
    if _karpenters(node):
        pool: str = node["metadata"]["labels"]["karpenter.sh/nodepool"]
        return pool == pool_name(group.name)
    return (node["metadata"].get("annotations") or {}).get(GROUP) == group.name


def _karpenters(node: Mapping[str, Any]) -> bool:
    return "karpenter.sh/nodepool" in (node["metadata"].get("labels") or {})


def _prefix(group: NodeGroup) -> str:
    return f"{pool_name(group.name)}-"
