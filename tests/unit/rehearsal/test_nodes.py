"""When a node is given its GPUs, and in which order the event log has it."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_cluster.rehearsal.control_plane.cluster_cache import KINDS, ClusterCache
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.control_plane.pods import STARTING
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.nodes import kwok, scale_down
from gpu_cluster.rehearsal.nodes.autoscaler import Autoscaler
from gpu_cluster.rehearsal.nodes.node_registration import GROUP, by_instance
from gpu_cluster.rehearsal.nodes.nodes import Nodes
from gpu_cluster.rehearsal.nodes.scalers import KeptTemplates
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.report.report import node_lives, pod_lives
from gpu_cluster.rehearsal.simulators.cloud import (
    Cloud,
    NodeGroup,
    RefusedError,
    Wanted,
    storage_class,
)
from tests.unit.rehearsal.rehearsed import Object, group, node, pod

ONE = group(min_nodes=1, target_nodes=1)


class PromptScheduler:
    """An API server with one ready node, whose scheduler is faster than its own answers: a pod is
    bound, and seen to be, before the request that offers the GPU returns."""

    def __init__(self) -> None:
        self.event_log = EventLog()
        self.cluster_cache = ClusterCache(self.event_log)
        self._ended = threading.Event()
        self.offered = threading.Event()
        self.node = node("n1", ONE, gpus=0, **{GROUP: ONE.name})
        self.node["metadata"].update(resourceVersion="1", uid="n1")

    def get(self, path: str) -> Object:
        items = [self.node] if path == KINDS["Node"] else []
        return {"metadata": {"resourceVersion": "1"}, "items": items}

    def watch(self, path: str, version: str) -> Iterator[Object]:
        self._ended.wait()
        return iter(())

    def patch(self, path: str, body: Object, kind: str = "") -> Object:
        self.cluster_cache.change("Pod", "ADDED", pod(on="n1"))
        self._ended.wait(0.1)
        self.offered.set()
        return body

    def end(self) -> None:
        self._ended.set()


class OneGroup:
    """A cloud that keeps one node."""

    def on_change(self, callback: Any) -> None: ...

    def node_groups(self) -> list[NodeGroup]:
        return [ONE]

    def set_size(self, group: str, nodes: int) -> None: ...


@contextmanager
def running(
    api: PromptScheduler, cloud: OneGroup, updating: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Nodes without an autoscaler, until the block ends."""
    names = ("install", "sync", "stop")
    idle = SimpleNamespace(**dict.fromkeys(names, lambda *_: None))
    nodes = Nodes(
        cast("LocalControlPlane", SimpleNamespace(api=api, kubeconfig=None)),
        cast("Cloud", cloud),
        cast("Autoscaler", idle),
        api.cluster_cache,
        api.event_log,
        updating=updating,
    )
    nodes.start()
    try:
        yield
    finally:
        api.end()
        nodes.stop()


def test_a_pod_that_gets_the_gpu_at_once_did_not_get_it_too_early() -> None:
    """The offer is on record before anything can come of it."""
    api = PromptScheduler()
    with running(api, OneGroup()):
        assert api.offered.wait(10)
        (life,), (given,) = node_lives(api.event_log.events), pod_lives(api.event_log.events)
    assert given.bound is not None
    assert life.gpus_at is not None
    assert life.gpus_at <= given.bound


class RetaggedGroup(OneGroup):
    """It counts the turns that look at it."""

    def __init__(self) -> None:
        self.turns: queue.SimpleQueue[None] = queue.SimpleQueue()

    def node_groups(self) -> list[NodeGroup]:
        self.turns.put(None)
        return [ONE]


class RefusingGroup(OneGroup):
    """It starts no node."""

    def node_groups(self) -> list[NodeGroup]:
        return [replace(ONE, min_nodes=0, target_nodes=0)]

    def set_size(self, group: str, nodes: int) -> None:
        raise RefusedError("no capacity")


class Registered(PromptScheduler):
    """Its node is the autoscaler's, registered and ready."""

    def __init__(self) -> None:
        super().__init__()
        self.node["metadata"]["annotations"] = {}
        self.node["metadata"]["labels"] |= {
            "karpenter.sh/nodepool": ONE.name, "karpenter.sh/registered": "true"
        }  # fmt: skip
        self.node["spec"]["taints"].append(STARTING)
        self.patches: list[Object] = []
        self.deleted = threading.Event()

    def patch(self, path: str, body: Object, kind: str = "") -> Object:
        self.patches.append(body)
        return body

    def delete(self, path: str) -> None:
        self.deleted.set()


def test_a_node_that_the_cloud_refuses_never_accepts_pods() -> None:
    """It is starting until the cloud has been asked for it."""
    api = Registered()
    with running(api, RefusingGroup()):
        assert api.deleted.wait(10)
    assert [patch for patch in api.patches if "taints" in patch.get("spec", {})] == []


def test_a_pod_is_seen_only_after_its_event() -> None:
    """Otherwise a node could be given its GPUs before the plugin's pod ran, by the log."""
    event_log = EventLog()
    cluster_cache = ClusterCache(event_log)
    reader = threading.Thread(target=lambda: cluster_cache.pods)
    waits: list[bool] = []

    def read(event: object) -> None:
        reader.start()
        reader.join(0.2)
        waits.append(reader.is_alive())

    event_log.listen(read)
    cluster_cache.change("Pod", "ADDED", pod(on="n1", phase="Running"))
    assert waits == [True]
    reader.join()


@pytest.mark.parametrize("restarted", [True, False])
def test_what_an_autoscaler_misses_is_judged_when_the_update_is_over(
    restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update writes the tags first, and then restarts the autoscaler that keeps the template."""
    missed = [replace(ONE, outdated="misses a label")]
    current = [missed]
    monkeypatch.setattr(KeptTemplates, "applied", lambda *_: current[0])
    api, cloud, over = PromptScheduler(), RetaggedGroup(), threading.Event()

    def turns(number: int) -> None:
        while not cloud.turns.empty():
            cloud.turns.get()
        for _ in range(number):
            cloud.turns.get(timeout=10)

    with running(api, cloud, lambda: not over.is_set()):
        turns(3)
        if restarted:
            current[0] = [ONE]
            turns(2)
        api.event_log.record("step", "pulumi up", "ended")
        over.set()
        turns(3)
    told = [(event.kind, event.what) for event in api.event_log.events
            if event.kind in ("step", "finding")]  # fmt: skip
    finding = [] if restarted else [("finding", "pool train-gpu: misses a label")]
    assert told == [("step", "ended"), *finding]


class BusyCloud(OneGroup):
    """It makes a claim's disk; then its node groups take long, and a node of theirs is gone."""

    def __init__(self) -> None:
        self.attached = threading.Event()
        self.waiting = threading.Event()
        self.free = threading.Event()
        self.disks: list[str] = []

    def attach(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        self.disks = [one.uid for one in wanted]
        self.attached.set()
        return {}

    def storage_classes(self) -> list[dict[str, Any]]:
        return []

    def why_not_provisioned(self, wanted: Wanted) -> str:
        return ""

    def disk_zone(self, handle: str) -> str:
        return ""

    def node_groups(self) -> list[NodeGroup]:
        if self.attached.is_set():
            self.waiting.set()
            self.free.wait(10)
            raise ApiError(404, "NotFound", "nodes n1 not found")
        return super().node_groups()


def test_a_claim_that_goes_right_before_the_cluster_leaves_no_disk() -> None:
    """However busy the machine is: a cloud takes minutes to delete a cluster."""
    api, cloud = PromptScheduler(), BusyCloud()
    claim = {
        "metadata": {"uid": "c", "name": "data", "namespace": "default"},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "at-once"},
    }
    at_once = storage_class("at-once", "kubernetes.io/gce-pd", waits=False)
    api.cluster_cache.change("StorageClass", "ADDED", at_once)
    api.cluster_cache.change("PersistentVolumeClaim", "ADDED", claim)
    with running(api, cloud):
        assert cloud.waiting.wait(10)
        assert cloud.disks == ["c"]
        api.cluster_cache.change("PersistentVolumeClaim", "DELETED", claim)
        threading.Timer(0.2, cloud.free.set).start()
    assert cloud.disks == []


def test_a_node_goes_with_its_instance() -> None:
    """Whoever ends an instance ends that node; one without an instance yet gets a free one."""
    nodes = [
        {"metadata": {"name": name}, "spec": {"providerID": identity} if identity else {}}
        for name, identity in (("a", "aws:///z/i-1"), ("b", "aws:///z/i-2"), ("c", ""))
    ]
    group_ = group(instances=("aws:///z/i-2", "aws:///z/i-3"))
    stay, ended, ids = by_instance(nodes, group_)
    assert [node["metadata"]["name"] for node in stay] == ["b", "c"]
    assert [node["metadata"]["name"] for node in ended] == ["a"]
    assert ids == {"c": "aws:///z/i-3"}


def test_a_node_stays_where_the_cloud_names_no_machine() -> None:
    """GKE's nodes bring a provider id of their own; nobody says which of them should be there."""
    node = {"metadata": {"name": "a"}, "spec": {"providerID": "gce://p/z/a"}}
    assert by_instance([node], group(instances=None)) == ([node], [], {})


class SurgingCloud(OneGroup):
    """Of its three nodes, one goes with the last old one, which an upgrade recycles."""

    def __init__(self) -> None:
        self.group = group(target_nodes=3, revision=1, surging=1)

    def left(self, name: str, machine: str) -> None:
        self.group = replace(self.group, target_nodes=2, surging=0)


def test_the_last_old_node_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other is deleted for it in the turns before it is seen to be gone."""
    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
    deleted = list[str]()
    api = SimpleNamespace(
        patch=lambda *_: {}, delete=deleted.append, create=lambda *_: pytest.fail("one more node")
    )
    cloud, event_log = SurgingCloud(), EventLog()
    nodes = Nodes(
        cast("LocalControlPlane", SimpleNamespace(api=api)), cast("Cloud", cloud),
        cast("Autoscaler", None), ClusterCache(event_log), event_log,
    )  # fmt: skip
    nodes.start()
    names = ("old", "new", "newer")
    nodes._nodes = [node(name, cloud.group, **{GROUP: cloud.group.name}) for name in names]
    for one in nodes._nodes:
        one["metadata"].update(resourceVersion="1", uid="1")
    nodes._recycler._revisions = {"old": 0}
    for _ in range(3):
        nodes._reconcile({cloud.group.name: cloud.group})
    assert (cloud.group.target_nodes, deleted) == (2, ["/api/v1/nodes/old"])


class ShrinkingCloud(OneGroup):
    """A cloud that keeps a node more than the minimum."""

    def node_groups(self) -> list[NodeGroup]:
        return [group(target_nodes=1, autoscaled=True)]

    def release(self, group: str, machine: str) -> None: ...


class DeletingApi(PromptScheduler):
    """An API server with an idle node, that says when it was deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.node["status"]["allocatable"] = dict(ONE.node.capacity)
        self.deleted = threading.Event()

    def patch(self, path: str, body: Object, kind: str = "") -> Object:
        return body

    def delete(self, path: str) -> None:
        self.deleted.set()


def test_a_node_that_the_autoscaler_removes_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a later node of its pool would be its successor, and the rehearsal would fail."""
    monkeypatch.setattr(scale_down, "UNNEEDED_SECONDS", 0.0)
    api = DeletingApi()
    with running(api, ShrinkingCloud()):
        assert api.deleted.wait(10)
        (life,) = node_lives(api.event_log.events)
    assert life.reason == "scaled in"


class ForgetfulKwok(PromptScheduler):
    """Its node is KWOK's, which never begins with the pod that is bound there."""

    def __init__(self) -> None:
        super().__init__()
        self.node["metadata"]["annotations"] |= kwok.MANAGED
        self.told = threading.Event()

    def patch(self, path: str, body: Object, kind: str = "") -> Object:
        if "/pods/" in path:
            self.told.set()
            return body
        return super().patch(path, body, kind)


def test_the_nodes_thread_tells_kwok(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise nobody would look at the pod for minutes."""
    monkeypatch.setattr(kwok, "PASSED_OVER_SECONDS", 0.0)
    api = ForgetfulKwok()
    with running(api, OneGroup()):
        assert api.told.wait(10)


def test_kwok_is_told_of_a_pod_that_it_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has had its time, and again, also of one whose init containers it began; not of one
    that runs, nor of another kubelet's or one without a node."""
    now, told = [0.0], list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    api = SimpleNamespace(patch=lambda path, body: told.append(path))
    passed_over = kwok.PassedOver(lambda: cast("Any", api))
    simulated, real = node("n1", ONE, **kwok.MANAGED), node("n2", ONE)
    begun = pod("begun", on="n1")
    begun["status"]["startTime"] = "2026-01-01T00:00:00Z"
    runs = pod("runs", on="n1", phase="Running")
    pods = [pod("late", on="n1"), pod("theirs", on="n2"), pod("unbound"), begun, runs]
    found = []
    for second in (0, 4, 6, 8, 12):
        now[0] = second
        passed_over.turn([simulated, real], pods)
        found.append(len(told))
    assert found == [0, 0, 2, 2, 4]
    assert {path.rpartition("/")[2] for path in told} == {"late", "begun"}
