"""The workers of a JobSet: a node each, and nobody else who reaches them."""

from typing import Any

import pytest

from gpu_cluster.rehearsal.report.report import PodLife
from gpu_cluster.rehearsal.verify.workers import crowded, reachable
from tests.unit.rehearsal.rehearsed import GPU, pod

OWN = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": "ddp"}}
REACHED = "training job default/ddp: every pod of the cluster reaches port 29500 of its workers: "


def worker(number: int, on: str, attempt: int = 0, phase: str = "Running") -> dict[str, Any]:
    limits = {"limits": {GPU: "1"}}
    container = {"name": "c", "ports": [{"containerPort": 29500}], "resources": limits}
    made = pod(f"ddp-{number}", owner=("Job", "ddp-workers-0"), on=on, phase=phase)
    made["spec"]["containers"] = [container]
    made["metadata"]["labels"] = {
        "jobset.sigs.k8s.io/jobset-name": "ddp",
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
    }
    return made


def policy(ingress: list[Any] | None = None, **spec: Any) -> dict[str, Any]:
    given = {
        "podSelector": OWN,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": OWN}]}] if ingress is None else ingress,
    }
    return {"metadata": {"name": "ddp", "namespace": "default"}, "spec": {**given, **spec}}


def test_two_workers_on_a_node_are_named() -> None:
    """Those of an earlier attempt may have been there, and other pods are nobody's business."""
    assert crowded([worker(0, "a"), worker(1, "b"), pod("x", on="a")]) == []
    assert crowded([worker(0, "a"), worker(1, "a", attempt=1)]) == []
    assert crowded([worker(0, "a", phase="Failed"), worker(1, "a")]) == []
    assert crowded([worker(0, "a", phase="Succeeded"), worker(1, "a")]) == [
        "training job default/ddp: 2 of its workers were on node a, but each needs its own node"
    ]


@pytest.mark.parametrize(("second", "shared"), [(4.0, True), (5.0, False)])
def test_one_worker_after_the_other_shares_no_node(second: float, shared: bool) -> None:
    """A simulated one waits for no other, and its node is free for the next."""
    times = [(0, 1.0, 5.0), (1, second, None)]
    lives = [
        PodLife(name=f"default/ddp-{number}", workload="Job default/ddp-workers-0", gpus=1,
                created=0.0, bound=bound, done=done)
        for number, bound, done in times
    ]  # fmt: skip
    pods = [worker(0, "a", phase="Succeeded"), worker(1, "a")]
    assert bool(crowded(pods, lives)) is shared


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        ([policy()], []),
        ([policy(podSelector={"matchExpressions": [
            {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]})], []),
        ([], [f"{REACHED}no NetworkPolicy selects them"]),
        ([policy(policyTypes=["Egress"])], [f"{REACHED}no NetworkPolicy selects them"]),
        ([policy(podSelector={"matchLabels": {"app": "other"}})],
         [f"{REACHED}no NetworkPolicy selects them"]),
        ([policy([{}])], ["training job default/ddp: its NetworkPolicy admits others than its own "
                          "workers to port 29500"]),
        ([policy([{"from": [{"podSelector": OWN, "namespaceSelector": {}}]}])],
         ["training job default/ddp: its NetworkPolicy admits others than its own workers to port "
          "29500"]),
        ([policy([])], []),
    ],
    ids=["own", "all job sets", "none", "egress", "others", "anybody", "anywhere", "nobody"],
)  # fmt: skip
def test_workers_that_others_reach_are_named(policies: list[Any], said: list[str]) -> None:
    """Whoever connects to torchrun's store runs code."""
    assert reachable([worker(0, "a"), worker(1, "b")], policies) == said
