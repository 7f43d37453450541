"""Pods in the resources of a stack, and which of its nodes they can reach, as far as is known."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.catalog import kubernetes as names
from policy.pool import Pool, known_labels
from policy.reading import UNKNOWN, Resource, each, entries, get, number

_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Kind -> where its pod's template is."""
_SET_BY_OTHERS = ("amazonaws.com", "nvidia.com", "k8s.io", "kubernetes.io", "google.com")
"""Domains of labels that a cloud, the kubelet or a discovery pod may add to those declared."""
_PLUGIN_SOCKETS = "/var/lib/kubelet/device-plugins"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """The pods of one Kubernetes object."""

    resource: Resource
    kind: str
    spec: Mapping[str, Any]

    @property
    def namespace(self) -> Any:
        """`default` where none is given."""
        return get(self.resource.props, "metadata", "namespace") or "default"

    @property
    def title(self) -> str:
        """`deployment sample-gpu-pod`."""
        name = get(self.resource.props, "metadata", "name")
        return f"{self.kind.lower()} {name if isinstance(name, str) else self.resource.name}"

    @property
    def containers(self) -> list[Any]:
        """Every container, those that run first included; an item may be `UNKNOWN`."""
        return [*each(self.spec, "initContainers"), *each(self.spec, "containers")]


def pods_of(resource: Resource) -> list[Pods]:
    """The pods that a resource makes; none where it makes none or their shape is not known."""
    if not resource.type.startswith("kubernetes:"):
        return []
    kind = resource.type.rpartition(":")[2]
    if kind == "JobSet":
        templates = [
            get(job, "template", "spec", "template")
            for job in each(resource.props, "spec", "replicatedJobs")
        ]
    elif kind in _TEMPLATES:
        templates = [get(resource.props, *_TEMPLATES[kind])]
    else:
        return []
    specs = [get(template, "spec") for template in templates]
    return [
        Pods(resource=resource, kind=kind, spec=spec) for spec in specs if isinstance(spec, Mapping)
    ]


def container_name(container: Any) -> str:
    """The container's name, or what to call it."""
    name = get(container, "name")
    return name if isinstance(name, str) else "?"


def gpus_in(container: Any, part: str) -> Mapping[str, Any] | None:
    """The GPU resources in a container's `limits` or `requests`; None where not known."""
    amounts = entries(container, "resources", part)
    if amounts is None or container is UNKNOWN:
        return None
    return {name: amount for name, amount in amounts.items() if _is_gpu(name)}


def asks_for_gpu(pods: Pods) -> bool | None:
    """Whether a container has a GPU in its limits; None where that is not known."""
    limits = [gpus_in(container, "limits") for container in pods.containers]
    if any(limit and any(number(_count(amount)) != 0 for amount in limit.values())
           for limit in limits):  # fmt: skip
        return True
    return None if any(limit is None for limit in limits) else False


def tolerates(pods: Pods, taint: Any) -> bool | None:
    """Whether the pods pass a taint (key, value, effect); None where that is not known."""
    if taint is UNKNOWN or UNKNOWN in taint:
        return None
    key, value, effect = taint
    if effect == "PreferNoSchedule":
        return True
    unsure = False
    for toleration in each(pods.spec, "tolerations"):
        given = {field: get(toleration, field) for field in ("key", "operator", "value", "effect")}
        if toleration is UNKNOWN or UNKNOWN in given.values():
            unsure = True
            continue
        same_value = given["operator"] == "Exists" or (given["value"] or "") == (value or "")
        same_key = given["key"] in (None, "", key)
        if same_key and same_value and given["effect"] in (None, "", effect):
            return True
    return None if unsure else False


def reaches(pods: Pods, pool: Pool) -> bool | None:
    """Whether the pods' node selector and affinity fit the pool's nodes; None where not known.

    Taints are not looked at.
    """
    labels = known_labels(pool)
    selector = entries(pods.spec, "nodeSelector")
    if labels is None or selector is None:
        return None
    verdicts = [_equal(_label(labels, key), value) for key, value in selector.items()]
    verdicts.append(_affinity(pods, labels))
    return _all(verdicts)


def installs_driver(pods: Pods) -> bool | None:
    """Whether this is a DaemonSet that installs NVIDIA's driver on its nodes; None: unknown."""
    if pods.kind != "DaemonSet":
        return False
    privileged = _any(
        _equal(get(container, "securityContext", "privileged"), True)
        for container in pods.containers
    )
    named = _any(
        None if word is UNKNOWN else "driver" in str(word) or "nvidia-installer" in str(word)
        for container in pods.containers
        for word in (get(container, "name"), get(container, "image"))
    )
    return _all([privileged, named])


def plugs_devices(pods: Pods) -> bool | None:
    """Whether this is a DaemonSet that registers NVIDIA's GPUs with the kubelet; None: unknown."""
    if pods.kind != "DaemonSet":
        return False
    sockets = _any(
        None if path is UNKNOWN else str(path).rstrip("/") == _PLUGIN_SOCKETS
        for path in (get(volume, "hostPath", "path") for volume in each(pods.spec, "volumes"))
    )
    theirs = _any(
        None if image is UNKNOWN else "nvidia" in str(image)
        for image in (get(container, "image") for container in pods.containers)
    )
    return _all([sockets, theirs])


def variables(pods: Pods) -> Iterator[tuple[Any, str, Any]]:
    """Container, name and value of every environment variable that is known."""
    for container in pods.containers:
        for variable in each(container, "env"):
            name = get(variable, "name")
            if isinstance(name, str):
                yield container, name, get(variable, "value")


def _is_gpu(name: str) -> bool:
    return name == names.GPU_RESOURCE or name.startswith(
        (names.SHARED_GPU_RESOURCE, names.MIG_RESOURCE_PREFIX)
    )


def _count(amount: Any) -> Any:
    return int(amount) if isinstance(amount, str) and amount.isdigit() else amount


def _label(labels: Mapping[str, Any], key: str) -> Any:
    """The label's value; None where nodes do not have it, `UNKNOWN` where they may."""
    if key in labels:
        return labels[key]
    prefix, slash, _ = key.rpartition("/")
    foreign = slash and any(
        prefix == domain or prefix.endswith(f".{domain}") for domain in _SET_BY_OTHERS
    )
    absent = key == names.GKE_GPU_DRIVER_VERSION
    return UNKNOWN if foreign and not absent else None


def _equal(found: Any, wanted: Any) -> bool | None:
    return None if found is UNKNOWN or wanted is UNKNOWN else found == wanted


def _affinity(pods: Pods, labels: Mapping[str, Any]) -> bool | None:
    affinity = get(pods.spec, "affinity", "nodeAffinity")
    required = get(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    terms = each(required, "nodeSelectorTerms")
    verdicts = [
        None
        if term is UNKNOWN
        else _all([_expression(e, labels) for e in each(term, "matchExpressions")])
        for term in terms
    ]
    return _any(verdicts)


def _expression(expression: Any, labels: Mapping[str, Any]) -> bool | None:
    key, operator = get(expression, "key"), get(expression, "operator")
    values = each(expression, "values")
    if expression is UNKNOWN or key is UNKNOWN or operator is UNKNOWN or UNKNOWN in values:
        return None
    found = _label(labels, key)
    if found is UNKNOWN:
        # A label whose value is not known is there all the same.
        there = key in labels
        return {"Exists": True, "DoesNotExist": False}.get(operator) if there else None
    match operator:
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case _:
            return None


def _all(verdicts: Sequence[bool | None]) -> bool | None:
    if any(verdict is False for verdict in verdicts):
        return False
    return None if any(verdict is None for verdict in verdicts) else True


def _any(verdicts: Iterable[bool | None]) -> bool | None:
    seen = list(verdicts)
    if any(verdict is True for verdict in seen):
        return True
    return None if any(verdict is None for verdict in seen) else False
