"""Where the time goes between the creation of a job's pods and the start of their containers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import kubernetes.client

from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.schema import limits
from gpu_cluster.stacks.jobs.cluster import JobCluster
from gpu_cluster.stacks.live.cluster import Denied, Missing, asked, listed_items
from gpu_cluster.stacks.outcome import Answer, CheckError, ExitCode
from gpu_cluster.stacks.table import table

Object = Mapping[str, Any]

CUDA_LINE = "gpu-cluster-cuda-ready"
"""What a program prints after its first CUDA call, for its time to be known."""
_LOG_BYTES = 1_000_000
"""How much of a log is read, from its beginning."""
_NODE_CLAIMS = ("karpenter.sh", "v1", "nodeclaims")
_PULLED = re.compile(
    r'Successfully pulled image "(?P<image>[^"]+)" in (?P<pull>[^ ]+)'
    r"(?: \((?P<whole>\S+) including waiting\))?(?:\. Image size: (?P<bytes>\d+) bytes)?"
)
"""kubernetes/kubernetes, pkg/kubelet/images/image_manager.go (read 2026-11-29); kubelets before
1.27 do not write the time with waiting, those before 1.30 no size."""


_NAMES = (names.JOB_SET_LABEL, "app")
"""Labels of a pod with the name of its job, workload or service."""
_EXPIRED = "API servers delete events after an hour by default"
_COLUMNS = {"node": "node", "image": "image", "start": "start", "cuda": "CUDA", "total": "total"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What the cluster has about a pod."""

    pod: Object
    events: Sequence[Object]
    """The pod's, of which any may be deleted already."""
    node: Object | None
    """None if it has none, or it no longer exists or may not be read."""
    claim: Object | None = None
    """Karpenter's NodeClaim of the node."""
    log: str = ""
    """The beginning of the log, with times."""


def answer(cluster: JobCluster, name: str) -> Answer:
    """The times of all pods of a job, workload or service. Raises CheckError if it has none."""
    core, namespace = kubernetes.client.CoreV1Api(cluster.client), cluster.namespace
    pods = [
        pod
        for pod in listed_items(asked(core.list_namespaced_pod, namespace))
        for labels in [pod["metadata"].get("labels") or {}]
        if name in (pod["metadata"]["name"], *(labels.get(key) for key in _NAMES))
    ]
    unknown: list[str] = []
    custom = kubernetes.client.CustomObjectsApi(cluster.client)
    kueue = (names.KUEUE_GROUP, names.KUEUE_VERSION, namespace, "workloads")
    workloads = _listed(unknown, "the queue", custom.list_namespaced_custom_object, *kueue)
    queue = next((wait for row in workloads if (wait := queue_seconds(row, name))), None)
    if not pods and queue is None:
        raise CheckError(
            f"namespace {namespace} has no pods of {name}: it has ended, or is not a training job, "
            "workload or service there; see gpu-cluster job list, or give another --namespace"
        )
    events = _listed(
        unknown, "images and autoscaler", core.list_namespaced_event, namespace,
        field_selector="involvedObject.kind=Pod",
    )  # fmt: skip
    claims = _listed([], "", custom.list_cluster_custom_object, *_NODE_CLAIMS)
    found = []
    for pod in pods:
        node_name = pod["spec"].get("nodeName", "")
        selector = {"field_selector": f"metadata.name={node_name}"}
        nodes = _listed(unknown, "nodes", core.list_node, **selector) if node_name else []
        records = Records(
            pod=pod,
            events=[
                event for event in events
                if event["involvedObject"].get("uid") == pod["metadata"]["uid"]
            ],
            node=next(iter(nodes), None),
            claim=next((row for row in claims if _status(row).get("nodeName") == node_name), None),
            log=_log(core, pod),
        )  # fmt: skip
        found.append(times(records))
    document = {"job": name, "namespace": namespace, "queue": queue, "pods": found,
                "unknown": sorted(set(unknown))}  # fmt: skip
    return ExitCode.OK, document, _text(document)


def times(records: Records) -> dict[str, Any]:
    """A pod's seconds by part, its timeline in seconds since its creation, and what is unknown.

    `node`: until it was scheduled. `image`: its image pulls, which a kubelet does one by one for a
    pod. `start`: the rest until all containers had started: volumes, the sandbox, init containers.
    """
    pod, unknown = records.pod, list[str]()
    created = _at(pod["metadata"]["creationTimestamp"])

    def since(time: str) -> float:
        return round((_at(time) - created).total_seconds(), 3)

    scheduled_at = _condition(pod, "PodScheduled")
    scheduled = since(scheduled_at) if scheduled_at else None
    started = _started(pod, records.events)
    total = max(map(since, started)) if started else None
    events = [
        event for event in records.events
        if (time := _first(event)) and (total is None or since(time) <= total)
    ]  # fmt: skip
    pulls = list(_pulls(events))
    pulled = {_container(event) for event in events if event["reason"] == "Pulled"}
    missing = {container["name"] for container in pod["spec"]["containers"]} - pulled
    image = start = None
    if total is not None and scheduled is not None:
        if missing:
            unknown.append(f"image pulls (there is no event of them; {_EXPIRED})")
        else:
            image = round(sum(pull["seconds"] for pull in pulls), 3)
            start = max(0.0, round(total - scheduled - image, 3))
    steps = [
        *((_first(event), f"{event['reason']}: {event.get('message')}") for event in events),
        *_node(records, scheduled_at, unknown),
        *([(scheduled_at, f"bound to node {pod['spec'].get('nodeName')}")] if scheduled_at else []),
        *((time, "the last container had started") for time in sorted(started)[-1:]),
    ]
    cuda = next((line.split(" ")[0] for line in records.log.split("\n") if CUDA_LINE in line), "")
    if cuda:
        steps.append((cuda, f"the log has {CUDA_LINE}"))
    elif total is not None:
        unknown.append(f"the first CUDA call (no {CUDA_LINE} at the beginning of its log)")
    return {
        "pod": pod["metadata"]["name"],
        "seconds": {
            "node": scheduled, "image": image, "start": start, "total": total,
            "cuda": round(since(cuda) - total, 3) if cuda and total is not None else None,
        },
        "images": pulls,
        "timeline": [
            {"at": since(time), "what": " ".join(what.split())}
            for time, what in sorted(steps, key=lambda step: _at(step[0]))
        ],
        "unknown": unknown,
    }  # fmt: skip


def queue_seconds(workload: Object, name: str) -> dict[str, float | None] | None:
    """How long Kueue let the job wait for quota, and then for admission checks such as a
    ProvisioningRequest; None if the workload is of another job. A null: it still waits."""
    metadata = workload["metadata"]
    if name not in [owner["name"] for owner in metadata.get("ownerReferences") or []]:
        return None
    reserved, admitted = _condition(workload, "QuotaReserved"), _condition(workload, "Admitted")
    return {
        "quota": _between(metadata["creationTimestamp"], reserved),
        "checks": _between(reserved, admitted),
    }


def _node(records: Records, scheduled: str, unknown: list[str]) -> Iterator[tuple[str, str]]:
    """When a node that was created for the pod came into being."""
    node, created = records.node, records.pod["metadata"]["creationTimestamp"]
    if node is None or not scheduled or node["metadata"]["creationTimestamp"] > scheduled:
        if scheduled:
            unknown.append("when its node was created (it no longer exists, or cannot be read)")
        return
    if (registered := node["metadata"]["creationTimestamp"]) < created:
        yield created, "its node existed already"
        return
    yield registered, "node registered"
    ready = _condition(node, "Ready")
    if ready and _at(ready) <= _at(scheduled):
        yield ready, "node Ready"
    else:
        unknown.append("when its node became Ready (its condition has changed since)")
    # Karpenter waits for the node's requested resources to be allocatable: kubernetes-sigs/
    # karpenter, pkg/controllers/nodeclaim/lifecycle/initialization.go, read 2026-11-29.
    if initialized := _condition(records.claim or {}, "Initialized"):
        yield initialized, "NodeClaim Initialized: its GPUs are allocatable"
    else:
        unknown.append(
            "when its node's GPUs became allocatable (at the latest when it was scheduled)"
        )


def _started(pod: Object, events: Sequence[Object]) -> list[str]:
    """The first start of each container; empty if one has not started, or it is unknown when."""
    first = []
    for container in _status(pod).get("containerStatuses") or []:
        state = container.get("state") or {}
        run = state.get("running") or state.get("terminated") or {}
        if container.get("restartCount"):  # The state is that of a later run.
            own = [event for event in events if _container(event) == container["name"]]
            runs = sorted(_first(event) for event in own if event["reason"] == "Started")
            run = {"startedAt": next(iter(runs), "")}
        if not run.get("startedAt"):
            return []
        first.append(str(run["startedAt"]))
    return first


def _pulls(events: Sequence[Object]) -> Iterator[dict[str, Any]]:
    for event in events:
        pull = _PULLED.match(str(event.get("message")))
        if event["reason"] == "Pulled" and pull:
            yield {
                "image": pull["image"],
                "seconds": limits.seconds(pull["whole"] or pull["pull"]),
                "pulling": limits.seconds(pull["pull"]),
                "bytes": int(pull["bytes"]) if pull["bytes"] else None,
            }


def _text(document: Mapping[str, Any]) -> str:
    lines, queue, pods = [], document["queue"], document["pods"]
    if queue:
        waits = (("quota", queue["quota"]), ("admission checks", queue["checks"]))
        parts = [f"{what} {_shown(seconds)}" for what, seconds in waits]
        lines.append(f"in its queue, before its pods: {', '.join(parts)}")
    unknown: dict[str, int] = {}
    if pods:
        rows = [[pod["pod"], *(_rounded(pod["seconds"][key]) for key in _COLUMNS)] for pod in pods]
        lines += ["seconds", table(["pod", *_COLUMNS.values()], rows), ""]
        slowest = max(pods, key=_total)
        lines.append(f"{slowest['pod']}, since its creation:")
        lines += [f"{row['at']:8.0f} s  {row['what']}" for row in slowest["timeline"]]
        for pull in slowest["images"]:
            speed = pull["bytes"] and f": {pull['bytes'] / 1e9:.2f} GB"
            lines.append(f"  image {pull['image']}{speed or ''} in {pull['pulling']:.0f} s")
    for reason in [reason for pod in pods for reason in pod["unknown"]]:
        unknown[reason] = unknown.get(reason, 0) + 1
    lines += [f"unknown for {count} of {len(pods)} pods: {why}" for why, count in unknown.items()]
    return "\n".join([*lines, *(f"unknown: {why}" for why in document["unknown"])])


def _total(pod: Mapping[str, Any]) -> float:
    total = pod["seconds"]["total"]
    return float("inf") if total is None else float(total)


def _listed(unknown: list[str], what: str, ask: Any, *given: str, **query: Any) -> list[Object]:
    """The objects; none if the cluster has no such kind, or if they may not be listed."""
    try:
        return listed_items(asked(ask, *given, **query))
    except Missing:
        return []
    except Denied as error:
        unknown.append(f"{what} ({error})")
        return []


def _log(core: Any, pod: Object) -> str:
    metadata, container = pod["metadata"], pod["spec"]["containers"][0]["name"]
    try:
        ask = core.read_namespaced_pod_log
        where = (metadata["name"], metadata["namespace"])
        log = asked(ask, *where, container=container, timestamps=True, limit_bytes=_LOG_BYTES)
    except CheckError:  # The pod has not started, its node is gone, or it may not be read.
        return ""
    return log.decode(errors="replace")


def _condition(obj: Object, kind: str) -> str:
    """The time since when a condition is true; empty if it is not."""
    for row in _status(obj).get("conditions") or []:
        if (row["type"], row["status"]) == (kind, "True"):
            return str(row["lastTransitionTime"])
    return ""


def _first(event: Object) -> str:
    """When it happened first. The scheduler writes only `eventTime`, kubelets `firstTimestamp`."""
    return str(event.get("firstTimestamp") or event.get("eventTime") or "")


def _container(event: Object) -> str:
    """The container of an event of a kubelet: `spec.containers{NAME}`."""
    return str(event["involvedObject"].get("fieldPath", "")).removeprefix("spec.containers")[1:-1]


def _between(start: str, end: str) -> float | None:
    return (_at(end) - _at(start)).total_seconds() if start and end else None


def _rounded(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds)


def _shown(seconds: float | None) -> str:
    return "still waiting" if seconds is None else f"{seconds:.0f} s"


def _status(obj: Object) -> Mapping[str, Any]:
    return obj.get("status") or {}


def _at(time: str) -> datetime:
    return datetime.fromisoformat(time)
