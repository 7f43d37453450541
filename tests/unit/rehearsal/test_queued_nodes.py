"""The nodes of a ProvisioningRequest start together or not at all, and wait for its pods."""

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_cluster.components.catalog.kubernetes import ZONE
from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.control_plane.pods import condition, holds
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.nodes import queued
from gpu_cluster.rehearsal.nodes.node_registration import GROUP
from gpu_cluster.rehearsal.nodes.nodes import Nodes
from gpu_cluster.rehearsal.nodes.queued import CLASS, CONSUMES, LABEL, QueuedNodes, nodes_for
from gpu_cluster.rehearsal.nodes.zones import Zones
from gpu_cluster.rehearsal.simulators.cloud import NodeTaint, RefusedError
from tests.unit.rehearsal.rehearsed import GPU_TAINT, group, node, pod, shape

TAINT = NodeTaint(key="cloud.google.com/gke-queued", value="true", effect="NoSchedule")
POOL = group(template=shape(taints=(GPU_TAINT, TAINT)), max_nodes=4, queued=True, zones=("a", "b"))
AT = "2026-01-01T00:00:00Z"
TEMPLATE = "/api/v1/namespaces/default/podtemplates/ppt"
NODES = "/api/v1/nodes/"


class Cluster(Api):
    """Requests for pods of a template, first one, and the nodes that the cloud has started."""

    def __init__(self, pods: int) -> None:
        self.request: dict[str, Any] = {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "metadata": {
                "namespace": "default",
                "name": "ddp-1",
                "uid": "u",
                "creationTimestamp": AT,
                "ownerReferences": [{"kind": "Workload", "name": "jobset-ddp-1"}],
            },
            "spec": {
                "provisioningClassName": CLASS,
                "podSets": [{"podTemplateRef": {"name": "ppt"}, "count": pods}],
            },
        }
        self.requests = [self.request]
        self.nodes: list[dict[str, Any]] = []

    def another(self) -> dict[str, Any]:
        """Adds a second, new request."""
        self.requests.append(copy.deepcopy(self.request))
        self.requests[1]["metadata"] |= {"name": "ddp-2", "uid": "v"}
        self.requests[1].pop("status", None)
        return self.requests[1]

    def items(self, path: str) -> list[dict[str, Any]]:
        return self.requests if path == queued.REQUESTS else []

    def get(self, path: str, query: Any = None) -> dict[str, Any]:
        assert path == TEMPLATE
        return {"template": {"spec": pod()["spec"]}}

    def patch(self, path: str, patch: Any, kind: str = "") -> dict[str, Any]:
        if path.startswith(NODES):
            (found,) = (n for n in self.nodes if path.endswith(n["metadata"]["name"]))
            found["metadata"]["labels"].update(patch["metadata"]["labels"])
        return patch  # which has the request's own status


class Stocked:
    """A cloud that has so many machines in each zone, and starts the nodes at once."""

    def __init__(self, cluster: Cluster, machines: dict[str, int]) -> None:
        self.cluster, self.machines, self.placed = cluster, machines, Counter[tuple[str, str]]()
        self.quota = False

    def recommend(self, group: str, nodes: int, zones: Sequence[str]) -> str:
        has = (z for z in zones if self.placed[group, z] + nodes <= self.machines[z])
        return next(has, zones[0])

    def start_together(self, group: str, nodes: int, zone: str) -> None:
        if self.placed[group, zone] + nodes > self.machines[zone]:
            raise RefusedError(f"{self.machines[zone]} machines are left", quota=self.quota)
        self.placed[group, zone] += nodes
        for _ in range(nodes):
            made = node(f"n{len(self.cluster.nodes)}", POOL, **{GROUP: group})
            self.cluster.nodes.append(made)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queued, "RETRY_SECONDS", 0.0)


def rehearsed(
    tmp_path: Path, pods: int, machines: int, others: int = 0
) -> tuple[Cluster, Stocked, QueuedNodes]:
    """`machines` in the pool's first zone, `others` in its second."""
    cluster = Cluster(pods)
    cloud = Stocked(cluster, {"a": machines, "b": others})
    return cluster, cloud, QueuedNodes(lambda: cluster, EventLog(tmp_path / "log"), cloud)


@pytest.mark.parametrize(
    ("quota", "reason"), [(False, "ResourcePoolExhausted"), (True, "QuotaExceeded")]
)
def test_a_request_waits_until_all_of_its_nodes_can_be_had(
    tmp_path: Path, quota: bool, reason: str
) -> None:
    """Queued, with the cloud's words; three of four machines, or a quota of three, start no
    node."""
    cluster, cloud, nodes = rehearsed(tmp_path, pods=4, machines=3)
    cloud.quota = quota
    for _ in range(3):
        nodes.turn([POOL], cluster.nodes, [])
    assert cluster.nodes == []
    assert holds(cluster.request, "Accepted")
    waits = condition(cluster.request, "Provisioned")
    assert (waits["status"], waits["reason"]) == ("False", reason)
    assert waits["message"] == "3 machines are left"
    assert nodes.waiting == {"default/jobset-ddp-1": "3 machines are left"}
    cloud.machines["a"] = 4
    for _ in range(3):
        nodes.turn([POOL], cluster.nodes, [])
    assert holds(cluster.request, "Provisioned")
    assert {one["metadata"]["labels"][LABEL] for one in cluster.nodes} == {
        cluster.request["status"]["provisioningClassDetails"]["ResizeRequestName"]
    }
    assert nodes.waiting == {}


def test_a_request_keeps_the_zone_that_it_was_accepted_for(tmp_path: Path) -> None:
    """Of two zones the one that has all machines; a zone that has them later does not help."""
    cluster, _, nodes = rehearsed(tmp_path, pods=4, machines=3, others=4)
    for _ in range(3):
        nodes.turn([POOL], cluster.nodes, [])
    assert cluster.request["status"]["provisioningClassDetails"]["SelectedZone"] == "b"
    assert {one["metadata"]["labels"][ZONE] for one in cluster.nodes} == {"b"}
    assert nodes.zone(cluster.nodes[0]["metadata"]["labels"]) == {ZONE: "b"}
    waiting, cloud, nodes = rehearsed(tmp_path, pods=4, machines=3, others=3)
    nodes.turn([POOL], [], [])
    cloud.machines["b"] = 4
    for _ in range(3):
        nodes.turn([POOL], [], [])
    assert waiting.request["status"]["provisioningClassDetails"]["SelectedZone"] == "a"
    assert waiting.nodes == []


def test_a_node_keeps_the_zone_of_its_request() -> None:
    """It is not given that of its pool's first zone."""
    pool = group(template=shape(labels={"pool": "p", ZONE: "a"}), queued=True, zones=("a", "b"))
    one = node("n0", pool)
    one["metadata"] |= {"labels": {"pool": "p", LABEL: "gke-1", ZONE: "b"}, "resourceVersion": "1"}
    nodes, patches = Nodes.__new__(Nodes), list[Any]()
    api = SimpleNamespace(patch=lambda path, patch: patches.append(patch))
    nodes._control_plane = SimpleNamespace(api=api)  # type: ignore[assignment]
    nodes._others_labels, nodes._labelled = lambda group: {}, {}
    nodes._queued = QueuedNodes(lambda: Cluster(1), EventLog(), None)
    nodes._queued._zones["gke-1"] = "b"
    nodes._zones = Zones(lambda: Cluster(1), EventLog(), None)
    nodes._shape(one, pool, asked=True)
    assert patches == []


@pytest.mark.parametrize("joined", [True, False])
def test_nodes_that_are_still_to_come_count_in_their_zone(tmp_path: Path, joined: bool) -> None:
    """As those that have joined: two jobs do not both get the last machines of a zone."""
    cluster, _, nodes = rehearsed(tmp_path, pods=2, machines=2, others=2)
    for _ in range(3):
        nodes.turn([POOL], cluster.nodes if joined else [], [])
    assert holds(cluster.request, "Provisioned") == joined
    second = cluster.another()
    nodes.turn([POOL], cluster.nodes if joined else [], [])
    assert second["status"]["provisioningClassDetails"]["SelectedZone"] == "b"


@pytest.mark.parametrize("machines", [2, 9], ids=["waits", "starts"])
def test_an_accepted_request_is_not_checked_again(tmp_path: Path, machines: int) -> None:
    """Its nodes count at once, so that another has no room; a lower maximum does not stop it."""
    cluster, cloud, nodes = rehearsed(tmp_path, pods=3, machines=machines)
    other = cluster.another()
    nodes.turn([POOL], [], [])
    assert condition(other, "Failed")["reason"] == "ProvisioningRequestSingleZoneInfeasible"
    cloud.machines["a"] = 9
    nodes.turn([replace(POOL, max_nodes=2)], [], [])
    assert holds(cluster.request, "Accepted")
    assert len(cluster.nodes) == 3


def test_an_accepted_request_fails_without_its_pool(tmp_path: Path) -> None:
    """Another pool that would do is not used: a new request has to ask for it."""
    cluster, _, nodes = rehearsed(tmp_path, pods=3, machines=2)
    nodes.turn([POOL], [], [])
    nodes.turn([replace(POOL, name="new")], [], [])
    assert condition(cluster.request, "Failed")["reason"] == "MissingResizeRequest"


def test_its_nodes_wait_for_its_pods_and_then_for_nobody(tmp_path: Path) -> None:
    """Booked until a pod that consumes the request is there. GKE says after ten minutes that they
    are not booked any more. When their run duration is over, the request is revoked, and the nodes
    are over as long as they are there."""
    cluster, _, nodes = rehearsed(tmp_path, pods=2, machines=2)
    for _ in range(4):
        nodes.turn([POOL], cluster.nodes, [])
    assert nodes.booked == {"n0", "n1"}
    worker = pod(on="n0", phase="Running", annotations={CONSUMES: "ddp-1"})
    nodes.turn([POOL], cluster.nodes, [worker])
    assert nodes.booked == set()
    nodes.turn([POOL], [], [])
    assert not holds(cluster.request, "BookingExpired")
    booked = datetime.now(UTC) - timedelta(seconds=queued.BOOKED_SECONDS + 1)
    for each in cluster.request["status"]["conditions"]:
        each["lastTransitionTime"] = booked.isoformat()
    for _ in range(2):
        nodes.turn([POOL], [], [])
    assert holds(cluster.request, "BookingExpired")
    assert not holds(cluster.request, "CapacityRevoked")
    for each in cluster.request["status"]["conditions"]:
        each["lastTransitionTime"] = AT
    cluster.request["spec"]["parameters"] = {"maxRunDurationSeconds": "600"}
    assert nodes.over == []
    for _ in range(2):
        nodes.turn([POOL], cluster.nodes, [])
        assert nodes.over == cluster.nodes
    assert holds(cluster.request, "CapacityRevoked")
    nodes.turn([POOL], [], [])
    assert nodes.over == []


@pytest.mark.parametrize(
    ("pods", "taken", "labels", "reason"),
    [
        (5, 0, None, "ProvisioningRequestSingleZoneInfeasible"),
        (2, 3, None, "ProvisioningRequestSingleZoneInfeasible"),
        (1, 4, None, "NodepoolSizeReached"),
        (1, 0, {}, "NoQueuedNodepoolAvailable"),
    ],
    ids=["never fits", "no room left", "full", "no such pool"],
)
def test_a_request_without_room_is_not_accepted_and_then_fails(
    tmp_path: Path, pods: int, taken: int, labels: dict[str, str] | None, reason: str
) -> None:
    """Nodes of an earlier job count until they are gone; of a young request it is tried again."""
    cluster, _, nodes = rehearsed(tmp_path, pods=pods, machines=9)
    pool = group(
        template=shape(labels=labels, taints=(GPU_TAINT, TAINT)),
        max_nodes=4, target_nodes=taken, queued=True, zones=("a",),
    )  # fmt: skip
    cluster.request["metadata"]["creationTimestamp"] = datetime.now(UTC).isoformat()
    nodes.turn([pool], [], [])
    assert condition(cluster.request, "Accepted")["reason"] == reason
    assert not holds(cluster.request, "Failed")
    cluster.request["metadata"]["creationTimestamp"] = AT
    for _ in range(2):
        nodes.turn([pool], [], [])
    assert condition(cluster.request, "Failed")["reason"] == reason
    assert nodes.waiting["default/jobset-ddp-1"] in condition(cluster.request, "Failed")["message"]


def test_pods_that_fit_one_node_share_it_unless_they_must_not() -> None:
    """Workers have a node each: the spread of a training job says so, if it is of its own pods."""
    big = group(template=shape(gpus=8))
    spread = {
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"job": "ddp"}},
    }
    alone = pod(gpus=2, topologySpreadConstraints=[spread])["spec"]
    assert nodes_for(pod(gpus=2)["spec"], {}, 5, big) == 2
    assert nodes_for(alone, {"app": "ddp"}, 5, big) == 2
    assert nodes_for(alone, {"app": "ddp", "job": "ddp"}, 5, big) == 5
