"""Where simulated nodes are in their cloud's network, and jobs that are not where they must be."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.nodes.nodes import Nodes
from gpu_cluster.rehearsal.simulators.aws import topology as aws
from gpu_cluster.rehearsal.simulators.blocks import sizes
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup
from gpu_cluster.rehearsal.simulators.google import topology as google
from gpu_cluster.rehearsal.verify.topology import scattered
from gpu_cluster.stacks.definition.names import StackError
from tests.unit.rehearsal.rehearsed import pod

BLOCK = "cloud.google.com/gce-topology-block"
LAYER = "topology.k8s.aws/network-node-layer"


def located(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def needing(name: str, on: str, phase: str = "Running") -> dict[str, Any]:
    one_block = {"kueue.x-k8s.io/podset-required-topology": BLOCK}
    return pod(name, owner=("Job", "ddp"), on=on, phase=phase, annotations=one_block)


def test_a_job_whose_pods_are_in_two_blocks_is_named() -> None:
    """So is one on a node of which the cloud does not say where it is; one that failed is not."""
    nodes = [
        located("a", **{BLOCK: "block-1"}),
        located("b", **{BLOCK: "block-2"}),
        located("c", **{BLOCK: "block-2"}),
        located("d"),
    ]
    assert scattered([needing("0", "b"), needing("1", "c"), pod("x", on="a")], nodes) == []
    assert scattered([needing("0", "a", "Failed"), needing("1", "b")], nodes) == []
    assert scattered([needing("0", "a"), needing("1", "b")], nodes) == [
        f"Job default/ddp: its pods must share one {BLOCK}, and are in block-1, block-2"
    ]
    assert scattered([needing("0", "d")], nodes) == [
        f"Job default/ddp: its pods must share one {BLOCK}, and are in none"
    ]


def test_nodes_fill_one_block_after_the_other() -> None:
    """A block whose node has left has room again; each node has a host of its own."""
    nodes = Nodes.__new__(Nodes)
    nodes._blocks, nodes._nodes = {}, []
    nodes._event_log = EventLog()
    group = cast(
        NodeGroup, SimpleNamespace(blocks=google.blocks("a3-megagpu-8g", {"a3-megagpu-8g": [1, 2]}))
    )

    def join(name: str) -> dict[str, str]:
        nodes._nodes = [*nodes._nodes, located(name)]
        return nodes._place(name, group)

    found = [join(f"pool-{number}") for number in range(3)]
    assert [labels[BLOCK] for labels in found] == ["block-1", "block-2", "block-2"]
    assert len({labels["cloud.google.com/gce-topology-host"] for labels in found}) == 3
    nodes._nodes = nodes._nodes[1:]
    assert join("pool-3")[BLOCK] == "block-1"


def test_a_cloud_says_where_only_some_machines_are() -> None:
    """As each has it in its documents; P6 has a fourth layer."""
    assert google.blocks("g2-standard-4", {}) == ()
    assert google.blocks("a3-highgpu-1g", {}) == ()
    east = "us-east-1"
    assert aws.blocks("g6.xlarge", east, {}) == aws.blocks("p5.4xlarge", east, {}) == ()
    assert aws.blocks("p5.48xlarge", "eu-south-1", {}) == ()
    (one,) = aws.blocks("p5.48xlarge", east, {})
    assert one.nodes is None
    assert list(one.labels) == [f"{LAYER}-{layer}" for layer in (1, 2, 3)]
    first, second = aws.blocks("p6-b200.48xlarge", east, {"p6-b200.48xlarge": [1, 1]})
    assert len(first.labels) == 4
    assert first.labels[f"{LAYER}-1"] == second.labels[f"{LAYER}-1"]
    assert first.labels[f"{LAYER}-4"] != second.labels[f"{LAYER}-4"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"machineType": "a3-megagpu-8g", "nodes": [0]}, "blocks[0].nodes: [0] is not a list"),
        (
            {"machineType": "n1-standard-4", "nodes": [1]},
            "'n1-standard-4' is not a machine type whose",
        ),
        (True, "blocks[0]: true does not describe blocks; write them as { machineType: TYPE, "),
        ({"machineType": [], "nodes": [1]}, "blocks[0].machineType: [] is not a machine type"),
    ],
)
def test_a_wrong_block_of_an_inventory_is_refused(tmp_path: Path, row: Any, says: str) -> None:
    """In one line with its path."""
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"blocks": [row]}))
    with pytest.raises(StackError, match=re.escape(says)):
        sizes("s", tmp_path, located=["a3-megagpu-8g"], machine="machineType")
