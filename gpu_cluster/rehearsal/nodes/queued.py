"""ProvisioningRequests, as GKE's autoscaler processes them: all nodes of a request start, or none.

States, reasons and messages follow GoogleCloudPlatform/cluster-autoscaler 7d250507,
pkg/provisioningrequests (read 2026-11-24). An accepted request waits for capacity, and for quota,
indefinitely (docs.cloud.google.com/compute/docs/instance-groups/create-resize-requests-mig), in the
zone that was chosen when it was accepted: Compute Engine recommends one, here the first that
has all machines, else the pool's first. From then on only the reconciler processes it, which does
not check it again, and its nodes count in the pool's size. They have their own label, and are not
removed while they are booked for its pods. Unlike on GKE, a request has one pod set.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gpu_cluster.components.catalog.kubernetes import ZONE
from gpu_cluster.components.kube import quantity
from gpu_cluster.components.kube.requests import requests
from gpu_cluster.rehearsal.control_plane.api import Api, Object
from gpu_cluster.rehearsal.control_plane.pods import condition, full_name, holds
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.nodes.matching import mismatches
from gpu_cluster.rehearsal.nodes.node_registration import belongs
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, Queueing, RefusedError

REQUESTS = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"
CLASS = "queued-provisioning.gke.io"
LABEL = "autoscaling.gke.io/provisioning-request"
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
TAINT = {
    "key": "cloud.google.com/gke-queued",
    "operator": "Equal",
    "value": "true",
    "effect": "NoSchedule",
}
_SCALE = 0.1
"""Seconds here per real second."""
BOOKED_SECONDS = 600 * _SCALE
"""How long nodes wait for their pods. The request says so afterwards, whatever has become of them:
reconciler/provisioning_request_finalizer.go."""
GIVE_UP_SECONDS = 120 * _SCALE
"""Minimum age of a request that fails because no node group has room for it."""
RUN_SECONDS = 604800
"""Real seconds that nodes live if their request does not set it."""
RETRY_SECONDS, LOOK_SECONDS = 1.0, 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """The nodes of an accepted request, which are not all ready yet."""

    group: str
    zone: str
    nodes: int
    label: str
    """The value of their label for the request."""


class QueuedNodes:
    """The requests of one cluster, by UID."""

    def __init__(self, api: Callable[[], Api], log: EventLog, cloud: object) -> None:
        self._api, self._log, self._cloud = api, log, cloud
        self._accepted: dict[str, _Grant] = {}
        """Requests whose nodes have not started."""
        self._granted: dict[str, _Grant] = {}
        self._due: dict[str, float] = {}
        self._next = 0.0
        self._used: set[str] = set()
        """Requests whose pods have run on their nodes."""
        self._zones: dict[str, str] = {}
        """Value of a node's label for its request -> the zone of the request."""
        self.waiting: dict[str, str] = {}
        """Owner of a request, `namespace/name` -> why its nodes do not start."""
        self.booked: Collection[str] = ()
        """Nodes that are reserved for the pods of a request."""
        self.over: list[Object] = []
        """Nodes whose run duration is over: Compute Engine deletes them."""

    def turn(
        self, groups: Sequence[NodeGroup], nodes: Sequence[Object], pods: Sequence[Object]
    ) -> None:
        """Advances each request by one step."""
        queued, self.over = [group for group in groups if group.queued], []
        if not isinstance(self._cloud, Queueing) or not (queued or self._looks()):
            return
        own = [node for node in nodes if any(belongs(node, group) for group in queued)]
        names = {request["metadata"]["name"] for request in own}
        self._used |= {
            f"{pod['metadata']['namespace']}/{request}"
            for pod in pods
            if pod["spec"].get("nodeName") in names
            and (request := (pod["metadata"].get("annotations") or {}).get(CONSUMES))
        }
        booked, self.waiting = set[str](), {}
        asked = [need for need in self._api().items(REQUESTS) if _class(need) == CLASS]
        uids = {item["metadata"]["uid"] for item in asked}
        self._accepted = {uid: seen for uid, seen in self._accepted.items() if uid in uids}
        self._granted = {uid: gone for uid, gone in self._granted.items() if uid in uids}
        self._cloud.placed = self._placed(queued, nodes)
        for request in asked:
            try:
                booked |= self._step(request, queued, own)
            except ApiError as error:
                if error.status not in (404, 409):  # deleted or changed meanwhile
                    raise
        self.booked = booked

    def zone(self, labels: Mapping[str, str]) -> dict[str, str]:
        """The label of the zone in which a node with these labels started for a request."""
        zone = self._zones.get(labels.get(LABEL, ""))
        return {ZONE: zone} if zone else {}

    def _looks(self) -> bool:
        """Whether it is time to look for requests when no group serves them."""
        due = time.monotonic() >= self._next
        self._next = time.monotonic() + LOOK_SECONDS if due else self._next
        return due

    def _step(
        self, request: Object, groups: Sequence[NodeGroup], nodes: Sequence[Object]
    ) -> set[str]:
        """Advances one request; returns the nodes that are booked for it."""
        uid, name = request["metadata"]["uid"], full_name(request)
        mine = [
            node
            for node in nodes
            if (node["metadata"].get("labels") or {}).get(LABEL) == _resize(request)
        ]
        if zone := _zone_of(request):
            self._zones[_resize(request)] = zone
        if holds(request, "CapacityRevoked"):
            self.over += mine
        if holds(request, "Failed") or holds(request, "CapacityRevoked"):
            self._wait(request, condition(request, "Failed").get("message", ""))
            return set()
        if holds(request, "BookingExpired"):
            # Even if the nodes are deleted earlier: GKE only counts the time.
            parameters = request["spec"].get("parameters") or {}
            lives = float(parameters.get("maxRunDurationSeconds", RUN_SECONDS)) * _SCALE
            if _age(request, "Provisioned") > lives:
                self._say(request, "CapacityRevoked", "CapacityRevoked",
                    "Capacity provisioned for the Provisioning Request was reclaimed and is no "
                    "longer available in the cluster.")  # fmt: skip
                self.over += mine
            return set()
        if holds(request, "Provisioned"):
            if _age(request, "Provisioned") > BOOKED_SECONDS:
                self._say(request, "BookingExpired", "BookingExpired",
                    "Capacity booking for the Provisioning Request has expired and the nodes are "
                    "now candidates for scale down when underutilized.")  # fmt: skip
                return set()
            if name in self._used:
                return set()
        elif uid in self._granted:
            needed = self._granted[uid].nodes
            self._label(request, nodes, needed - len(mine))
            if len(mine) == needed and all(holds(node, "Ready") for node in mine):
                self._say(request, "Provisioned", "Provisioned",
                    "Provisioning Request was successfully provisioned.")  # fmt: skip
                del self._granted[uid]
        elif time.monotonic() >= self._due.get(uid, 0.0):
            self._due[uid] = time.monotonic() + RETRY_SECONDS
            self._ask(request, groups)
        if not holds(request, "Provisioned") and uid not in self._granted:
            state = condition(request, "Provisioned") or condition(request, "Accepted")
            self._wait(request, state.get("message", ""))
        return {node["metadata"]["name"] for node in mine}

    def _wait(self, request: Object, why: str) -> None:
        for owner in request["metadata"].get("ownerReferences") or [] if why else []:
            self.waiting[f"{request['metadata']['namespace']}/{owner['name']}"] = why

    def _ask(self, request: Object, groups: Sequence[NodeGroup]) -> None:
        """Starts the nodes of a request, if it is or can be accepted and the cloud has them."""
        uid, name = request["metadata"]["uid"], full_name(request)
        grant = self._accepted.get(uid) or self._accept(request, groups)
        if grant is None:
            return
        if grant.group not in {group.name for group in groups}:
            self._say(request, "Failed", "MissingResizeRequest",
                "The corresponding Resize Request was missing.")  # fmt: skip
            return
        assert isinstance(self._cloud, Queueing)
        try:
            self._cloud.start_together(grant.group, grant.nodes, grant.zone)
        except RefusedError as error:
            reason = "QuotaExceeded" if error.quota else "ResourcePoolExhausted"
            if self._say(request, "Provisioned", reason, str(error), status="False"):
                self._log.record("cloud", grant.group, "refused", nodes=grant.nodes,
                    message=str(error), request=name)  # fmt: skip
            return
        self._granted[uid] = self._accepted.pop(uid)
        self._log.record("cloud", grant.group, "together", nodes=grant.nodes,
            zone=grant.zone, request=name)  # fmt: skip

    def _accept(self, request: Object, groups: Sequence[NodeGroup]) -> _Grant | None:
        """Accepts a new request if a group has room for it, and else refuses it."""
        (pod_set, *_) = request["spec"]["podSets"]
        namespace = request["metadata"]["namespace"]
        template = self._api().get(
            f"/api/v1/namespaces/{namespace}/podtemplates/{pod_set['podTemplateRef']['name']}"
        )
        # GKE adds the toleration, and decides about the label, itself.
        spec = dict(template["template"]["spec"])
        spec["tolerations"] = [*(spec.get("tolerations") or []), TAINT]
        spec["nodeSelector"] = {
            key: value for key, value in (spec.get("nodeSelector") or {}).items() if key != LABEL
        }
        options = [(group, zone) for group in groups for zone in _zones(spec, group)]
        if not options:
            none = "No nodepool with QueuedProvisioning enabled is available for scale up"
            self._refuse(request, "NoQueuedNodepoolAvailable", none)
            return None
        group = options[0][0]
        labels = template["template"].get("metadata", {}).get("labels") or {}
        needed = nodes_for(spec, labels, pod_set["count"], group)
        assert isinstance(self._cloud, Queueing)
        # Including nodes that no pod uses any more, until the autoscaler has removed them.
        started = sum(n for (name, _), n in self._cloud.placed.items() if name == group.name)
        size = max(group.target_nodes, started) + sum(
            other.nodes for other in self._accepted.values() if other.group == group.name
        )
        if size >= group.max_nodes:
            self._refuse(request, "NodepoolSizeReached",
                f"Max nodepool size reached, affected nodepools: {group.name}")  # fmt: skip
            return None
        if size + needed > group.max_nodes:
            self._refuse(request, "ProvisioningRequestSingleZoneInfeasible",
                "Provisioning Request cannot be scheduled in a single zone of a single nodepool, "
                f"affected nodepools: {group.name}")  # fmt: skip
            return None
        zones = [zone for of, zone in options if of is group]
        zone, label = self._cloud.recommend(group.name, needed, zones), _resize(request)
        self._say(request, "Accepted", "SuccessfullyQueued",
            "Provisioning Request was successfully queued.",
            NodePoolName=group.name, ResizeRequestName=label, SelectedZone=zone,
        )  # fmt: skip
        grant = _Grant(group=group.name, zone=zone, nodes=needed, label=label)
        self._accepted[request["metadata"]["uid"]] = grant
        return grant

    def _placed(
        self, groups: Sequence[NodeGroup], nodes: Sequence[Object]
    ) -> Counter[tuple[str, str]]:
        """Group and zone -> its nodes there, and those to come."""
        labels = [
            (group.name, own)
            for group in groups
            for node in nodes
            if belongs(node, group) and LABEL in (own := node["metadata"].get("labels") or {})
        ]
        placed = Counter((name, own.get(ZONE, "")) for name, own in labels)
        counts = Counter(own[LABEL] for _, own in labels)
        for grant in self._granted.values():
            placed[grant.group, grant.zone] += max(grant.nodes - counts[grant.label], 0)
        return placed

    def _refuse(self, request: Object, reason: str, message: str) -> None:
        """Records that the request is refused and retried, or has failed if it is old enough."""
        created = request["metadata"]["creationTimestamp"]
        if _since(created) > GIVE_UP_SECONDS:
            self._say(request, "Failed", reason, message)
        else:
            self._say(request, "Accepted", reason, message, status="False")

    def _label(self, request: Object, nodes: Sequence[Object], missing: int) -> None:
        """Labels new nodes for the request."""
        free = [n for n in nodes if LABEL not in (n["metadata"].get("labels") or {})]
        for node in free[: max(missing, 0)]:
            path = f"/api/v1/nodes/{node['metadata']['name']}"
            marks = {LABEL: _resize(request), **self.zone({LABEL: _resize(request)})}
            self._api().patch(path, {"metadata": {"labels": marks}})

    def _say(
        self, request: Object, kind: str, reason: str, message: str, status: str = "True",
        **details: str,
    ) -> bool:  # fmt: skip
        """Sets a condition; returns whether it changed."""
        before = condition(request, kind)
        if (before.get("status"), before.get("message")) == (status, message):
            return False
        conditions = request.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [row for row in conditions if row["type"] != kind]
        conditions.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            }
        )
        if details:
            request["status"]["provisioningClassDetails"] = details
        namespace, name = (request["metadata"][key] for key in ("namespace", "name"))
        group, version = request["apiVersion"].split("/")
        path = f"/apis/{group}/{version}/namespaces/{namespace}/provisioningrequests/{name}/status"
        self._api().patch(path, {"status": request["status"]})
        self._log.record("request", full_name(request), kind, status=status, message=message)
        return True


def _zones(spec: Mapping[str, Any], group: NodeGroup) -> Iterator[str]:
    """The zones of the group in which its nodes fit a pod."""
    for zone in group.zones:
        node = replace(group.node, labels={**group.node.labels, ZONE: zone})
        if not mismatches(spec, node):
            yield zone


def nodes_for(
    spec: Mapping[str, Any], labels: Mapping[str, str], pods: int, group: NodeGroup
) -> int:
    """How many new nodes of the group this many pods with these labels need."""
    spread = any(
        constraint["topologyKey"] == "kubernetes.io/hostname"
        and constraint.get("whenUnsatisfiable") == "DoNotSchedule"
        and (selector := constraint.get("labelSelector")) is not None
        and (selector.get("matchLabels") or {}).items() <= labels.items()
        for constraint in spec.get("topologySpreadConstraints") or []
    )
    most = 1 if spread else min(
        int(quantity.parse(group.node.capacity.get(name, 0)) // amount)
        for name, amount in requests(spec).items()
        if amount
    )  # fmt: skip
    return -(-pods // max(most, 1))


def _class(request: Object) -> str:
    return str(request["spec"]["provisioningClassName"])


def _zone_of(request: Object) -> str:
    """The zone that was chosen for it; empty if none is yet."""
    details = (request.get("status") or {}).get("provisioningClassDetails") or {}
    return str(details.get("SelectedZone", ""))


def _resize(request: Object) -> str:
    """The name of GKE's own request for the machines."""
    digest = hashlib.sha256(full_name(request).encode()).hexdigest()[:16]
    return f"gke-{digest}"


def _age(request: Object, kind: str) -> float:
    return _since(condition(request, kind)["lastTransitionTime"])


def _since(time_of: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(time_of)).total_seconds()
