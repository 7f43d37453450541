"""The nodes of a ProvisioningRequest start together or not at all, and wait for its pods."""

from typing import Any

import pytest

from rehearsal.control_plane.api import Api
from rehearsal.event_log import EventLog
from rehearsal.nodes import queued
from rehearsal.nodes.node_registration import GROUP
from rehearsal.nodes.pods import condition, holds
from rehearsal.nodes.queued import CLASS, CONSUMES, LABEL, QueuedNodes, nodes_for
from rehearsal.simulators.cloud import NodeTaint, RefusedError
from tests.unit.rehearsal.rehearsed import GPU_TAINT, group, node, pod, shape

TAINT = NodeTaint(key="cloud.google.com/gke-queued", value="true", effect="NoSchedule")
POOL = group(template=shape(taints=(GPU_TAINT, TAINT)), max_nodes=4, queued=True)
TEMPLATE = "/api/v1/namespaces/default/podtemplates/ppt"
NODES = "/api/v1/nodes/"


class Cluster(Api):
    """One request for pods of a template, and the nodes that the cloud has started."""

    def __init__(self, pods: int) -> None:
        self.request: dict[str, Any] = {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "metadata": {
                "namespace": "default",
                "name": "ddp-1",
                "uid": "u",
                "ownerReferences": [{"kind": "Workload", "name": "jobset-ddp-1"}],
            },
            "spec": {
                "provisioningClassName": CLASS,
                "podSets": [{"podTemplateRef": {"name": "ppt"}, "count": pods}],
            },
        }
        self.nodes: list[dict[str, Any]] = []

    def items(self, path: str) -> list[dict[str, Any]]:
        return [self.request] if path == queued.REQUESTS else []

    def get(self, path: str, query: Any = None) -> dict[str, Any]:
        assert path == TEMPLATE
        return {"template": {"spec": pod()["spec"]}}

    def patch(self, path: str, patch: Any, kind: str = "") -> dict[str, Any]:
        if path.startswith(NODES):
            (found,) = (n for n in self.nodes if path.endswith(n["metadata"]["name"]))
            found["metadata"]["labels"].update(patch["metadata"]["labels"])
            return found
        self.request |= patch
        return self.request


class Stocked:
    """A cloud that has so many machines, and starts the nodes at once."""

    def __init__(self, cluster: Cluster, machines: int) -> None:
        self.cluster, self.machines = cluster, machines

    def start_together(self, group: str, nodes: int) -> None:
        if nodes > self.machines:
            raise RefusedError(f"{self.machines} machines are left")
        for number in range(nodes):
            made = node(f"n{number}", POOL)
            made["metadata"]["annotations"] = {GROUP: group}
            self.cluster.nodes.append(made)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queued, "RETRY_SECONDS", 0.0)


def rehearsed(tmp_path: Any, pods: int, machines: int) -> tuple[Cluster, Stocked, QueuedNodes]:
    cluster = Cluster(pods)
    cloud = Stocked(cluster, machines)
    return cluster, cloud, QueuedNodes(lambda: cluster, EventLog(tmp_path / "log"), cloud)


def test_a_request_waits_until_all_of_its_nodes_can_be_had(tmp_path: Any) -> None:
    """Queued, with the cloud's words; three of four machines start no node."""
    cluster, cloud, nodes = rehearsed(tmp_path, pods=4, machines=3)
    for _ in range(3):
        nodes.turn([POOL], cluster.nodes, [])
    assert cluster.nodes == []
    assert holds(cluster.request, "Accepted")
    assert condition(cluster.request, "Provisioned")["message"] == "3 machines are left"
    assert nodes.waiting == {"default/jobset-ddp-1": "3 machines are left"}
    cloud.machines = 4
    for _ in range(3):
        nodes.turn([POOL], cluster.nodes, [])
    assert holds(cluster.request, "Provisioned")
    assert {one["metadata"]["labels"][LABEL] for one in cluster.nodes} == {
        cluster.request["status"]["provisioningClassDetails"]["ResizeRequestName"]
    }
    assert nodes.waiting == {}


def test_its_nodes_wait_for_its_pods_and_then_for_nobody(tmp_path: Any) -> None:
    """Booked until a pod that consumes the request is there; gone, its capacity is revoked."""
    cluster, _, nodes = rehearsed(tmp_path, pods=2, machines=2)
    for _ in range(4):
        nodes.turn([POOL], cluster.nodes, [])
    assert nodes.booked == {"n0", "n1"}
    worker = pod(on="n0", phase="Running")
    worker["metadata"]["annotations"] = {CONSUMES: "ddp-1"}
    nodes.turn([POOL], cluster.nodes, [worker])
    assert holds(cluster.request, "BookingExpired")
    assert nodes.booked == set()
    for _ in range(2):
        nodes.turn([POOL], [], [])
    assert holds(cluster.request, "CapacityRevoked")


def test_a_request_that_no_pool_can_ever_fulfil_is_not_accepted(tmp_path: Any) -> None:
    """More nodes than the pool's maximum, or no queued pool at all."""
    cluster, _, nodes = rehearsed(tmp_path, pods=5, machines=9)
    nodes.turn([POOL], cluster.nodes, [])
    assert condition(cluster.request, "Accepted")["reason"] == "NodepoolSizeReached"
    cluster, _, nodes = rehearsed(tmp_path, pods=1, machines=9)
    other = group("other", template=shape(labels={}, taints=(GPU_TAINT, TAINT)), queued=True)
    nodes.turn([other], cluster.nodes, [])
    assert condition(cluster.request, "Accepted")["reason"] == "NoQueuedNodepoolAvailable"


def test_pods_that_fit_one_node_share_it_unless_they_must_not() -> None:
    """Workers have a node each: the spread of a training job says so."""
    big = group(template=shape(gpus=8))
    spread = {"topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    assert nodes_for(pod(gpus=2)["spec"], 5, big) == 2
    assert nodes_for(pod(gpus=2, topologySpreadConstraints=[spread])["spec"], 5, big) == 5
