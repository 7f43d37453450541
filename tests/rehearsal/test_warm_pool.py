"""A rehearsal of `train` with a warm pool: its node boots ahead of time, and nothing stays."""

from pathlib import Path

import pytest

from tests.rehearsal.conftest import details, pools, whole_life


@pytest.mark.prove(reason="tests/simulators/test_aws_warm_pools.py has each step")
def test_the_node_of_a_job_comes_from_the_warm_pool(tmp_path: Path) -> None:
    """0, 1, 0 nodes; the second up changes nothing; the stopped instances end with the stack."""
    change = pools(warmPool={"maxGroupPreparedCapacity": 1})
    with whole_life("train", tmp_path / "sandbox", change) as rehearsal:
        pass
    events = rehearsal.sandbox.event_log.events
    (start,) = [event for event in events if event.kind == "cloud" and event.what == "warm start"]
    assert start.detail == {"nodes": 1, "left": 0}
    assert "came from its warm pool, where 0 more waited" in details(rehearsal)["workloads run"]
