"""A training job on a queued pool gets all of its nodes or none."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.nodes.queued import REQUESTS
from gpu_cluster.rehearsal.report.report import gpu_nodes_over_time, node_lives, pod_lives
from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox, SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.definition.program import Mutation
from tests.program.effects import set_scaler
from tests.rehearsal.conftest import (
    changed,
    configured,
    entered,
    nothing_stays,
    rehearsed,
    until,
    whole_life,
    with_inventory,
)
from tests.rehearsal.gpu_direct import two_workers

GANG = 4
WORKERS = "Job default/ddp-workers-0"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"
KUEUE = "kubernetes:kueue.x-k8s.io/v1beta2"
EVICTED = "EvictedDueToPodsReadyTimeout"
UNTOLERATED = (
    "spec['tolerations'] = [t for t in spec['tolerations'] if not t['key'].endswith('queued')]"
)
EXAMPLE = ROOT / "examples" / "queued" / "Pulumi.queued.yaml"
SECOND = "us-central1-b"
"""The zone of the example's pool that GKE takes only if the first has too few machines."""
MACHINE = "g2-standard-24"
"""With two GPUs, of which a worker takes one: two would fit on a node."""
G_INSTANCES, VCPUS = "G_VT", 4
"""The quota of g4dn.xlarge on demand, and what a machine counts."""


def gang(config: dict[str, Any]) -> None:
    """The example's job, each of whose four workers has its own node."""
    example = yaml.safe_load(EXAMPLE.read_text())["config"]
    for block in ("batch", "gpuPools", "trainingJobs"):
        config[f"gpu-cluster:{block}"] = example[f"gpu-cluster:{block}"]
    config["gpu-cluster:trainingJobs"]["ddp"]["gpus"] = 1
    config["gpu-cluster:workloads"] = {}


def brief(config: dict[str, Any]) -> None:
    """The same, with nodes that live for ten minutes, a minute here."""
    gang(config)
    config["gpu-cluster:gpuPools"]["train-gpu"]["maxRunDurationSeconds"] = 600


def with_stock(
    tmp_path: Path,
    *mutations: Mutation,
    stock: int,
    between: Callable[[Sandbox], None] = lambda sandbox: None,
    deadline: float = 90,
) -> Rehearsal:
    """The gang where Compute Engine has so many machines in the second zone, and too few in the
    first; `between`: before everything leaves."""
    rows = {"us-central1-a": GANG - 1, SECOND: stock}
    described = [
        {"machineType": MACHINE, "zone": zone, "nodes": nodes} for zone, nodes in rows.items()
    ]
    return rehearsed(
        "train-gke", tmp_path / "sandbox", configured(gang), *mutations,
        whole=stock == GANG and not mutations, between=between, deadline=deadline,
        options=with_inventory(tmp_path, "train-gke", {"stock": described}, job_seconds=2),
    )  # fmt: skip


def gpu_nodes(rehearsal: Rehearsal) -> list[int]:
    """How many GPU nodes there were, one after the other."""
    lives = node_lives(rehearsal.sandbox.event_log.events)
    return [count for _, count in gpu_nodes_over_time(lives)]


@pytest.mark.prove(reason="test_queued_nodes.py has each step; this is a whole rehearsal")
def test_all_nodes_of_a_job_start_together(tmp_path: Path) -> None:
    """The four workers run at once, in the zone that has four machines; a second up changes
    nothing, and nothing is left."""
    rehearsal = with_stock(tmp_path, stock=GANG)
    assert rehearsal.failures == []
    events = rehearsal.sandbox.event_log.events
    together = [event.detail for event in events if event.what == "together"]
    assert [(one["nodes"], one["zone"]) for one in together] == [(GANG, SECOND)]
    assert max(gpu_nodes(rehearsal)) == GANG
    assert gpu_nodes(rehearsal)[-1] == 0
    workers = [pod for pod in pod_lives(events) if pod.workload == WORKERS]
    assert [pod.state for pod in workers] == ["succeeded"] * GANG
    nothing_stays(rehearsal)


def also_claimed(config: dict[str, Any]) -> None:
    """The gang, and in its queue a job of a pool whose GPUs pods claim."""
    gang(config)
    config["gpu-cluster:gpuPools"]["claimed"] = {
        "machineType": "g2-standard-8", "driver": "daemonset", "devicePlugin": "dra", "maxNodes": 1,
    }  # fmt: skip
    (queue,) = config["gpu-cluster:batch"]["queues"].values()
    queue["pools"].append("claimed")
    queue["nominalQuota"] = {"train-gpu": 8, "claimed": 1}
    config["gpu-cluster:workloads"] = {
        "one": {"kind": "job", "pool": "claimed", "gpus": 1, "queue": "training",
                "image": "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04"}
    }  # fmt: skip


@pytest.mark.prove(reason="a whole rehearsal; test_batch.py has whose jobs wait for a request")
def test_a_queue_may_have_a_queued_pool_and_one_with_claims(tmp_path: Path) -> None:
    """Only the gang has a request; the other job's node starts for its pod."""
    with whole_life(
        "train-gke", tmp_path / "sandbox", configured(also_claimed),
        options=SandboxOptions(job_seconds=2),
    ) as rehearsal:  # fmt: skip
        events = rehearsal.sandbox.event_log.events
        assert [event.detail["nodes"] for event in events if event.what == "together"] == [GANG]
        states = {pod.workload: pod.state for pod in pod_lives(events)}
        assert (states[WORKERS], states["Job default/one"]) == ("succeeded", "succeeded")


@pytest.mark.prove(reason="test_queued_nodes.py has each step; the nodes live for a minute")
def test_a_job_that_outlives_its_nodes_is_stopped(tmp_path: Path) -> None:
    """GKE deletes them when their run duration is over, and Kueue does not start the job again."""
    with entered(
        "train-gke", tmp_path / "sandbox", configured(brief),
        options=SandboxOptions(job_seconds=600),
    ) as sandbox:  # fmt: skip
        assert sandbox.engine.up().ok
        ended = "run duration over"
        until(lambda: sum(e.what == ended for e in sandbox.event_log.events) == GANG, ended, 240)
        gone = {e.subject for e in sandbox.event_log.events if e.what == ended}
        until(
            lambda: gone <= {e.subject for e in sandbox.event_log.events if e.what == "left"},
            "the nodes have left",
        )
        (workload,) = until(
            lambda: [w for w in sandbox.control_plane.api.items(WORKLOADS) if revoked(w)],
            "Kueue has stopped the job",
        )
        assert workload["spec"]["active"] is False
        lives = node_lives(sandbox.event_log.events)
        assert [life.name for life in lives if life.gpus and life.name not in gone] == []


def revoked(workload: dict[str, Any]) -> bool:
    """Whether Kueue keeps a job from running for good."""
    return workload["spec"].get("active") is False


def asked_again(sandbox: Sandbox) -> None:
    """Somebody deletes the request; Kueue asks again."""
    api, until = sandbox.control_plane.api, time.monotonic() + 60
    (request,) = api.items(REQUESTS)
    place = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
    api.delete(f"{place}/{request['metadata']['name']}")
    while time.monotonic() < until:
        if [r for r in api.items(REQUESTS) if r["metadata"]["uid"] != request["metadata"]["uid"]]:
            return
        time.sleep(0.2)
    raise AssertionError("Kueue made no other request")


@pytest.mark.prove(reason="test_queued_nodes.py has each step; this is a whole rehearsal")
def test_no_node_starts_if_one_is_missing(tmp_path: Path) -> None:
    """Of four machines three can be had: none starts, no pod is created, the report says why."""
    rehearsal = with_stock(tmp_path, stock=GANG - 1, deadline=20, between=asked_again)
    events = rehearsal.sandbox.event_log.events
    assert gpu_nodes(rehearsal) in ([], [0])
    assert not [pod for pod in pod_lives(events) if "ddp" in pod.workload]
    (line,) = (line for line in rehearsal.failures if WORKERS in line)
    assert "is still in its queue: the cloud starts all of its nodes or none: ZONE_RES" in line


@pytest.mark.prove(reason="each is a rehearsal of its own")
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {f"{KUEUE}:ClusterQueue": "del props['spec']['admissionChecksStrategy']"},
            "the pool is queued, and no ProvisioningRequest asks for its nodes",
        ),
        (
            {"gcp:container/nodePool:NodePool": "props['queued_provisioning'] = None"},
            "No nodepool with QueuedProvisioning enabled is available for scale up",
        ),
        (
            {
                f"{KUEUE}:ResourceFlavor": f"spec = props['spec']\n{UNTOLERATED}",
                "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet": (
                    "spec = props['spec']['replicatedJobs'][0]['template']['spec']['template']"
                    f"['spec']\n{UNTOLERATED}"
                ),
            },
            "it does not tolerate the taint cloud.google.com/gke-queued",
        ),
    ],
    ids=["no check", "no queued pool", "no toleration"],
)
def test_what_a_queued_pool_lacks_is_named(
    tmp_path: Path, changes: dict[str, str], says: str
) -> None:
    """The report says why the job does not run."""
    mutations = [changed(kind, code) for kind, code in changes.items()]
    rehearsal = with_stock(tmp_path, *mutations, stock=GANG, deadline=20)
    assert any(says in line for line in rehearsal.failures), rehearsal.failures


def without_enough(config: dict[str, Any]) -> None:
    """The gang on EKS, whose Auto Scaling groups start what they can get."""
    two_workers(config, {**config["gpu-cluster:gpuPools"]["train-gpu"], "maxNodes": GANG})
    config["gpu-cluster:batch"]["podsReadyMinutes"] = 1
    config["gpu-cluster:trainingJobs"]["ddp"]["nodes"] = GANG


def with_karpenter(config: dict[str, Any]) -> None:
    """The same, with instances that Karpenter launches."""
    without_enough(config)
    set_scaler(config, "karpenter")


@pytest.mark.prove(reason="Kueue waits for a minute; this is a whole rehearsal")
@pytest.mark.parametrize("gang_on_eks", [without_enough, with_karpenter])
def test_a_job_without_all_of_its_pods_gives_its_nodes_back(
    tmp_path: Path, gang_on_eks: Callable[[dict[str, Any]], None]
) -> None:
    """Some of four nodes start, and are gone again once Kueue has stopped the job."""
    # Workers that wait for the last one end no sooner than that one.
    options = SandboxOptions(job_seconds=600)
    with entered(
        "train", tmp_path / "sandbox", configured(gang_on_eks), options=options
    ) as sandbox:
        sandbox.cloud.faults.quota[G_INSTANCES] = (GANG - 1) * VCPUS  # type: ignore[attr-defined]
        assert sandbox.engine.up().ok
        with sandbox.nodes.emptying_soon():
            until, counts, reasons = time.monotonic() + 240, [1], set[str]()
            while time.monotonic() < until and not (counts[-1] == 0 and EVICTED in reasons):
                time.sleep(0.5)
                lives = node_lives(sandbox.event_log.events)
                counts = [0, *(count for _, count in gpu_nodes_over_time(lives))]
                reasons |= {str(one.get("reason")) for one in sandbox.cluster_cache.all("Event")}
        assert 0 < max(counts) < GANG
        assert counts[-1] == 0
        assert EVICTED in reasons
