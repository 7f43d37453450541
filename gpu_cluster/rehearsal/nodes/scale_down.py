"""Which GPU nodes Cluster Autoscaler would drain: less than half used, and the pods fit elsewhere.

As in cluster-autoscaler 1.35 (simulator/utilization, simulator/drainability) and GKE's autoscaler,
which is based on it, only the GPUs of a GPU node count. Nodes without GPUs and disruption budgets
are ignored. Of the empty nodes, only those that the cloud created itself are considered: Karpenter
removes the others (autoscaler.py).
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, TypeVar

from gpu_cluster.components.kube import quantity
from gpu_cluster.components.kube.requests import requests
from gpu_cluster.rehearsal.control_plane.pods import (
    allocatable_gpus,
    full_name,
    gpus_asked,
    holds,
    phase,
    pods_on,
    workload,
)
from gpu_cluster.rehearsal.nodes.matching import mismatches, shape_of
from gpu_cluster.rehearsal.nodes.node_registration import belongs, karpenters
from gpu_cluster.rehearsal.simulators.cloud import SAFE_TO_EVICT, NodeGroup

Object = Mapping[str, Any]
T = TypeVar("T")

UNNEEDED_SECONDS = 3.0
"""How long a node must have been half empty; 10 minutes in a real cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """An autoscaler's configuration; the defaults are GKE's."""

    threshold: float = 0.5
    """A node is unneeded if a smaller fraction of its GPUs is requested."""
    local_storage_stays: bool = False
    """Whether a pod that uses a directory of its node blocks the node's removal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """A node that is removed, and the pods that are evicted from it."""

    node: Object
    group: str
    asked: int
    allocatable: int
    pods: Sequence[Object]
    protectable: bool = True
    """Whether its pods could have prevented it."""

    def finding(self) -> str | None:
        """The jobs that lose their progress although they need not, in one line."""
        if not self.protectable:
            return None
        jobs = sorted({who for pod in self.pods if (who := workload(pod)).startswith("Job ")})
        if not jobs:
            return None
        return (
            f"pool {self.group}: the autoscaler drained node {self.node['metadata']['name']}, of "
            f"which {self.asked} of {self.allocatable} GPUs were in use, and evicted the running "
            f'{", ".join(jobs)}: without the annotation {SAFE_TO_EVICT}: "false" a job '
            "loses its progress"
        )


class Sustained(Generic[T]):
    """Remembers since when each name has been found."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[str, float] = {}

    def first(self, found: Mapping[str, T]) -> T | None:
        """The first that was found in every call of the last `seconds`, if any."""
        now = time.monotonic()
        self._since = {name: self._since.get(name, now) for name in found}
        due = (name for name, since in self._since.items() if now - since >= self._seconds)
        return next((found[name] for name in due), None)


def unneeded(
    groups: Sequence[NodeGroup], nodes: Sequence[Object], pods: Sequence[Object], rules: Rules
) -> list[Drained]:
    """The nodes that the autoscaler could remove while pods run on them, and idle nodes that the
    cloud keeps above the minimum."""
    found = []
    for group in groups:
        own = [node for node in nodes if belongs(node, group) and _stands(node)]
        scaled_here = group.autoscaled and not group.unscaled and group.machines is None
        scaled_here &= not group.surging  # the update ends its own additional nodes
        if not scaled_here or len(own) <= group.min_nodes:
            continue
        for node in own:
            inside = [
                pod for pod in pods_on(node, pods) if not workload(pod).startswith("DaemonSet ")
            ]
            asked, allocatable = (
                sum(gpus_asked(pod["spec"]) for pod in inside),
                allocatable_gpus(node),
            )
            if not karpenters(node):
                # Karpenter does not manage it. Only a GKE pool starts above its minimum, with the
                # same number of nodes in each zone.
                if not inside and group.target_nodes > group.min_nodes:
                    found.append(_idle(node, group, allocatable))
                continue
            if not inside or asked >= rules.threshold * allocatable:
                continue
            others = [other for other in nodes if other is not node and _stands(other)]
            if not any(keeps(pod, rules) for pod in inside) and _fit(inside, others, pods):
                found.append(
                    Drained(
                        node=node,
                        group=group.name,
                        asked=asked,
                        allocatable=allocatable,
                        pods=inside,
                        protectable=_protectable(group, groups),
                    )
                )
    return found


def _protectable(group: NodeGroup, groups: Iterable[NodeGroup]) -> bool:
    """Whether a pod on the group may be protected: it also may have to start on an alternative."""
    alternatives = [other for other in groups if other.order and other.order == group.order]
    return all(other.protection is not None for other in [group, *alternatives])


def _idle(node: Object, group: NodeGroup, allocatable: int) -> Drained:
    return Drained(node=node, group=group.name, asked=0, allocatable=allocatable, pods=())


def keeps(pod: Object, rules: Rules) -> bool:
    """Whether the pod blocks the removal of its node."""
    answer = (pod["metadata"].get("annotations") or {}).get(SAFE_TO_EVICT)
    if answer in ("true", "false"):
        return bool(answer == "false")
    unmanaged = not pod["metadata"].get("ownerReferences")
    system = pod["metadata"]["namespace"] == "kube-system"
    local = any(
        "hostPath" in volume or volume.get("emptyDir", {"medium": "Memory"}).get("medium") is None
        for volume in pod["spec"].get("volumes") or []
    )
    return unmanaged or system or (rules.local_storage_stays and local)


def _stands(node: Object) -> bool:
    gone = node["metadata"].get("deletionTimestamp") or node["spec"].get("unschedulable")
    return not gone and holds(node, "Ready") and allocatable_gpus(node) > 0


def _fit(moving: Sequence[Object], others: Sequence[Object], pods: Sequence[Object]) -> bool:
    """Whether all of them fit on existing nodes."""
    if any(phase(pod) == "deleting" for pod in moving):
        return False
    free = {node["metadata"]["name"]: _free(node, pods) for node in others}
    for pod in sorted(moving, key=full_name):
        need = requests(pod["spec"])
        for node in others:
            room = free[node["metadata"]["name"]]
            if not mismatches(pod["spec"], shape_of(node)) and all(
                amount <= room.get(name, 0) for name, amount in need.items()
            ):
                for name, amount in need.items():
                    room[name] -= amount
                break
        else:
            return False
    return True


def _free(node: Object, pods: Iterable[Object]) -> dict[str, Decimal]:
    given = node["status"].get("allocatable", {})
    room = {name: quantity.parse(amount) for name, amount in given.items()}
    for pod in pods_on(node, pods):
        for name, amount in requests(pod["spec"]).items():
            room[name] = room.get(name, Decimal(0)) - amount
    return room


def evictable(
    groups: Sequence[NodeGroup], nodes: Iterable[Object], pods: Iterable[Object], rules: Rules
) -> list[str]:
    """Jobs that are not protected from the scaler of their node, although they could be.

    Cluster Autoscaler only considers nodes of which less than half of the GPUs are requested.
    Karpenter considers every node: it also replaces full ones, which have drifted or for which
    there is a cheaper one. `nodes`: all that ever had GPUs, since a job and its node may be gone.
    """
    by_name, found = {node["metadata"]["name"]: node for node in nodes}, {}
    for pod in pods:
        who, node = workload(pod), by_name.get(pod["spec"].get("nodeName") or "")
        if node is None or not who.startswith("Job "):
            continue
        group = next((group for group in groups if group.autoscaled and belongs(node, group)), None)
        if group is None or group.protection is None or not _protectable(group, groups):
            continue
        annotation, value = group.protection
        asked, allocatable = gpus_asked(pod["spec"]), allocatable_gpus(node)
        if annotation == SAFE_TO_EVICT:
            protected = keeps(pod, rules) or asked >= rules.threshold * allocatable
            scaler, when = "the autoscaler", "if they fit on another node"
        else:
            protected = (pod["metadata"].get("annotations") or {}).get(annotation) == value
            scaler, when = "Karpenter", "if their node has drifted or they fit elsewhere"
        if asked and not protected:
            found[who] = (
                f"pool {group.name}: {who} requests {asked} of a node's {allocatable} GPUs, and "
                f"{scaler} may evict its running pods {when}: it lacks the annotation "
                f'{annotation}: "{value}"'
            )
    return list(found.values())
