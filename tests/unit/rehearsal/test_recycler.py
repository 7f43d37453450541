"""Nodes that are recycled while something keeps their pods."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.nodes import recycler
from gpu_cluster.rehearsal.nodes.recycler import Recycler
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from tests.unit.rehearsal.rehearsed import Object, group, node, pod

OLD = group(min_nodes=1, target_nodes=1)


class Budgeted:
    """An API server with one node, whose pods no eviction is allowed."""

    def __init__(self) -> None:
        self.node = node("n1", OLD)
        self.deleted: list[str] = []

    def patch(self, path: str, body: Object, kind: str = "") -> Object:
        self.node["spec"].update(body["spec"])
        return body

    def create(self, path: str, body: Object) -> Object:
        raise ApiError(429, "TooManyRequests", "Cannot evict pod as it would violate the budget")

    def delete(self, path: str) -> None:
        self.deleted.append(path)


@pytest.fixture
def api() -> Budgeted:
    return Budgeted()


def turns(
    api: Budgeted,
    *revisions: int,
    forced: bool = False,
    surges: bool = False,
    phase: str = "",
    log: EventLog | None = None,
) -> str:
    """A turn for each revision that the group has; how far the last one is. `phase`: another
    pod's."""
    api_of: Any = lambda: api  # noqa: E731
    found = Recycler(api_of, log or EventLog())
    for revision in revisions:
        now = replace(OLD, revision=revision, forced=forced, surges=surges)
        others = [pod("other", phase=phase)] if phase else []
        found.turn(now, [api.node], [pod(on="n1", phase="Running"), *others])
    return found.recycled(OLD.name, revisions[-1])


def test_a_budget_keeps_a_node_until_the_update_fails(api: Budgeted) -> None:
    """Then pods may start on it again."""
    assert turns(api, 0, 1) == "held"
    assert (api.node["spec"]["unschedulable"], api.deleted) == (True, [])
    assert turns(api, 0, 1, 0) == "done"
    assert (api.node["spec"]["unschedulable"], api.deleted) == (None, [])


@pytest.mark.parametrize(
    ("surges", "phase", "found"),
    [(True, "Pending", "going on"), (True, "Running", "held"), (False, "Pending", "held")],
)
def test_a_pod_without_a_node_may_be_what_the_budget_waits_for(
    api: Budgeted, surges: bool, phase: str, found: str
) -> None:
    """Where the cloud would have started its node before."""
    assert turns(api, 0, 1, surges=surges, phase=phase) == found


def test_a_surge_drains_nothing_before_a_new_node_is_there(api: Budgeted) -> None:
    """And as many of the last old nodes have no successor."""
    api_of: Any = lambda: api  # noqa: E731
    old, new = [api.node, *(node(f"n{n}", OLD) for n in (2, 3))], [node("n4", OLD), node("n5", OLD)]
    found, now = Recycler(api_of, EventLog()), replace(OLD, revision=1, surging=2)
    found.turn(OLD, old, [])
    for there in (old, [*old, new[0]]):
        assert (found.turn(now, there, []), api.deleted) == (None, [])
        assert found.recycled(OLD.name, 1) == "starting"
    assert found.turn(now, [*old, *new], []) == (old[0], True)
    assert found.recycled(OLD.name, 1) == "going on"
    assert found.turn(now, [*old[1:], *new, node("n6", OLD)], []) == (old[1], False)
    last = replace(now, surging=1)
    assert found.turn(last, [old[2], *new, node("n6", OLD)], []) == (old[2], False)


def test_a_forced_update_takes_the_node(api: Budgeted, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not before its pods were asked to leave, for as long as the cloud waits for them."""
    assert turns(api, 0, 1, 1, forced=True) == "going on"
    assert api.deleted == []
    monkeypatch.setattr(recycler, "EVICTION_SECONDS", -1)
    turns(api, 0, 1, forced=True, log=(log := EventLog()))
    assert [event.detail["forced"] for event in log.events] == [True]
    assert api.deleted == ["/api/v1/namespaces/default/pods/sample-abc-1", "/api/v1/nodes/n1"]
