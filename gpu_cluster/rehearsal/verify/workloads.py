"""The workloads that a stack declares, and whether each has reached its expected state."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_cluster.rehearsal.control_plane.pods import condition, full_name, holds, phase, workload
from gpu_cluster.rehearsal.verify.diagnosis import ClusterSnapshot, Diagnosis, diagnose

Object = Mapping[str, Any]

KINDS = {
    "kubernetes:apps/v1:Deployment": "Deployment",
    "kubernetes:apps/v1:DaemonSet": "DaemonSet",
    "kubernetes:batch/v1:Job": "Job",
    "kubernetes:core/v1:Pod": "Pod",
}
_JOB_SET = "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """An object of the stack that is a pod or creates pods."""

    kind: str
    namespace: str
    name: str
    derived: bool = False
    """Whether a controller of the stack creates it later."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    def find(self, items: Iterable[Object]) -> Object | None:
        """The workload among objects of its kind; None if it is missing."""
        wanted = f"{self.namespace}/{self.name}"
        return next((item for item in items if full_name(item) == wanted), None)


def declared(state: Sequence[Mapping[str, Any]]) -> list[Workload]:
    """The workloads in a stack's state, as listed by `pulumi stack export`."""
    found = []
    for resource in state:
        if resource["type"] == _JOB_SET and not resource.get("delete"):
            found += _jobs(resource["outputs"])
        if (kind := KINDS.get(resource["type"])) and not resource.get("delete"):
            metadata = resource["outputs"]["metadata"]
            namespace = metadata.get("namespace") or "default"
            found.append(Workload(kind=kind, namespace=namespace, name=metadata["name"]))
    return found


def _jobs(job_set: Mapping[str, Any]) -> list[Workload]:
    """The Jobs that the controller creates from a JobSet, by their names."""
    metadata = job_set["metadata"]
    return [
        Workload(
            kind="Job",
            namespace=metadata.get("namespace") or "default",
            name=f"{metadata['name']}-{job['name']}-{number}",
            derived=True,
        )
        for job in job_set["spec"]["replicatedJobs"]
        for number in range(int(job.get("replicas", 1)))
    ]


def reached(wanted: Workload, item: Object | None, pods: Sequence[Object]) -> bool:
    """Whether a Deployment is available, a pod ready, a Job complete, a DaemonSet ready on all its
    nodes. A Deployment's status may be older than its pods, which have just been evicted."""
    if item is None:
        return False
    status = item.get("status", {})
    if wanted.kind in ("Deployment", "DaemonSet"):
        if status.get("observedGeneration", 0) < item["metadata"].get("generation", 1):
            return False
        if wanted.kind == "DaemonSet":
            ready: bool = status.get("numberReady", 0) == status.get("desiredNumberScheduled", 0)
            return ready
        ready_pods = sum(phase(pod) == "ready" and workload(pod) == str(wanted) for pod in pods)
        available: int = min(ready_pods, status.get("availableReplicas", 0))
        return available >= int(item["spec"].get("replicas", 1))
    if wanted.kind == "Job":
        return holds(item, "Complete")
    return phase(item) in ("ready", "succeeded")


def why_not(wanted: Workload, item: Object | None, snapshot: ClusterSnapshot) -> Diagnosis:
    """Why a workload has not reached its state, from the first of its pods that shows it."""
    if item is None:
        # The stack declared it directly, so no controller will create it later.
        return Diagnosis(message=f"{wanted} is not in the cluster", permanent=not wanted.derived)
    if wanted.kind == "Job" and holds(item, "Failed"):
        message = condition(item, "Failed").get("message", "")
        return Diagnosis(message=f"{wanted} failed: {message}", permanent=True)
    pods = [pod for pod in snapshot.pods if workload(pod) == str(wanted)]
    waiting = [pod for pod in pods if phase(pod) not in ("ready", "succeeded", "deleting")]
    diagnoses = [diagnose(pod, snapshot) for pod in waiting]
    if diagnoses:
        return max(diagnoses, key=lambda diagnosis: diagnosis.permanent)
    refused = condition(item, "ReplicaFailure").get("message")
    if refused := refused or _failed_to_create(wanted, snapshot):
        return Diagnosis(message=f"{wanted} cannot create its pods: {refused}", permanent=True)
    if item["spec"].get("suspend"):
        return Diagnosis(
            message=f"{wanted} is still in its queue{_queued(wanted, snapshot)}", permanent=False
        )
    states = ", ".join(phase(pod) for pod in pods) or "none yet"
    return Diagnosis(message=f"{wanted} has not finished: its pods are {states}", permanent=False)


def _queued(wanted: Workload, snapshot: ClusterSnapshot) -> str:
    """Kueue's last message about the job's own Workload, or its JobSet's."""
    names = (f"job-{wanted.name}-", f"jobset-{wanted.name.rpartition('-workers-')[0]}-")
    reasons = [
        event
        for event in snapshot.events
        if event["involvedObject"].get("kind") == "Workload"
        and event["involvedObject"].get("namespace") == wanted.namespace
        and str(event["involvedObject"].get("name")).startswith(names)
    ]
    for owner, why in snapshot.waiting.items():
        if why and owner.startswith(tuple(f"{wanted.namespace}/{name}" for name in names)):
            return f": the cloud starts all of its nodes or none: {why}"
    if not reasons:
        return ""
    last = max(reasons, key=lambda event: str(event.get("lastTimestamp") or ""))
    return f": Kueue says: {last.get('message', '')}"


def _failed_to_create(wanted: Workload, snapshot: ClusterSnapshot) -> str | None:
    """The API server's error when the workload's controller tried to create a pod."""
    for event in snapshot.events:
        about = event["involvedObject"]
        named = (about.get("kind"), about.get("namespace"), about.get("name"))
        if event.get("reason") == "FailedCreate" and named == (
            wanted.kind,
            wanted.namespace,
            wanted.name,
        ):
            return str(event.get("message", "")).removeprefix("Error creating: ")
    return None
