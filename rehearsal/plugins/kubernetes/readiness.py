"""When an object is ready, by kind: the official provider's rules, as pure functions.

Sources: https://github.com/pulumi/pulumi-kubernetes/tree/master/provider/pkg/await and, for
DaemonSets, kstatus. Other kinds are ready as soon as they exist.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from components.kube.quantity import or_none
from rehearsal.plugins.kubernetes.objects import (
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
    return Verdict(False, reason)


class Lookup(Protocol):
    """Reads other objects that an object's readiness depends on."""

    def get(self, kind: Kind, namespace: str, name: str) -> Object: ...

    def list(self, kind: Kind, namespace: str, selector: str = "") -> list[Object]: ...


Rule = Callable[[Object, Lookup], Verdict]


def conditions(obj: Object) -> dict[str, Object]:
    """The status conditions by type."""
    return {each["type"]: each for each in (obj.get("status") or {}).get("conditions") or []}


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


def stateful_set(obj: Object, look: Lookup) -> Verdict:
    spec, status = obj["spec"], obj.get("status") or {}
    wanted = spec.get("replicas", 1)
    if not _observed(obj):
        return waiting("the StatefulSet controller has not seen this generation yet")
    if status.get("readyReplicas", 0) < wanted:
        return waiting(
            f"{status.get('readyReplicas', 0)} out of {wanted} replicas succeeded readiness"
        )
    partition = ((spec.get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition")
    if not partition and status.get("currentRevision") != status.get("updateRevision"):
        return waiting(".status.currentRevision does not match .status.updateRevision")
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
        for each in slices
        for endpoint in each.get("endpoints") or []
    )


def ingress(obj: Object, look: Lookup) -> Verdict:
    status = obj.get("status") or {}
    if not (status.get("loadBalancer") or {}).get("ingress"):
        return waiting(
            "Ingress .status.loadBalancer field was not updated with a hostname/IP address"
        )
    return READY


def volume(obj: Object, look: Lookup) -> Verdict:
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
    wanted = (obj.get("spec") or {}).get("hard") or {}
    held = (obj.get("status") or {}).get("hard") or {}
    same = all(or_none(held.get(name)) == or_none(value) for name, value in wanted.items())
    return READY if same else waiting("the quota is not enforced yet")


def namespace(obj: Object, look: Lookup) -> Verdict:
    phase = (obj.get("status") or {}).get("phase")
    return READY if phase in (None, "Active") else waiting(f"the namespace is {phase}")


RULES: Mapping[tuple[str, str], Rule] = {
    ("apps", "Deployment"): deployment,
    ("apps", "DaemonSet"): daemon_set,
    ("apps", "StatefulSet"): stateful_set,
    ("batch", "Job"): job,
    ("", "Pod"): pod,
    ("", "Service"): service,
    ("", "PersistentVolume"): volume,
    ("", "PersistentVolumeClaim"): claim,
    ("", "ResourceQuota"): quota,
    ("", "Namespace"): namespace,
    ("networking.k8s.io", "Ingress"): ingress,
}

SKIPS_WAIT_ON_DELETE = {
    ("", "Namespace"), ("", "Pod"), ("", "ReplicationController"), ("apps", "DaemonSet"),
    ("apps", "Deployment"), ("apps", "StatefulSet"), ("batch", "Job"),
}  # fmt: skip
"""Kinds whose skipAwait annotation also skips the wait for their end, for compatibility:
https://github.com/pulumi/pulumi-kubernetes/issues/3154."""


def rule_for(obj: Object) -> Rule | None:
    """The rule for an object: its waitFor annotation (ValueError if invalid), or the kind's."""
    if wanted := annotation(obj, WAIT_FOR):
        return _all([_expression(each) for each in _list(wanted)])
    kind = kind_of(obj)
    return RULES.get((kind.group, kind.kind))


def default_seconds(obj: Object) -> float:
    kind = kind_of(obj)
    volumes = ("PersistentVolume", "PersistentVolumeClaim")
    return VOLUME_SECONDS if not kind.group and kind.kind in volumes else DEFAULT_SECONDS


def _list(written: str) -> list[str]:
    try:
        values = json.loads(written)
    except json.JSONDecodeError:
        return [written]
    if not isinstance(values, list) or not values:
        raise ValueError(
            f"{WAIT_FOR}: {written} is given: at least one condition must be specified"
        )
    return [str(value) for value in values]


def _all(rules: list[Rule]) -> Rule:
    def every(obj: Object, look: Lookup) -> Verdict:
        verdicts = (rule(obj, look) for rule in rules)
        return next((verdict for verdict in verdicts if not verdict.ready), READY)

    return every


def _expression(written: str) -> Rule:
    how, _, rest = written.partition("=")
    if how == "condition":
        name, _, value = rest.partition("=")
        return _condition(name, value or "True")
    if how == "jsonpath" and (match := re.fullmatch(r"(\{[^{}]+\})(?:=(.*))?", rest)):
        return _json_path(match[1], match[2])
    raise ValueError(
        f'{WAIT_FOR}: expected a "jsonpath=" or "condition=" prefix, got "{written}": '
        "write jsonpath={.status.phase}=Running or condition=Ready"
    )


def _condition(name: str, value: str) -> Rule:
    def holds(obj: Object, look: Lookup) -> Verdict:
        found = {kind.lower(): each for kind, each in conditions(obj).items()}.get(name.lower(), {})
        if str(found.get("status")).lower() == value.lower():
            return READY
        return waiting(f'Waiting for condition "{name}" to be "{value}"')

    return holds


def _json_path(path: str, value: str | None) -> Rule:
    steps = re.findall(r"\[(\d+)\]|\['([^']+)'\]|\.((?:\\.|[^.\[\\])+)", path[1:-1])

    def holds(obj: Object, look: Lookup) -> Verdict:
        found: Any = obj
        for index, quoted, name in steps:
            key = quoted or name.replace("\\.", ".")
            if index and isinstance(found, list) and int(index) < len(found):
                found = found[int(index)]
            elif not index and isinstance(found, dict) and key in found:
                found = found[key]
            else:
                return waiting(f"Waiting for {path} to exist")
        shown = str(found).lower() if isinstance(found, bool) else str(found)
        if value is None or shown == value.strip("'\""):
            return READY
        return waiting(f"Waiting for {path} to be {value}, it is {shown}")

    return holds
