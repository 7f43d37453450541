"""What a rehearsal makes of views of the cluster that are not of the same moment."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_cluster.rehearsal import scenario
from gpu_cluster.rehearsal.control_plane.cluster_cache import ClusterCache
from gpu_cluster.rehearsal.control_plane.watch import Change
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.rehearsal.scenario import Failure, Rehearsal
from tests.unit.rehearsal.rehearsed import group

LINE = "default/p asks for 1 nvidia.com/gpu on node n1 of pool a, which has 0"


@pytest.fixture
def rehearsal(monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    """On a cluster without pods."""
    monkeypatch.setattr(scenario, "settle_seconds", lambda: 0.3)
    sandbox = SimpleNamespace(cluster_cache=SimpleNamespace(pods=[]))
    return Rehearsal(sandbox=cast("Sandbox", sandbox))


def test_a_node_that_is_seen_later_than_its_pod_is_no_failure(
    rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind has a watch of its own, and one of them may be behind."""
    views = iter([[LINE], [LINE], []])
    monkeypatch.setattr(Rehearsal, "_misplaced", lambda self: next(views))
    assert rehearsal._placement_verified().startswith("0 GPU pods")


@pytest.mark.parametrize(
    ("changes", "fewest"), [({}, 1), ({"unscaled": "nobody does"}, 2), ({"autoscaled": False}, 2)]
)
def test_what_a_pool_began_with_does_not_stay(changes: dict[str, Any], fewest: int) -> None:
    """Where an autoscaler may remove it, only the minimum is left in the end."""
    assert scenario._fewest(group(min_nodes=1, target_nodes=2, **changes)) == fewest


class LateNodes:
    """A cluster with a node whose watch is some steps behind the API server and the pods' watch."""

    def __init__(self, steps: Sequence[str], *, gpus: int = 1) -> None:
        self._steps = iter(steps)
        self._node = {
            "metadata": {"name": "n1"},
            "spec": {},
            "status": {
                "allocatable": {"nvidia.com/gpu": str(gpus)},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        self.event_log = EventLog()
        self.cluster_cache = ClusterCache(self.event_log)
        self.cluster_cache.change("Node", "ADDED", {**self._node, "status": {}})
        self.control_plane = SimpleNamespace(api=self)
        self.event_log.record(
            "pod", "default/p", "succeeded", workload="Job default/p", gpus=1, node="n1", part=None
        )

    def items(self, path: str) -> list[dict[str, Any]]:
        """What the API server lists; the watch goes a step on with each question."""
        assert path == "/api/v1/nodes"
        step = next(self._steps)
        if step in ("MODIFIED", "DELETED"):
            self.cluster_cache.change("Node", cast("Change", step), self._node)
        return [self._node] if step in ("nothing", "MODIFIED") else []


@pytest.mark.parametrize(
    ("steps", "gpus", "remembered"),
    [
        (["nothing", "nothing", "MODIFIED"], 1, ["n1"]),
        (["nothing", "gone", "MODIFIED"], 1, ["n1"]),
        (["nothing", "gone", "DELETED"], 1, []),
        (["nothing"], 0, []),
    ],
)
def test_workloads_have_run_once_their_nodes_are_seen(
    steps: list[str], gpus: int, remembered: list[str]
) -> None:
    """A node of the update that is seen too late would be missing from what is compared with it. It
    may be gone when it is looked at, or never have had GPUs."""
    sandbox = LateNodes(steps, gpus=gpus)
    Rehearsal(sandbox=cast("Sandbox", sandbox))._wait_for([])
    assert list(sandbox._steps) == []
    nodes = sandbox.cluster_cache.gpu_nodes
    assert [node["metadata"]["name"] for node in nodes] == remembered


def test_a_pod_that_stays_misplaced_is_one(
    rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is seen in the end counts."""
    monkeypatch.setattr(Rehearsal, "_misplaced", lambda self: [LINE])
    with pytest.raises(Failure, match="which has 0"):
        rehearsal._placement_verified()
