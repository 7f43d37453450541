"""What a rehearsal makes of views of the cluster that are not of the same moment."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rehearsal import scenario
from rehearsal.sandbox import Sandbox
from rehearsal.scenario import Failure, Rehearsal
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
    ("changes", "fewest"),
    [({}, 1), ({"unscaled": "nobody does"}, 2), ({"autoscaled": False}, 2)],
)
def test_what_a_pool_began_with_does_not_stay(changes: dict[str, Any], fewest: int) -> None:
    """Where an autoscaler may remove it, only the minimum is left in the end."""
    assert scenario._fewest(group(min_nodes=1, target_nodes=2, **changes)) == fewest


def test_a_pod_that_stays_misplaced_is_one(
    rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is seen in the end counts."""
    monkeypatch.setattr(Rehearsal, "_misplaced", lambda self: [LINE])
    with pytest.raises(Failure, match="which has 0"):
        rehearsal._placement_verified()
