"""Whether a pod fits a node's shape, in the words of a diagnosis."""

from typing import Any

import pytest

from gpu_cluster.rehearsal.nodes.matching import mismatches
from tests.unit.rehearsal.rehearsed import GPU, pod, shape

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def lines(**spec: Any) -> list[str]:
    """What keeps such a pod from a node with one T4, 4 cores and 15 Gi."""
    return mismatches(pod(**spec)["spec"], shape())


def affinity(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def wants(operator: str, *values: str, key: str = "cores") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def asks(**amounts: str) -> dict[str, Any]:
    return {"resources": {"requests": amounts}}


def test_a_pod_that_fits_has_no_line() -> None:
    """Selector, toleration and one GPU."""
    assert lines() == []
    assert lines(affinity=affinity(wants("Gt", "1"), wants("DoesNotExist"))) == []


@pytest.mark.parametrize(
    ("terms", "line"),
    [
        ((wants("Gt", "1"),), "label cores Gt (1), a node there has no label cores"),
        ((), "something that no node has: it has no readable terms"),
        (({},), "something that no node has: it has no readable terms"),
        ((wants("In", "a"), {}), "label cores In (a), a node there has no label cores"),
    ],
)
def test_an_affinity_that_no_node_meets_is_said(terms: tuple[Any, ...], line: str) -> None:
    """In the pod's own words; a term without requirements selects nothing, and is no way out."""
    assert lines(affinity=affinity(*terms)) == [f"its node affinity requires {line}"]


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"containers": [asks(cpu="2E")]}, "it requests 2e+18 cpu, and a node there has 4"),
        ({"containers": [asks(memory="16Gi")]},
         "it requests 16 Gi of memory, and a node there has 15Gi"),
        ({"containers": [asks(cpu="3")], "initContainers": [{**asks(cpu="2"),
                                                             "restartPolicy": "Always"}]},
         "it requests 5 cpu, and a node there has 4"),
        ({"containers": [asks(cpu="3")], "overhead": {"cpu": "1500m"}},
         "it requests 4.5 cpu, and a node there has 4"),
        ({"containers": [{"resources": {"limits": {GPU: "2"}}}]},
         f"it requests 2 {GPU}, and a node there has 1"),
        ({"containers": [asks(cpu="500u")], "initContainers": [asks(cpu="5")]},
         "it requests 5 cpu, and a node there has 4"),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_what_the_scheduler_holds(spec: dict[str, Any], line: str) -> None:
    """Sidecars, init containers and overhead count; each form of a quantity is read."""
    assert lines(**spec) == [line]
