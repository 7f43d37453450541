"""What Karpenter gets of the groups that a cloud holds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.rehearsal.nodes.autoscaler import (
    Autoscaler,
    instance_types,
    node_pool,
    pool_name,
    reserved,
    types_document,
)
from gpu_cluster.rehearsal.processes import Processes
from tests.unit.rehearsal.rehearsed import GPU, group, shape

TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
N1 = shape(labels={TYPE: "n1-standard-4", ZONE: "us-central1-a", "role": "train-gpu"})


def test_a_machine_type_keeps_its_name_where_it_is_one_size() -> None:
    """Two pools of the same machine share a type with an offering for each zone."""
    other = shape(labels={TYPE: "n1-standard-4", ZONE: "us-central1-b"})
    groups = [group("a", template=N1), group("b", template=other)]
    names = instance_types(groups)
    assert names == {"a": "n1-standard-4", "b": "n1-standard-4"}
    (entry,) = types_document(groups, names)
    assert len(entry["offerings"]) == 2


def test_a_machine_type_with_and_without_gpu_is_two_types() -> None:
    """Karpenter knows one size for each type."""
    plain = shape(labels={TYPE: "n1-standard-4"}, gpus=0)
    groups = [group("a", template=N1), group("b", template=plain)]
    assert instance_types(groups) == {"a": "n1-standard-4.a", "b": "n1-standard-4.b"}


def test_a_pool_is_the_groups_template() -> None:
    """Labels, taints and the one instance type come from the template, not from the node."""
    pool = node_pool(group(template=N1, node=shape(labels={"x": "y"})), "n1-standard-4", None)
    template = pool["spec"]["template"]
    assert template["metadata"]["labels"] == {"role": "train-gpu"}
    assert template["spec"]["taints"] == [{"key": GPU, "value": "present", "effect": "NoSchedule"}]
    assert {"key": ZONE, "operator": "In", "values": ["us-central1-a"]} in template["spec"][
        "requirements"
    ]


@pytest.mark.parametrize(
    ("fields", "frozen", "cpu"),
    [
        ({"max_nodes": 3}, None, "12000m"),
        ({"max_nodes": 3, "target_nodes": 1}, None, "8000m"),
        ({"max_nodes": 3}, 1, "4000m"),
        ({"max_nodes": 1, "target_nodes": 2}, None, "0m"),
    ],
)
def test_the_limit_is_what_the_group_may_still_grow(
    fields: dict, frozen: int | None, cpu: str
) -> None:
    """The cloud's own nodes do not count against it; a refusal freezes it where it is."""
    assert node_pool(group(**fields), "t", frozen)["spec"]["limits"] == {"cpu": cpu}


@pytest.mark.parametrize(
    ("key", "refused"),
    [
        ("role", False),
        ("cloud.google.com/gke-accelerator", False),
        ("k8s.amazonaws.com/accelerator", False),
        ("node.kubernetes.io/exclude-from-external-load-balancers", False),
        (TYPE, True),
        (ZONE, True),
        ("kubernetes.io/hostname", True),
        ("karpenter.sh/capacity-type", True),
    ],
)
def test_labels_that_karpenter_keeps_to_itself_are_left_out(key: str, refused: bool) -> None:
    """It refuses a pool that carries one."""
    assert reserved(key) is refused


def test_a_groups_name_becomes_an_objects_name() -> None:
    """EKS allows capitals and underscores, Kubernetes does not."""
    assert pool_name("Train_GPU") == "train-gpu"


def test_without_a_price_the_smallest_node_is_the_cheapest() -> None:
    """Autopilot's node sizes have no price of their own; Karpenter takes the cheapest that fits."""
    groups = [group(str(gpus), template=shape(gpus=gpus)) for gpus in (1, 2, 4)]
    types = types_document(groups, instance_types(groups))
    prices = [entry["offerings"][0]["Price"] for entry in types]
    assert prices == sorted(set(prices))


class Written:
    """An API that keeps what is written to it, in order."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, Any]] = []

    def apply(self, path: str, manifest: Any) -> Any:
        self.writes.append((path.rpartition("/")[2], manifest))
        return {"metadata": {"creationTimestamp": "2026-11-21T12:00:00Z", "generation": 7}}

    def patch(self, path: str, patch: Any) -> None:
        _, name, what = path.rsplit("/", 2)
        self.writes.append((f"{name}/{what}", patch))


def test_the_first_choice_of_a_pod_is_ready_before_the_second_is_there(tmp_path: Path) -> None:
    """Karpenter ignores pools that are not ready, and would take what is left."""
    groups = [group("spot", spot=True), group("dear", on_demand_per_hour=9.0), group("cheap")]
    groups = [replace(g, on_demand_per_hour=g.on_demand_per_hour or 1.0) for g in groups]
    processes = Processes(tmp_path, "test")
    written: Any = Written()
    autoscaler = Autoscaler(tmp_path, processes, idle=True)
    autoscaler.sync(written, tmp_path / "kubeconfig", groups, {})
    assert [what for what, _ in written.writes] == [
        "cheap", "cheap/status", "spot", "spot/status", "dear", "dear/status",
    ]  # fmt: skip
    conditions = written.writes[1][1]["status"]["conditions"]
    assert {c["type"]: c["status"] for c in conditions} == dict.fromkeys(
        ("Ready", "NodeClassReady", "ValidationSucceeded"), "True"
    )
    assert {c["observedGeneration"] for c in conditions} == {7}
    autoscaler.sync(written, tmp_path / "kubeconfig", groups, {"dear": 0})
    assert [what for what, _ in written.writes[6:]] == ["dear", "dear/status"]
