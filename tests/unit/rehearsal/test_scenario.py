"""What a rehearsal makes of views of the cluster that are not of the same moment."""

from types import SimpleNamespace
from typing import cast

import pytest

from rehearsal import scenario
from rehearsal.sandbox import Sandbox
from rehearsal.scenario import Failure, Rehearsal

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


def test_a_pod_that_stays_misplaced_is_one(
    rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is seen in the end counts."""
    monkeypatch.setattr(Rehearsal, "_misplaced", lambda self: [LINE])
    with pytest.raises(Failure, match="which has 0"):
        rehearsal._placement_verified()
