"""Which half-empty GPU nodes an autoscaler drains, and which pods keep their node."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.rehearsal.nodes import scale_down
from gpu_cluster.rehearsal.nodes.node_registration import GROUP
from gpu_cluster.rehearsal.nodes.scale_down import Rules, Sustained, evictable, keeps, unneeded
from gpu_cluster.rehearsal.nodes.scalers import rules
from gpu_cluster.rehearsal.simulators.cloud import Choice
from tests.unit.rehearsal.rehearsed import group, node, pod, shape
from tests.unit.rehearsal.test_scalers import autoscaler

FOUR = group(template=shape(gpus=4))
JOB = ("Job", "train")
STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def added(name: str) -> dict[str, Any]:
    """A node with four GPUs that the autoscaler added."""
    made = node(name, FOUR)
    made["metadata"]["labels"]["karpenter.sh/nodepool"] = "train-gpu"
    return made


def running(on: str, gpus: int, owner: tuple[str, str] | None = JOB, **metadata: Any) -> Any:
    made = pod(f"{on}-{gpus}", owner=owner, on=on, phase="Running", gpus=gpus)
    made["metadata"].update(metadata)
    return made


def drained(*pods: Any, rules: Rules = Rules(), of: Any = FOUR) -> list[str]:  # noqa: B008
    nodes = [added("a"), added("b")]
    return [each.node["metadata"]["name"] for each in unneeded([of], nodes, pods, rules)]


def test_a_node_with_less_than_half_of_its_gpus_in_use_is_drained() -> None:
    """Cluster Autoscaler's threshold is 0.5, of the GPUs alone, and the pods fit on the other."""
    assert drained(running("a", 1), running("b", 2)) == ["a"]
    assert drained(running("a", 2), running("b", 2)) == []
    assert drained(running("a", 1), running("b", 1)) == ["a", "b"]
    assert drained(running("a", 1), running("b", 4)) == []  # no room
    assert drained(running("a", 1), running("b", 2), rules=Rules(threshold=0.2)) == []
    assert drained(running("a", 1), running("b", 2), of=group(template=FOUR.node, min_nodes=2)) == (
        []
    )


@pytest.mark.parametrize(
    ("changes", "busy", "goes"),
    [
        ({"target_nodes": 2, "min_nodes": 1}, [], ["a", "b"]),
        ({"target_nodes": 2, "min_nodes": 1}, ["a"], ["b"]),
        ({"target_nodes": 2, "min_nodes": 1}, ["a", "b"], []),
        ({"target_nodes": 2, "min_nodes": 2}, [], []),
        ({"target_nodes": 2, "min_nodes": 1, "autoscaled": False}, [], []),
        ({"target_nodes": 2, "min_nodes": 1, "surging": 1}, [], []),
        ({"target_nodes": 2, "min_nodes": 1, "unscaled": "nobody does"}, [], []),
    ],
)
def test_an_idle_node_above_the_minimum_goes(
    changes: dict[str, Any], busy: list[str], goes: list[str]
) -> None:
    """Also one that the cloud itself started: GKE begins with as many in each zone."""
    pool = group(template=shape(gpus=4), max_nodes=4, **changes)
    nodes = [node(name, pool, **{GROUP: pool.name}) for name in ("a", "b")]
    pods = [running(name, 1) for name in busy]
    found = unneeded([pool], nodes, pods, Rules())
    assert [each.node["metadata"]["name"] for each in found] == goes
    assert not any(each.finding() for each in found)


@pytest.mark.parametrize(
    ("metadata", "stays"),
    [
        ({}, False),
        ({"annotations": STAYS}, True),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, False),
        ({"ownerReferences": []}, True),
        ({"namespace": "kube-system"}, True),
        (
            {
                "ownerReferences": [],
                "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
            },
            False,
        ),
    ],
    ids=["plain", "annotated", "Karpenter's own", "on its own", "system", "may go"],
)
def test_some_pods_keep_their_node(metadata: dict[str, Any], stays: bool) -> None:
    """As Cluster Autoscaler's FAQ lists them; Karpenter's annotation says nothing to it."""
    assert keeps(running("a", 1, **metadata), Rules()) == stays
    assert (drained(running("a", 1, **metadata), running("b", 2)) == []) == stays


def test_local_storage_keeps_a_node_only_where_the_autoscaler_says_so() -> None:
    """Its flag's default is yes, this program's own says no, and memory is no disk."""
    made = running("a", 1)
    made["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    assert keeps(made, Rules(local_storage_stays=True))
    assert not keeps(made, Rules())
    made["spec"]["volumes"] = [{"name": "v", "emptyDir": {"medium": "Memory"}}]
    assert not keeps(made, Rules(local_storage_stays=True))


def test_the_rules_are_those_of_the_autoscaler_that_runs() -> None:
    """On GKE none runs in the cluster."""
    assert rules([]) == Rules(threshold=0.5, local_storage_stays=False)
    flags = ["--scale-down-gpu-utilization-threshold=0.4", "--skip-nodes-with-local-storage=false"]
    assert rules([autoscaler(args=flags)]) == Rules(threshold=0.4, local_storage_stays=False)
    assert rules([autoscaler()]) == Rules(threshold=0.5, local_storage_stays=True)


def test_only_what_lasts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is only just half empty may get its next pod at once; a gap restarts the time."""
    clock = iter([0.0, 5.0, 6.0, 7.0])
    monkeypatch.setattr(scale_down.time, "monotonic", lambda: next(clock))
    sustained = Sustained[str](5.0)
    assert sustained.first({"a": "A"}) is None
    assert sustained.first({"b": "B", "a": "A"}) == "A"
    assert [sustained.first({"b": "B"}), sustained.first({"b": "B", "a": "A"})] == [None, None]


def test_the_jobs_on_a_drained_node_are_named() -> None:
    """Only a job loses its progress."""
    pods, nodes = [running("a", 1), running("b", 2)], [added("a"), added("b")]
    found, *_ = unneeded([FOUR], nodes, pods, Rules())
    assert found.finding() == (
        "pool train-gpu: the autoscaler drained node a, of which 1 of 4 GPUs were in use, and "
        "evicted the running Job default/train: without the annotation "
        'cluster-autoscaler.kubernetes.io/safe-to-evict: "false" a job loses its progress'
    )
    serving = [running("a", 1, ("ReplicaSet", "sample-abc")), running("b", 2)]
    assert unneeded([FOUR], nodes, serving, Rules())[0].finding() is None


def test_a_job_that_could_be_evicted_is_named_before_it_is() -> None:
    """Whether or not the autoscaler drains its node while somebody looks."""
    small, large = running("a", 1), running("b", 2)
    nodes = [added("a"), added("b")]
    (line,) = evictable([FOUR], nodes, [small, large], Rules())
    assert line == (
        "pool train-gpu: Job default/train requests 1 of a node's 4 GPUs, and the autoscaler "
        "may evict its running pods if they fit on another node: it lacks the annotation "
        'cluster-autoscaler.kubernetes.io/safe-to-evict: "false"'
    )
    assert evictable([FOUR], nodes, [running("a", 1, annotations=STAYS), large], Rules()) == []


DISRUPTED = "Karpenter may evict its running pods if their node has drifted or they fit elsewhere"
EVICTED = "the autoscaler may evict its running pods if they fit on another node"
SPOT_AUTOPILOT = {"autopilot": True, "auto_provisioned": True, "spot": True}


@pytest.mark.parametrize("spot", [False, True], ids=["on demand", "Spot"])
@pytest.mark.parametrize(
    ("fields", "annotation", "gpus", "found"),
    [
        ({}, "cluster-autoscaler.kubernetes.io/safe-to-evict=false", 1, EVICTED),
        ({}, "cluster-autoscaler.kubernetes.io/safe-to-evict=false", 2, None),
        # A compute class of GKE Standard.
        (
            {"auto_provisioned": True},
            "cluster-autoscaler.kubernetes.io/safe-to-evict=false",
            1,
            EVICTED,
        ),
        ({"machines": ()}, "karpenter.sh/do-not-disrupt=true", 1, DISRUPTED),
        ({"machines": ()}, "karpenter.sh/do-not-disrupt=true", 4, DISRUPTED),
    ],
)
def test_each_scaler_has_its_own_annotation(
    fields: dict[str, Any], annotation: str, gpus: int, found: str | None, spot: bool
) -> None:
    """Karpenter also replaces full nodes, and no other scaler's annotation means anything to it."""
    pool, there = group(template=shape(gpus=4), spot=spot, **fields), added("a")
    there["metadata"]["annotations"] = {GROUP: pool.name}
    lines = evictable([pool], [there], [running("a", gpus)], Rules())
    assert [found in line for line in lines] == [True] * bool(found)
    key, _, value = annotation.partition("=")
    assert all(f'{key}: "{value}"' in line for line in lines)
    protected = running("a", gpus, annotations={key: value})
    assert evictable([pool], [there], [protected], Rules()) == []


def test_nothing_protects_a_spot_pod_of_autopilot() -> None:
    """It is admitted without the annotation only, so its eviction is nobody's mistake. A class that
    may start Spot nodes or others has the same pods on both."""
    spot = group(template=shape(gpus=4), **SPOT_AUTOPILOT)
    nodes, pods = [added("a"), added("b")], [running("a", 1), running("b", 2)]
    assert evictable([spot], nodes, pods, Rules()) == []
    assert [one.finding() for one in unneeded([spot], nodes, pods, Rules())] == [None]
    first = replace(spot, spot=False, choice=Choice(of="class", rank=0, migrates=False))
    assert evictable([first], nodes, pods, Rules()) != []
    later = replace(spot, name="later", choice=Choice(of="class", rank=1, migrates=False))
    assert evictable([first, later], nodes, pods, Rules()) == []
