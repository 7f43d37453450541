"""When an object is ready, by kind: the official provider's rules, as pure functions.

Sources: https://github.com/pulumi/pulumi-kubernetes/tree/master/provider/pkg/await and, for
DaemonSets, kstatus. Other kinds are ready as soon as they exist.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpu_cluster.components.kube.quantity import or_none
from gpu_cluster.rehearsal.plugins.kubernetes.objects import (
    Kind,
    Object,
    annotation,
    kind_of,
    name_of,
    namespace_of,
)

WAIT_FOR = "pulumi.com/waitFor"
DEFAULT_SECONDS = 600.0
VOLUME_SECONDS = 300.0
"""For PersistentVolumes and their claims, which ignore the annotation."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an object is ready, and the reason if it is not."""

    ready: bool
    reason: str = ""
    failed: bool = False
    """The object has failed for good: waiting longer is of no use."""


READY = Verdict(True)


def waiting(reason: str) -> Verdict:
    """The verdict on an object that is not ready yet; `reason`: a clause about it."""
    return Verdict(False, reason)


class Lookup(Protocol):
    """Reads other objects that an object's readiness depends on."""

    def get(self, kind: Kind, namespace: str, name: str) -> Object: ...

    def list(self, kind: Kind, namespace: str, selector: str) -> list[Object]: ...


Rule = Callable[[Object, Lookup], Verdict]


def conditions(obj: Object) -> dict[str, Object]:
    """The status conditions by type."""
    return {row["type"]: row for row in (obj.get("status") or {}).get("conditions") or []}


def _holds(obj: Object, condition: str) -> bool:
    return bool(conditions(obj).get(condition, {}).get("status") == "True")


def _observed(obj: Object) -> bool:
    observed = (obj.get("status") or {}).get("observedGeneration", 0)
    return bool(observed >= obj["metadata"].get("generation", 1))


def deployment(obj: Object, look: Lookup) -> Verdict:
    """Ready if it is available and the newest ReplicaSet has taken over."""
    if not _observed(obj):
        return waiting("the Deployment controller has not seen this generation yet")
    progressing = conditions(obj).get("Progressing", {})
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return waiting(f"[ProgressDeadlineExceeded] {progressing.get('message')}")
    if not _holds(obj, "Available"):
        return waiting("Minimum number of Pods to consider the application live was not attained")
    if progressing.get("reason") != "NewReplicaSetAvailable":
        return waiting("Waiting for app ReplicaSet to be available")
    return READY


def daemon_set(obj: Object, look: Lookup) -> Verdict:
    """Ready if every node that should have a pod, if any, has an up-to-date, ready one."""
    status = obj.get("status") or {}
    if "desiredNumberScheduled" not in status or not _observed(obj):
        return waiting("the DaemonSet controller has not seen this generation yet")
    wanted = status["desiredNumberScheduled"]
    counts = ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
    for count in counts:
        if status.get(count, 0) < wanted:
            return waiting(f"{count}: {status.get(count, 0)} of {wanted}")
    return READY


def job(obj: Object, look: Lookup) -> Verdict:
    """Ready if complete; Failed ends the wait at once."""
    failed = conditions(obj).get("Failed", {})
    if failed.get("status") == "True":
        return Verdict(False, f"[{failed.get('reason')}] {failed.get('message')}", failed=True)
    return READY if _holds(obj, "Complete") else waiting("the Job has not completed")


def pod(obj: Object, look: Lookup) -> Verdict:
    """Ready if scheduled, initialized and ready, or already succeeded."""
    if (obj.get("status") or {}).get("phase") == "Succeeded":
        return READY
    for condition in ("PodScheduled", "Initialized", "Ready"):
        if not _holds(obj, condition):
            found = conditions(obj).get(condition, {})
            detail = found.get("message") or f"{condition} is not True"
            return waiting(f"[{found.get('reason') or condition}] {detail}")
    return READY


def service(obj: Object, look: Lookup) -> Verdict:
    """Ready with a pod (unless headless or without a selector) and its load balancer."""
    spec, status = obj["spec"], obj.get("status") or {}
    selects = spec.get("selector") and spec.get("type") != "ExternalName"
    if selects and spec.get("clusterIP") != "None" and not _has_endpoints(obj, look):
        return waiting("Service does not target any Pods. Selected Pods may not be ready")
    if spec.get("type") == "LoadBalancer" and not (status.get("loadBalancer") or {}).get("ingress"):
        return waiting("Service was not allocated an IP address")
    return READY


def _has_endpoints(obj: Object, look: Lookup) -> bool:
    kind = Kind("discovery.k8s.io", "v1", "EndpointSlice")
    slices = look.list(kind, namespace_of(obj), f"kubernetes.io/service-name={name_of(obj)}")
    return any(
        (endpoint.get("conditions") or {}).get("ready") is not False
        for part in slices
        for endpoint in part.get("endpoints") or []
    )


def volume(obj: Object, look: Lookup) -> Verdict:
    """Ready with or without a claim that is bound to it."""
    phase = (obj.get("status") or {}).get("phase")
    return READY if phase in ("Available", "Bound") else waiting(f"the volume is {phase}")


def claim(obj: Object, look: Lookup) -> Verdict:
    """Ready if bound, or if pending because the storage class waits for the first pod."""
    phase = (obj.get("status") or {}).get("phase")
    storage_class = obj["spec"].get("storageClassName")
    if phase == "Pending" and storage_class:
        found = look.get(Kind("storage.k8s.io", "v1", "StorageClass"), "", storage_class)
        if found.get("volumeBindingMode") == "WaitForFirstConsumer":
            return READY
    return READY if phase == "Bound" else waiting(f"the claim is {phase}")


def quota(obj: Object, look: Lookup) -> Verdict:
    """Ready once the controller has taken the limits of its spec into its status."""
    wanted = (obj.get("spec") or {}).get("hard") or {}
    hard = (obj.get("status") or {}).get("hard") or {}
    same = all(or_none(hard.get(name)) == or_none(value) for name, value in wanted.items())
    return READY if same else waiting("the quota is not enforced yet")


def namespace(obj: Object, look: Lookup) -> Verdict:
    """Ready unless it is being deleted."""
    phase = (obj.get("status") or {}).get("phase")
    return READY if phase in (None, "Active") else waiting(f"the namespace is {phase}")


RULES: Mapping[tuple[str, str], Rule] = {
    ("apps", "Deployment"): deployment,
    ("apps", "DaemonSet"): daemon_set,
    ("batch", "Job"): job,
    ("", "Pod"): pod,
    ("", "Service"): service,
    ("", "PersistentVolume"): volume,
    ("", "PersistentVolumeClaim"): claim,
    ("", "ResourceQuota"): quota,
    ("", "Namespace"): namespace,
}

SKIPS_WAIT_ON_DELETE = {
    ("", "Namespace"), ("", "Pod"), ("apps", "DaemonSet"), ("apps", "Deployment"), ("batch", "Job"),
}  # fmt: skip
"""Kinds whose skipAwait annotation also skips the wait for their end, for compatibility:
https://github.com/pulumi/pulumi-kubernetes/issues/3154."""


def rule_for(obj: Object) -> Rule | None:
    """The rule for an object: its waitFor annotation (ValueError if invalid), or the kind's."""
    if wanted := annotation(obj, WAIT_FOR):
        return _expression(wanted)
    kind = kind_of(obj)
    return RULES.get((kind.group, kind.kind))


def default_seconds(obj: Object) -> float:
    """How long to wait, unless the resource says otherwise."""
    kind = kind_of(obj)
    return VOLUME_SECONDS if kind.kind.startswith("PersistentVolume") else DEFAULT_SECONDS


def _expression(written: str) -> Rule:
    how, _, rest = written.partition("=")
    name, _, value = rest.partition("=")
    if how == "condition":
        return _condition(name, value or "True")
    if how == "jsonpath" and name.startswith("{.") and name.endswith("}"):
        return _json_path(name[2:-1].split("."), value)
    raise ValueError(
        f'{WAIT_FOR}: "{written}" is given: write jsonpath={{.status.phase}}=Running or '
        "condition=Ready; the offline plugin knows no other form"
    )


def _condition(name: str, value: str) -> Rule:
    def holds(obj: Object, look: Lookup) -> Verdict:
        found = {kind.lower(): row for kind, row in conditions(obj).items()}.get(name.lower(), {})
        if str(found.get("status")).lower() == value.lower():
            return READY
        return waiting(f'Waiting for condition "{name}" to be "{value}"')

    return holds


def _json_path(steps: list[str], value: str) -> Rule:
    """`value`: the value to wait for; empty for any."""

    def holds(obj: Object, look: Lookup) -> Verdict:
        found: Any = obj
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        if found is not None and value in ("", str(found)):
            return READY
        return waiting(f"Waiting for {{.{'.'.join(steps)}}}{value and ' to be '}{value}")

    return holds
