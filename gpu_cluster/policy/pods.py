"""Pods in the resources of a stack, and the nodes that they can reach, as far as known."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.kube import gpu_daemons, quantity, selectors, taints
from gpu_cluster.components.kube.partial import any_of
from gpu_cluster.policy.pool import Pool
from gpu_cluster.policy.reading import UNKNOWN, Resource, entries, get, items

_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "Deployment": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Kubernetes kind -> the path of its pod template."""
_BUILT_IN = ("admissionregistration.k8s.io", "apiextensions.k8s.io", "apps", "autoscaling", "batch",
             "core", "extensions", "meta", "networking.k8s.io", "policy",
             "rbac.authorization.k8s.io", "storage.k8s.io")  # fmt: skip
"""API groups with known kinds: in all others, any map with a list of containers is a pod."""
_DEPTH = 16
"""Levels of a custom resource that are searched."""
_CLOUDS = (domain for cloud in CLOUDS.values() for domain in cloud.label_domains)
_SET_BY_OTHERS = ("nvidia.com", "k8s.io", "kubernetes.io", *_CLOUDS)
"""Domains of labels that a cloud, the kubelet or a discovery pod may add to declared ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """The pods of one Kubernetes object."""

    resource: Resource
    kind: str
    object: Mapping[str, Any]
    """The object that creates them: the resource's, or an item of a list."""
    metadata: Mapping[str, Any]
    """The pods' own metadata; empty if there is none, or if it is not known."""
    spec: Mapping[str, Any]

    @property
    def namespace(self) -> Any:
        """The namespace; `default` if it is not set."""
        return get(self.object, "metadata", "namespace") or "default"

    @property
    def name(self) -> Any:
        """The object's name; the resource's if Pulumi generates it."""
        return get(self.object, "metadata", "name") or self.resource.name

    @property
    def title(self) -> str:
        """For example `deployment sample-gpu-pod`."""
        name = self.name
        return f"{self.kind.lower()} {name if isinstance(name, str) else self.resource.name}"

    @property
    def containers(self) -> list[Any]:
        """All containers, of any kind; an item may be `UNKNOWN`."""
        sorts = ("initContainers", "containers", "ephemeralContainers")
        return [container for sort in sorts for container in items(self.spec, sort)]

    def fits(self, pattern: str) -> bool:
        """Whether a pattern of `namespace/kind/name` is known to match these pods' object."""
        is_known = all(isinstance(word, str) for word in (self.namespace, self.name))
        return is_known and fnmatchcase(f"{self.namespace}/{self.kind}/{self.name}", pattern)


def pods_of(resource: Resource) -> list[Pods]:
    """The pods that a resource creates; empty if it creates none, or if they are not known."""
    system, _, token = resource.type.partition(":")
    if system != "kubernetes":
        return []
    group, _, kind = token.rpartition(":")
    # A patch of an object contains its future state; a list contains objects.
    kind, whole = kind.removesuffix("Patch"), kind.removesuffix("List")
    if kind not in _TEMPLATES and whole in _TEMPLATES:
        objects, kind = items(resource.props, "items"), whole
    else:
        objects = [resource.props]
    result = []
    for obj in objects:
        if kind in _TEMPLATES:
            templates = [get(obj, *_TEMPLATES[kind])]
        else:
            templates = [] if group.rpartition("/")[0] in _BUILT_IN else list(_templates(obj))
        for template in templates:
            spec, metadata = get(template, "spec"), entries(template, "metadata")
            if isinstance(spec, Mapping):
                result.append(
                    Pods(
                        resource=resource, kind=kind, object=obj, metadata=metadata or {}, spec=spec
                    )
                )
    return result


def _templates(value: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """Everything that looks like a pod template: a map with a `spec` with a list of containers."""
    if depth == 0:
        return
    if isinstance(value, Mapping):
        if isinstance(get(value, "spec", "containers"), list):
            yield value
            return
        for item in value.values():
            yield from _templates(item, depth - 1)
    elif isinstance(value, list):
        for item in value:
            yield from _templates(item, depth - 1)


def container_name(container: Any) -> str:
    """The container's name, or a substitute for it."""
    name = get(container, "name")
    return name if isinstance(name, str) else "?"


def gpus_in(container: Any, part: str) -> Mapping[str, Any] | None:
    """The GPU resources in a container's `limits` or `requests`; None if not known."""
    amounts = entries(container, "resources", part)
    if amounts is None or container is UNKNOWN:
        return None
    return {name: amount for name, amount in amounts.items() if _is_gpu(name)}


def asks_for_gpu(pods: Pods) -> bool | None:
    """Whether a container has GPUs in its limits; None if that is not known, or the pod claims
    devices, which may be GPUs."""
    limits = [gpus_in(container, "limits") for container in pods.containers]
    if any(
        limit and any(quantity.or_none(amount) != 0 for amount in limit.values())
        for limit in limits
    ):
        return True
    return None if claims_devices(pods) or any(limit is None for limit in limits) else False


def claims_devices(pods: Pods) -> bool:
    """Whether the pods have ResourceClaims."""
    return get(pods.spec, "resourceClaims") is not None


def tolerates(pods: Pods, taint: Any) -> bool | None:
    """Whether the pods tolerate a taint (key, value, effect); None if that is not known."""
    if taint is UNKNOWN:
        return None
    key, value, effect = taint
    if effect is not UNKNOWN and not taints.keeps_away(effect):
        return True
    return taints.tolerated(items(pods.spec, "tolerations"), key=key, value=value, effect=effect)


def reaches(pods: Pods, pool: Pool) -> bool | None:
    """Whether the pods' node selector and affinity match the pool's nodes; None if not known.

    Taints are ignored.
    """
    labels = pool.known_labels
    return None if labels is None else selectors.selects(pods.spec, labels, perhaps=_set_by_others)


def installs_driver(pods: Pods) -> bool | None:
    """Whether it is a DaemonSet that installs NVIDIA's driver on its nodes; None: not known."""
    return pods.kind == "DaemonSet" and gpu_daemons.installs_driver(pods.spec)


def plugs_devices(pods: Pods) -> bool | None:
    """Whether it is a DaemonSet that registers NVIDIA's GPUs with the kubelet, or publishes them to
    be claimed; None: not known."""
    known = (gpu_daemons.is_device_plugin(pods.spec), gpu_daemons.is_dra_driver(pods.spec))
    return pods.kind == "DaemonSet" and any_of(known)


def variables(pods: Pods) -> Iterator[tuple[Any, str, Any]]:
    """Container, name and value of every environment variable that is known."""
    for container in pods.containers:
        for variable in items(container, "env"):
            name = get(variable, "name")
            if isinstance(name, str):
                yield container, name, get(variable, "value")


def _is_gpu(name: str) -> bool:
    return name == names.GPU_RESOURCE or name.startswith(
        (names.SHARED_GPU_RESOURCE, names.MIG_RESOURCE_PREFIX)
    )


def _set_by_others(key: str) -> bool:
    """Whether nodes may have a label with this key although no pool declares it."""
    prefix, slash, _ = key.rpartition("/")
    foreign = any(prefix == domain or prefix.endswith(f".{domain}") for domain in _SET_BY_OTHERS)
    return bool(slash) and foreign and key != names.GKE_GPU_DRIVER_VERSION
