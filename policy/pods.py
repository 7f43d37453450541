"""Pods in the resources of a stack, and which of its nodes they can reach, as far as is known."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.catalog import kubernetes as names
from components.kube import gpu_daemons, quantity, selectors, taints
from policy.pool import Pool, known_labels
from policy.reading import UNKNOWN, Resource, each, entries, get

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
    if any(limit and any(quantity.or_none(amount) != 0 for amount in limit.values())
           for limit in limits):  # fmt: skip
        return True
    return None if any(limit is None for limit in limits) else False


def tolerates(pods: Pods, taint: Any) -> bool | None:
    """Whether the pods pass a taint (key, value, effect); None where that is not known."""
    if taint is UNKNOWN:
        return None
    key, value, effect = taint
    if effect is not UNKNOWN and not taints.keeps_away(effect):
        return True
    return taints.tolerated(each(pods.spec, "tolerations"), key=key, value=value, effect=effect)


def reaches(pods: Pods, pool: Pool) -> bool | None:
    """Whether the pods' node selector and affinity fit the pool's nodes; None where not known.

    Taints are not looked at.
    """
    labels = known_labels(pool)
    return None if labels is None else selectors.selects(pods.spec, labels, perhaps=_set_by_others)


def installs_driver(pods: Pods) -> bool | None:
    """Whether this is a DaemonSet that installs NVIDIA's driver on its nodes; None: unknown."""
    return pods.kind == "DaemonSet" and gpu_daemons.installs_driver(pods.spec)


def plugs_devices(pods: Pods) -> bool | None:
    """Whether this is a DaemonSet that registers NVIDIA's GPUs with the kubelet; None: unknown."""
    return pods.kind == "DaemonSet" and gpu_daemons.is_device_plugin(pods.spec)


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


def _set_by_others(key: str) -> bool:
    """Whether nodes may have a label of this key although no pool declares it."""
    prefix, slash, _ = key.rpartition("/")
    foreign = any(prefix == domain or prefix.endswith(f".{domain}") for domain in _SET_BY_OTHERS)
    return bool(slash) and foreign and key != names.GKE_GPU_DRIVER_VERSION
