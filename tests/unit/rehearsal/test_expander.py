"""The order in which a simulated Cluster Autoscaler grows node groups, and its backoff."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.components.eks.autoscaler import priorities
from gpu_cluster.rehearsal.nodes.autoscaler import pool_weights
from gpu_cluster.rehearsal.nodes.expander import Backoff, disordered, ordered
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, Scaler
from tests.unit.rehearsal.rehearsed import group, shape

SCALER = Scaler(
    namespace="kube-system", service_account="ca", discovers=(), expanders=("priority", "random")
)
GROUPS = [group(f"l4_{way}", known_as=f"eks-l4_{way}-1f") for way in ("on-demand", "spot")]
SMALL = group("cpu", known_as="eks-cpu-1f", template=shape(labels={"pool": "cpu"}, gpus=0))
OTHER = group("a100", known_as="eks-a100-1f")


def placed(priorities: str | None, scaler: Scaler = SCALER) -> list[NodeGroup]:
    """The groups, with what the ConfigMap says."""
    data = {} if priorities is None else {"priorities": priorities}
    maps = {"kube-system/cluster-autoscaler-priority-expander": {"data": data}}
    return ordered([*GROUPS, OTHER], [scaler], maps)


def ranks(found: list[NodeGroup]) -> list[int | None]:
    return [one.choice and one.choice.rank for one in found]


def test_the_largest_number_is_tried_first() -> None:
    """As numbers, not as text; a group that no expression matches comes last."""
    found = placed("10: [^eks-l4_spot-]\n9: [l4_on]\n")
    assert ranks(found) == [1, 0, 2]
    (spot, demand) = (one.choice for one in found[:2])
    assert spot is not None
    assert demand is not None
    assert spot.of == demand.of


def test_a_group_that_matches_goes_before_all_that_do_not() -> None:
    """However small those are; under the largest number, they go first."""
    order = "2: [^eks-l4_spot-]\n1: [^eks-l4_on-demand-]\n"

    def first(priorities: str) -> list[str]:
        maps = {"kube-system/cluster-autoscaler-priority-expander":
                {"data": {"priorities": priorities}}}  # fmt: skip
        weights = pool_weights(ordered([SMALL, *GROUPS], [SCALER], maps))
        return sorted(weights, key=lambda name: -weights[name])

    assert first(order) == ["l4_spot", "l4_on-demand", "cpu"]
    assert first("3: ['^[^_]*$']\n" + order) == ["cpu", "l4_spot", "l4_on-demand"]
    assert first(priorities([["l4_spot", "l4_on-demand"]])) == ["cpu", "l4_spot", "l4_on-demand"]


def test_only_the_priority_expander_reads_the_order() -> None:
    """Another one chooses by size."""
    plain = Scaler(
        namespace="kube-system", service_account="ca", discovers=(), expanders=("least-waste",)
    )
    assert ranks(placed("10: [spot]", plain)) == [None, None, None]


@pytest.mark.parametrize("priorities", [None, "", "spot", "high: [spot]", "10: ['(']"])
def test_without_a_valid_order_no_group_is_left_out(priorities: str | None) -> None:
    """The expanders after it choose among all of them, and the report names the ConfigMap."""
    assert placed(priorities) == [*GROUPS, OTHER]
    data = {} if priorities is None else {"priorities": priorities}
    (line,) = disordered([*GROUPS, SMALL], [SCALER], lambda *_: {"data": data})
    assert line == (
        "Cluster Autoscaler kube-system/ca: its expander is priority, and ConfigMap kube-system/"
        "cluster-autoscaler-priority-expander has no valid priorities, so it tries l4_on-demand, "
        "l4_spot in no particular order"
    )


def test_an_order_is_missed_only_if_there_is_a_choice() -> None:
    """Nor by an autoscaler with another expander."""
    plain = replace(SCALER, expanders=("least-waste",))
    assert disordered(GROUPS, [plain], lambda *_: None) == []
    assert disordered([SMALL, GROUPS[0]], [SCALER], lambda *_: None) == []
    data = {"priorities": priorities([["l4_spot", "l4_on-demand"]])}
    assert disordered(GROUPS, [SCALER], lambda *_: {"data": data}) == []


def test_a_group_that_failed_is_left_alone_twice_as_long_each_time() -> None:
    """5, 10, 20, then 30 minutes, a tenth of it here; failures meanwhile change nothing."""
    clock = [1000.0]
    backoff = Backoff(now=lambda: clock[0])
    held: list[Any] = []
    for _ in range(5):
        backoff.failed("g")
        began = clock[0]
        assert not backoff.over()
        while backoff.holds("g"):
            backoff.failed("g")
            clock[0] += 1
        assert backoff.over()
        assert not backoff.over()
        held.append(clock[0] - began)
    assert held == [30, 60, 120, 180, 180]
