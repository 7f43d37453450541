"""The parts of a pod's start, from events as kubelets, schedulers and autoscalers write them."""

from typing import Any

import pytest

from gpu_cluster.stacks.jobs.startup import Records, queue_seconds, times

IMAGE = "docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime"
PULLED = (
    f'Successfully pulled image "{IMAGE}" in 1m44.643s (1m45.1s including waiting). '
    "Image size: 3169083618 bytes."
)
PRESENT = f'Container image "{IMAGE}" already present on machine and can be accessed by the pod'


def at(seconds: int) -> str:
    return f"2026-11-29T10:{seconds // 60:02}:{seconds % 60:02}Z"


def event(seconds: int, reason: str, message: str = "", *, field: str = "main") -> dict[str, Any]:
    """An event of a kubelet. The scheduler's have only `eventTime`, to the microsecond."""
    path = f"spec.containers{{{field}}}" if field else ""
    scheduler = reason in ("Scheduled", "FailedScheduling")
    time = at(seconds).replace("Z", ".250000Z")
    return {
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": "Pod", "uid": "u", **({"fieldPath": path} if path else {})},
        **({"firstTimestamp": None, "eventTime": time} if scheduler
           else {"firstTimestamp": at(seconds), "eventTime": None}),
    }  # fmt: skip


EVENTS = [
    event(
        0, "FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", field=""
    ),
    event(11, "TriggeredScaleUp", "pod triggered scale-up: [{train-gpu 0->1 (max: 4)}]", field=""),
    event(130, "Scheduled", "Successfully assigned default/first-0 to gpu-1", field=""),
    event(132, "Pulling", f'Pulling image "{IMAGE}"'),
    event(237, "Pulled", PULLED),
    event(238, "Created", "Container created"),
    event(239, "Started", "Container started"),
]


def condition(kind: str, seconds: int) -> dict[str, str]:
    return {"type": kind, "status": "True", "lastTransitionTime": at(seconds)}


def node(created: int, ready: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "gpu-1", "creationTimestamp": at(created)},
        "status": {"conditions": [condition("Ready", ready)]},
    }


def records(**more: Any) -> Records:
    """Of a pod that runs on a node that was created for it."""
    container = {"name": "main", "restartCount": 0, "state": {"running": {"startedAt": at(239)}}}
    pod = {
        "metadata": {"name": "first-0", "uid": "u", "creationTimestamp": at(0)},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "main"}]},
        "status": {
            "conditions": [condition("PodScheduled", 130)],
            "containerStatuses": [container | more.pop("container", {})],
        },
    }
    return Records(**{"pod": pod, "events": EVENTS, "node": node(80, 115)} | more)


def test_the_parts_add_up_to_the_time_until_the_containers_had_started() -> None:
    """The pull counts with its wait for other pulls; its time and size are the kubelet's."""
    log = "2026-11-29T10:04:12.123456789Z gpu-cluster-cuda-ready\n"
    found = times(records(log=log))
    parts = {"node": 130, "image": 105.1, "start": 3.9, "total": 239, "cuda": 13.123}
    assert found["seconds"] == parts
    pull = {"image": IMAGE, "seconds": 105.1, "pulling": 104.643, "bytes": 3169083618}
    assert found["images"] == [pull]
    order = [step["what"].split(":")[0] for step in found["timeline"]]
    assert order == [
        "FailedScheduling", "TriggeredScaleUp", "node registered", "node Ready",
        "bound to node gpu-1", "Scheduled", "Pulling", "Pulled", "Created", "Started",
        "the last container had started",
        "the log has gpu-cluster-cuda-ready",
    ]  # fmt: skip
    gpus = "when its node's GPUs became allocatable (at the latest when it was scheduled)"
    assert found["unknown"] == [gpus]


@pytest.mark.parametrize(
    ("change", "seconds", "unknown"),
    [
        ({"events": []}, (130, None, None, 239), "image pulls (there is no event of them; "),
        ({"events": EVENTS[:3]}, (130, None, None, 239), "image pulls ("),
        ({"events": [event(131, "Pulled", PRESENT)]}, (130, 0, 109, 239), "first CUDA call (no "),
        ({"node": None}, (130, 105.1, 3.9, 239), "when its node was created (it no longer exists"),
        ({"node": node(300, 310)}, (130, 105.1, 3.9, 239), "when its node was created ("),
        ({"node": node(80, 900)}, (130, 105.1, 3.9, 239), "became Ready (its condition has "),
        ({"container": {"state": {"waiting": {}}}}, (130, None, None, None), "GPUs became"),
        (
            {"container": {"restartCount": 2, "state": {"running": {"startedAt": at(900)}}}},
            (130, 105.1, 3.9, 239), "",
        ),
        (
            {"container": {"restartCount": 2}, "events": EVENTS[:-1]},
            (130, None, None, None), "GPUs became",
        ),
    ],
    ids=[
        "no events", "events of the kubelet gone", "present", "node gone", "another node",
        "node changed since", "not started", "started again", "first start unknown",
    ],
)  # fmt: skip
def test_what_the_cluster_no_longer_has_is_unknown(
    change: dict[str, Any], seconds: tuple[float | None, ...], unknown: str
) -> None:
    """It is listed, and no other time takes its place."""
    found = times(records(**change))
    assert tuple(found["seconds"].values())[:4] == seconds
    assert unknown in "\n".join(found["unknown"])


def test_karpenter_says_when_the_gpus_of_a_node_became_allocatable() -> None:
    """The condition Initialized of its NodeClaim; a node that existed already has no such times."""
    claim = {"status": {"nodeName": "gpu-1", "conditions": [condition("Initialized", 128)]}}
    found = times(records(claim=claim))
    assert {"at": 128, "what": "NodeClaim Initialized: its GPUs are allocatable"} in found[
        "timeline"
    ]
    assert "allocatable" not in "".join(found["unknown"])
    existing = times(records(node={"metadata": {"creationTimestamp": "2026-11-29T09:00:00Z"}}))
    assert existing["timeline"][0] == {"at": 0, "what": "its node existed already"}


@pytest.mark.parametrize(
    ("conditions", "waits"),
    [
        ([], {"quota": None, "checks": None}),
        ([condition("QuotaReserved", 3)], {"quota": 3, "checks": None}),
        (
            [condition("QuotaReserved", 3), condition("Admitted", 70)],
            {"quota": 3, "checks": 67},
        ),
    ],
)
def test_the_wait_in_a_queue(conditions: list[Any], waits: dict[str, Any]) -> None:
    """Kueue's Workload belongs to the JobSet or Job; pods exist only once it is admitted."""
    owner = {"kind": "JobSet", "name": "first"}
    metadata = {"creationTimestamp": at(0), "ownerReferences": [owner]}
    workload = {"metadata": metadata, "status": {"conditions": conditions}}
    assert queue_seconds(workload, "first") == waits
    assert queue_seconds(workload, "second") is None
