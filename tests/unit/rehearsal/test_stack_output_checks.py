"""The output `gpuPools` against nodes: each number that another project would go by."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.rehearsal.nodes.matching import mismatches, shape_of
from gpu_cluster.rehearsal.simulators.cloud import GpuSharing
from gpu_cluster.rehearsal.verify import probes, stack_output_checks
from gpu_cluster.rehearsal.verify.diagnosis import ClusterSnapshot
from tests.unit.rehearsal.rehearsed import (
    GPU,
    SHARING_PLUGIN,
    T4,
    config_map,
    daemon_set,
    group,
    shape,
    sharing_config,
)
from tests.unit.rehearsal.test_assertions import cluster_cache, on_node

SLICED = GpuSharing(strategy="time-slicing", replicas=4, most=1)
POOL = group(gpus=1, sharing=SLICED, template=shape(gpus=4))
EXPORTED = {
    "nodeSelector": T4,
    "tolerations": [{"key": GPU, "operator": "Exists"}],
    "allocatablePerNode": 4,
    "gpusPerNode": 1,
    "gpusPerPod": [1],
}


def broken(of: Any = POOL, *, up: bool = True, **exported: Any) -> list[str]:
    """What is wrong with the output, with one node up, or none."""
    nodes = [on_node("n1", of)] if up else []
    seen = cluster_cache(
        nodes=nodes,
        gpu_nodes=nodes,
        daemon_sets=[daemon_set("plugin", SHARING_PLUGIN)],
        config_maps={"kube-system/shares": config_map(sharing_config())},
    )
    return stack_output_checks.broken(
        {"p": {**EXPORTED, **exported}}, ClusterSnapshot(groups=[of], nodes={}), seen, nodes
    )


START = "output gpuPools.p, pool train-gpu: "


@pytest.mark.parametrize(
    ("exported", "line"),
    [
        ({}, None),
        ({"allocatablePerNode": 1},
         f"allocatablePerNode says 1 {GPU}, but node n1 has 4 allocatable"),
        ({"gpusPerPod": [1, 2]},
         f"gpusPerPod says that a pod may request 2 {GPU}, but the device plugin of node n1 gives "
         "a container at most 1"),
        ({"tolerations": []},
         "tolerations do not tolerate nvidia.com/gpu=present:NoSchedule, which node n1 has"),
        ({"nodeSelector": {"role": "another"}, "allocatablePerNode": 9}, None),
    ],
)  # fmt: skip
def test_the_output_tells_what_a_node_is(exported: dict[str, Any], line: str | None) -> None:
    """Each difference is one line with the pool and the node; other pools' nodes are no matter."""
    assert broken(**exported) == ([START + line] if line else [])


def test_without_a_node_the_output_is_held_against_the_one_that_would_come() -> None:
    """With its GPUs as often as the device plugin's config offers them."""
    own = group(gpus=1, plugin="pod", template=shape(gpus=1))
    assert broken(own, up=False) == []
    (line,) = broken(own, up=False, allocatablePerNode=1)
    assert line == f"{START}allocatablePerNode says 1 {GPU}, but a node has 4 allocatable"


@pytest.mark.parametrize(
    ("exported", "right"),
    [
        ({"allocatablePerNode": 16, "gpusPerNode": 4}, True),
        ({"allocatablePerNode": 4, "gpusPerNode": 4}, False),
    ],
)
def test_on_autopilot_each_gpu_is_shared_alike_whatever_the_nodes_size(
    exported: dict[str, int], right: bool
) -> None:
    """A pool without a count reaches nodes with one GPU, with two and with four."""
    auto = group(gpus=1, sharing=SLICED, template=shape(gpus=4), auto_provisioned=True)
    assert (broken(auto, **exported) == []) is right
    assert broken(auto, up=False, **exported) == []


@pytest.mark.parametrize(
    "label", ["cloud.google.com/gke-spot", "cloud.google.com/gke-gpu-sharing-strategy"]
)
def test_on_autopilot_a_plain_pool_is_not_about_chosen_nodes(label: str) -> None:
    """Spot and shared nodes have the GPU's label too, and came for pods that selected them."""
    chosen = shape(gpus=4, labels={**T4, label: "true"})
    auto = group(gpus=1, template=chosen, auto_provisioned=True)
    assert broken(auto, allocatablePerNode=9) == []
    (line,) = broken(auto, allocatablePerNode=9, nodeSelector=chosen.labels)
    assert "allocatablePerNode says 9" in line


def test_the_output_is_that_of_the_stack() -> None:
    """Where there is none, no output is wrong."""
    state = [
        {"type": "a:b:C"},
        {"type": stack_output_checks.STACK, "outputs": {"gpuPools": {"p": EXPORTED}}},
    ]
    assert stack_output_checks.exported(state) == {"p": EXPORTED}
    assert (
        stack_output_checks.exported(state[:1])
        == stack_output_checks.exported([{"type": stack_output_checks.STACK}])
        == {}
    )


def test_a_pool_is_tried_by_a_node_of_the_last_update_only() -> None:
    """One that joined before shows what was declared then; the probe must not land there, and not
    say so by the nodes' names, for which Karpenter starts no node."""
    pools = {"p": {**EXPORTED, "resource": GPU}}
    pool = replace(POOL, gpus=1, template=shape(), max_nodes=2)
    old = on_node("n1", pool)
    old["metadata"]["labels"] |= probes.EARLIER
    snapshot = ClusterSnapshot(groups=[pool], nodes={pool.name: [old]})
    assert probes.untried(pools, snapshot, [old]) == {}
    assert probes.untried(pools, snapshot, []) == {"p": ""}
    spec = probes.probe("p", pools["p"])["spec"]
    assert mismatches(spec, shape_of(old)) == [
        "its node affinity requires no label rehearsal/joined-before-the-update, a node there has "
        "rehearsal/joined-before-the-update=true"
    ]
    assert not mismatches(spec, pool.node)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"max_nodes": 1}, {"p": "all 1 nodes of its maximum joined before the update"}),
        ({"max_nodes": 0}, {"p": "maxNodes is 0"}),
        ({"autoscaled": False}, {}),
        ({"unscaled": "nobody scales it"}, {"p": ""}),
    ],
)
def test_a_pool_that_cannot_grow_is_named(change: dict[str, Any], why: dict[str, str]) -> None:
    """A pool that should scale and does not gets its probe, whose diagnosis says why."""
    pool = replace(POOL, **{"gpus": 1, **change})
    nodes = {pool.name: [on_node("n1", pool)] if pool.max_nodes else []}
    snapshot = ClusterSnapshot(groups=[pool], nodes=nodes)
    assert probes.untried({"p": EXPORTED}, snapshot, []) == why


def test_pools_without_gpus_have_a_node_only_for_pods_of_the_user() -> None:
    """Those without a node are named, of all groups that are neither GPU nor system pools."""
    labelled = shape(labels={"gpu-cluster/pool": "loaders"})
    loaders = replace(POOL, name="loaders", gpus=0, template=labelled, node=labelled)
    groups = [loaders, replace(POOL, name="system", gpus=0), replace(loaders, name="g", gpus=1)]
    assert probes.without_gpus(ClusterSnapshot(groups=groups, nodes={})) == ["loaders"]
    busy = {"loaders": [on_node("n1", loaders)]}
    assert probes.without_gpus(ClusterSnapshot(groups=groups, nodes=busy)) == []
