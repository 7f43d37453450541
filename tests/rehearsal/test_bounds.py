"""A pool's maximum is a bound at every moment, not on the average."""

from typing import Any

import pytest

from gpu_cluster.rehearsal.event_log import Event
from tests.rehearsal.conftest import Sandboxes, configured, updated


def most_at_once(events: list[Event]) -> int:
    """The most GPU nodes that were in the cluster at any time, also those taken back at once."""
    there: set[str] = set()
    most = 0
    for event in events:
        if event.kind == "node" and event.what == "member" and event.detail["gpus"]:
            there.add(event.subject)
        elif event.kind == "node" and event.what in ("left", "taken back"):
            there.discard(event.subject)
        most = max(most, len(there))
    return most


@pytest.mark.xdist_group("running")
def test_no_node_joins_beyond_a_pools_maximum(running: Sandboxes) -> None:
    """Seven pods of a GPU each, six of them at once, and a maximum of three: three nodes join, and
    not one that is taken back."""

    def six(config: dict[str, Any]) -> None:
        (workload,) = config["gpu-cluster:workloads"].values()
        for number in range(6):
            config["gpu-cluster:workloads"][f"more-{number}"] = {**workload, "replicas": 1}
        config["gpu-cluster:gpuPools"]["train-gpu"]["maxNodes"] = 3

    with updated(running("dev"), configured(six), deadline=25) as run:
        events = run.sandbox.event_log.events
        assert [event for event in events if event.what == "taken back"] == []
        assert most_at_once(events) == 3
        assert any("all 3 nodes of its maximum" in line for line in run.failures), run.failures
