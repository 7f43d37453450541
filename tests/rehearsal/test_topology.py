"""A training job whose workers must be close together, with upstream's Kueue placing them."""

from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.components.catalog.kubernetes import ZONE
from gpu_cluster.rehearsal.report.report import node_lives, pod_lives
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.definition.program import Mutation
from tests.program.effects import set_scaler
from tests.rehearsal.conftest import changed, configured, details, rehearsed, with_inventory
from tests.rehearsal.gpu_direct import two_workers

IMAGE = "example.com/image:1"
WORKERS = "Job default/ddp-workers-0"
BLOCK, LAYER = "cloud.google.com/gce-topology-block", "topology.k8s.aws/network-node-layer-3"
GKE = {"machineType": "a3-megagpu-8g", "zones": ["us-central1-a"]}
EKS = {"instanceTypes": ["p5.48xlarge"], "zones": ["us-east-1a"]}
FIVE = {"minNodes": 5, "maxNodes": 5}


def in_blocks(
    tmp_path: Path, pool: dict[str, Any], job: dict[str, Any], *mutations: Mutation,
    whole: bool = False, deadline: float = 90,
) -> Rehearsal:  # fmt: skip
    """One job on a pool, topology-aware, and nothing else, where the first block has one machine,
    and each of the others two."""

    def configure(config: dict[str, Any]) -> None:
        two_workers(config, {**pool, "topologyAware": True})
        config["gpu-cluster:trainingJobs"]["ddp"] |= job

    if "machineType" in pool:
        stack, machine = "train-gke", {"machineType": pool["machineType"]}
    else:
        stack, machine = "train", {"instanceType": pool["instanceTypes"][0]}
    blocks = {"blocks": [{**machine, "nodes": [1, 2, 2]}]}
    return rehearsed(
        stack, tmp_path / "sandbox", configured(configure), *mutations,
        whole=whole, deadline=deadline,
        options=with_inventory(tmp_path, stack, blocks, job_seconds=2),
    )  # fmt: skip


def blocks(rehearsal: Rehearsal) -> list[str]:
    """Where the workers ran."""
    events = rehearsal.sandbox.event_log.events
    nodes = {node.name: node.block for node in node_lives(events)}
    pods = [pod for pod in pod_lives(events) if pod.workload == WORKERS]
    assert all(pod.state == "succeeded" for pod in pods), pods
    return [nodes[pod.node or ""] for pod in pods]


@pytest.mark.prove(reason="a whole rehearsal; test_batch.py has what the program declares")
@pytest.mark.parametrize(("pool", "level"), [(GKE, BLOCK), (EKS, LAYER)], ids=["gke", "eks"])
def test_a_job_that_needs_one_block_gets_nodes_of_one(
    tmp_path: Path, pool: dict[str, Any], level: str
) -> None:
    """Of five machines in three blocks; a second up changes nothing, and nothing is left."""
    job = {"nodes": 2, "requiredTopology": level}
    rehearsal = in_blocks(tmp_path, pool | FIVE, job, whole=True)
    assert rehearsal.failures == []
    where = blocks(rehearsal)
    assert len(where) == 2
    assert len({*where}) == 1
    assert where[0].endswith(("2", "3"))
    assert details(rehearsal)["idempotency"] == "no changes"


@pytest.mark.prove(reason="a whole rehearsal")
def test_a_job_that_no_block_holds_waits_with_kueues_reason(tmp_path: Path) -> None:
    """Three machines are free, and no block has three."""
    job = {"nodes": 3, "requiredTopology": BLOCK}
    rehearsal = in_blocks(tmp_path, GKE | FIVE, job, deadline=30)
    (line,) = (line for line in rehearsal.failures if WORKERS in line)
    assert 'topology "train-gpu" allows to fit only 2 out of 3 pod(s)' in line


@pytest.mark.prove(reason="a whole rehearsal")
def test_a_queued_pool_has_its_nodes_first_and_places_then(tmp_path: Path) -> None:
    """Kueue asks for nodes, and looks where they are once they exist."""
    pool = {**GKE, "capacityType": "flex-start", "queued": True, "maxNodes": 5}
    job = {"nodes": 3, "preferredTopology": BLOCK}
    rehearsal = in_blocks(tmp_path, pool, job, whole=True)
    assert rehearsal.failures == []
    assert sorted(blocks(rehearsal)) == ["block-1/subblock-1"] + 2 * ["block-2/subblock-2"]


@pytest.mark.prove(reason="a whole rehearsal")
def test_pods_that_kueue_does_not_place_are_found(tmp_path: Path) -> None:
    """Without its Topology the scheduler puts them anywhere, and the report says so."""
    job = {"nodes": 3, "requiredTopology": BLOCK}
    unplaced = changed(
        "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet",
        "props['metadata']['labels'].pop('kueue.x-k8s.io/queue-name')",
    )
    rehearsal = in_blocks(tmp_path, GKE | FIVE, job, unplaced)
    assert any("its pods must share one" in line for line in rehearsal.failures)


T4 = {"machineType": "n1-standard-4", "accelerator": "nvidia-tesla-t4"}
ZONES = {
    "train-gke": ("us-central1-a", "us-central1-b"),
    "train": ("us-east-1a", "us-east-1b"),
}


@pytest.mark.prove
@pytest.mark.parametrize(
    ("stack", "scaler"),
    [
        ("train-gke", "node-pools"),
        ("train-gke", "compute-classes"),
        ("train", "cluster-autoscaler"),
        ("train", "karpenter"),
    ],
)
def test_a_pool_grows_in_the_zone_that_has_machines(
    stack: str, scaler: str, tmp_path: Path
) -> None:
    """The first of its two zones has none: each scaler takes the second."""
    gke = stack == "train-gke"
    machine = {"machineType": "n1-standard-4"} if gke else {"instanceType": "g4dn.xlarge"}
    first, second = ZONES[stack]

    def two_zones(config: dict[str, Any]) -> None:
        set_scaler(config, scaler)
        cluster = config["gpu-cluster:cluster"]
        if gke:
            cluster["location"] = "us-central1"
            cluster["zones"] = [first, second]
        pool = {"maxNodes": 2, "zones": [first, second]}
        pool |= T4 if gke else {"instanceTypes": ["g4dn.xlarge"]}
        config["gpu-cluster:gpuPools"] = {"gpu": pool}
        serve = {"kind": "deployment", "pool": "gpu", "gpus": 1, "replicas": 2, "image": IMAGE}
        config["gpu-cluster:workloads"] = {"serve": serve}
        config.pop("gpu-cluster:monitoring", None)

    stock = {"stock": [{**machine, "zone": first, "nodes": 0}]}
    rehearsal = rehearsed(
        stack, tmp_path / "sandbox", configured(two_zones), whole=False, deadline=240,
        options=with_inventory(tmp_path, stack, stock),
    )  # fmt: skip
    assert rehearsal.failures == []
    nodes = rehearsal.sandbox.cluster_cache.gpu_nodes
    zones = [node["metadata"]["labels"][ZONE] for node in nodes]
    # The nodes of a node group have the label of its first zone here.
    assert zones == [first if scaler == "cluster-autoscaler" else second] * 2
