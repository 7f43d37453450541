"""Recycles the nodes of a group as the clouds do: one at a time, drained and replaced, once the
nodes that the cloud starts in addition are ready."""

import time
from collections.abc import Callable, Sequence

from gpu_cluster.rehearsal.control_plane.api import Api, Object
from gpu_cluster.rehearsal.control_plane.pods import holds
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.nodes.autoscaler import remove_node
from gpu_cluster.rehearsal.nodes.node_registration import karpenters
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.simulators.cloud import EVICTION_SECONDS, NodeGroup, Progress

_BUSY = (404, 409, 429)
"""The pod is already gone, or must stay for now because of a PodDisruptionBudget or because it is
unknown whether one applies."""


class Recycler:
    """Remembers each node's revision of its group."""

    def __init__(self, api: Callable[[], Api], event_log: EventLog) -> None:
        self._api = api
        self._event_log = event_log
        self._revisions: dict[str, int] = {}
        self._leaving: set[str] = set()
        self._asked: dict[str, float] = {}
        """Node that was cordoned -> since when its pods are asked to leave."""
        self._blocked: set[str] = set()
        """Groups whose next node has a pod that no budget lets go."""
        self._starting: set[str] = set()
        """Groups with a new node that is not ready yet."""
        self._done: dict[str, int] = {}
        """Group -> the revision that all of its nodes have."""

    def recycled(self, group: str, revision: int) -> Progress:
        """Implements `rehearsal.simulators.cloud.Recycled`."""
        if self._done.get(group, -1) >= revision:
            return "done"
        if group in self._starting:
            return "starting"
        return "held" if group in self._blocked else "going on"

    def turn(
        self, group: NodeGroup, nodes: Sequence[Object], pods: Sequence[Object]
    ) -> tuple[Object, bool] | None:
        """Recycles the group's next node of an earlier revision.

        Returns a drained and deleted node that the cloud itself had created, and whether the cloud
        must now replace it. `nodes` are the group's, including those that are being deleted.
        """
        if group.real:
            return None
        names = {node["metadata"]["name"] for node in nodes}
        for name in names:
            self._revisions.setdefault(name, group.revision)
        if names & self._leaving:
            return None
        stale = [n for n in nodes if self._revisions[n["metadata"]["name"]] < group.revision]
        fresh = [n for n in nodes if n not in stale]
        self._uncordon(fresh)
        own = [node for node in stale if not karpenters(node)]
        starting = sum(not karpenters(node) for node in fresh) < group.surging
        if starting or not all(holds(node, "Ready") for node in fresh):
            self._starting.add(group.name)
            return None
        self._starting.discard(group.name)
        if not stale:
            self._done[group.name] = group.revision
            return None
        node = next((node_ for node_ in stale if node_["spec"].get("unschedulable")), stale[0])
        name = str(node["metadata"]["name"])
        if not node["spec"].get("unschedulable"):
            self._api().patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
        since = self._asked.setdefault(name, time.monotonic())
        left = self._evicted(name, pods, group)
        if left and not (group.forced and time.monotonic() > since + EVICTION_SECONDS):
            return None
        for pod in left:  # a node that Karpenter removes would wait for them too
            self._api().delete(f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}")
        self._leaves(name, group, forced=any(not item.get("deletionTimestamp") for item in left))
        if karpenters(node):
            remove_node(self._api(), node)
            return None
        self._api().delete(f"/api/v1/nodes/{name}")
        return node, len(own) > group.surging

    def _uncordon(self, nodes: Sequence[Object]) -> None:
        """Those that stay because the update has failed."""
        for name in self._asked.keys() & {node["metadata"]["name"] for node in nodes}:
            self._api().patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
            del self._asked[name]

    def _leaves(self, name: str, group: NodeGroup, *, forced: bool) -> None:
        """`forced`: a PodDisruptionBudget has kept its pods until the cloud stopped asking."""
        self._event_log.record("node", name, "recycled", group=group.name, forced=forced)
        self._leaving.add(name)

    def _evicted(self, node: str, pods: Sequence[Object], group: NodeGroup) -> list[Object]:
        """Evicts the pods on the node but DaemonSets'; returns the metadata of those left."""
        waiting = any(pod["status"].get("phase") == "Pending" for pod in pods)
        busy = False
        left = [
            pod["metadata"]
            for pod in pods
            if pod["spec"].get("nodeName") == node
            and pod["status"].get("phase") not in ("Succeeded", "Failed")
            and not any(
                owner["kind"] in ("DaemonSet", "Node")
                for owner in pod["metadata"].get("ownerReferences") or []
            )
        ]
        for pod in left:
            if pod.get("deletionTimestamp"):
                continue
            path = f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/eviction"
            try:
                self._api().create(
                    path,
                    {
                        "apiVersion": "policy/v1",
                        "kind": "Eviction",
                        "metadata": {"name": pod["name"], "namespace": pod["namespace"]},
                    },
                )
            except ApiError as error:
                if error.status not in _BUSY:
                    raise
                busy |= error.status == 429 and not group.forced and not (group.surges and waiting)
        (self._blocked.add if busy else self._blocked.discard)(group.name)
        return left
