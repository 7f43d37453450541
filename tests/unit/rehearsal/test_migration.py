"""An order of fallback: which group the autoscaler takes first, and which pods move back."""

from typing import Any

import pytest

from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.nodes.autoscaler import pool_weights
from gpu_cluster.rehearsal.nodes.migration import movable
from gpu_cluster.rehearsal.nodes.scale_down import Rules
from gpu_cluster.rehearsal.simulators.cloud import Choice, NodeGroup
from gpu_cluster.rehearsal.verify.fallbacks import seen
from tests.unit.rehearsal.rehearsed import group, node, pod, shape

STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def choice(name: str, rank: int, **fields: Any) -> NodeGroup:
    """A group of the class `l4`."""
    return group(name, choice=Choice(of="l4", rank=rank, migrates=True), **fields)


SPOT, FLEX, ON_DEMAND = (choice(f"nap-{rank}", rank) for rank in range(3))


def moves(*pods: Any, starts: tuple[str, ...] = ("nap-0",), of: NodeGroup = ON_DEMAND) -> list[str]:
    """Where the pods of a node of the last choice would move to."""
    there = node("a", of)
    there["metadata"]["labels"]["karpenter.sh/nodepool"] = of.name
    groups = [SPOT, FLEX, of]
    found = movable(groups, [there], pods, Rules(), lambda name: name in starts)
    return [one.to for one in found.values()]


def test_the_first_choice_has_the_greatest_weight_whatever_its_size() -> None:
    """Karpenter takes the pool with the greatest weight; by size the small one would be first."""
    large = choice("nap-large", 0, template=shape(gpus=4))
    weights = pool_weights([ON_DEMAND, FLEX, large])
    assert weights["nap-large"] > weights["nap-1"] > weights["nap-2"]


def test_pods_move_to_the_first_choice_that_can_be_had() -> None:
    """If none earlier can, they stay."""
    running = pod("p", on="a", phase="Running")
    assert moves(running) == ["nap-0"]
    assert moves(running, starts=("nap-1",)) == ["nap-1"]
    assert moves(running, starts=()) == []
    assert moves(running, starts=("nap-2",)) == []


@pytest.mark.parametrize("why", ["kept", "alone", "none", "off"])
def test_what_keeps_its_node_does_not_move(why: str) -> None:
    """Nor does an empty node, nor one of a class that does not migrate."""
    owner = None if why == "alone" else ("ReplicaSet", "s")
    stays = STAYS if why == "kept" else {}
    running = pod("p", owner=owner, on="a", phase="Running", annotations=stays)
    fixed = group("nap-2", choice=Choice(of="l4", rank=2, migrates=False))
    of = fixed if why == "off" else ON_DEMAND
    assert moves(*([] if why == "none" else [running]), of=of) == []


def test_the_report_says_what_was_refused_and_how_long_the_next_choice_took() -> None:
    """And where the pods went afterwards."""
    log = EventLog()
    log.record("cloud", "nap-0", "refused", nodes=1, order="l4", choice="nap-0")
    log.record("cloud", "other", "refused", nodes=1, order="a100", choice="other")
    log.record("node", "a", "member", group="nap-2", order="l4", choice="nap-2", added=True)
    log.record("node", "a", "gpus", gpus=1, group="nap-2")
    log.record("node", "a", "moved back", group="nap-2", to="nap-0")
    first, back = seen(log.events)
    assert first.startswith("nap-0 unavailable from ")
    assert "; nap-2 had GPUs " in first
    assert back.startswith("pods moved from nap-2 back to nap-0 at ")
