"""Pools whose nodes GKE creates for a ComputeClass.

The fields are those of GKE's custom compute classes (components/gke/classes.py names the page).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_cluster.components.catalog import gke
from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.catalog.clouds import GOOGLE
from gpu_cluster.components.catalog.google_prices import gke_node
from gpu_cluster.components.catalog.prices import NodePrice
from gpu_cluster.policy.pool import Pool, Software, dearest, fitting, taint_of
from gpu_cluster.policy.reading import UNKNOWN, Resource, entries, get, items, number, of_type

COMPUTE_CLASS = "kubernetes:cloud.google.com/v1:ComputeClass"


def pool(resource: Resource, resources: Sequence[Resource]) -> Pool | None:
    """A ComputeClass that creates node pools; None for one that only uses existing ones, and on
    Autopilot, where nodes have neither a price nor a limit here."""
    if resource.type != COMPUTE_CLASS:
        return None
    spec, cluster = get(resource.props, "spec"), _cluster(resource, resources)
    autopilot = cluster is not None and get(cluster.props, "enableAutopilot") is True
    if autopilot or get(spec, "nodePoolAutoCreation", "enabled") is not True:
        return None
    rules = [rule for rule in items(spec, "priorities") if get(rule, "nodepools") is None]
    limits = _limits(cluster)
    most, price = dearest([_choice(rule, limits) for rule in rules if rule is not UNKNOWN])
    if UNKNOWN in rules or any(_is_unknown(rule) for rule in rules):
        most, price = UNKNOWN, None
    gpu = any(_has_gpu(rule) for rule in rules)
    name = get(resource.props, "metadata", "name")
    node_labels = entries(spec, "nodePoolConfig", "nodeLabels")
    driver = _driver_of(resource)
    labels = None if node_labels is None else {**node_labels, names.GKE_COMPUTE_CLASS: name}
    if labels is not None and gpu and driver != "disabled":
        labels[names.GKE_GPU_DRIVER_VERSION] = UNKNOWN if driver is None else driver
    given = items(spec, "nodePoolConfig", "taints")
    # GKE adds these itself.
    own: list[Any] = [(names.GKE_COMPUTE_CLASS, name, "NoSchedule")]
    if gpu:
        own.append((names.GPU_RESOURCE, "present", "NoSchedule"))
    return Pool(
        resource=resource,
        gpu=gpu,
        labels=labels,
        taints=[*(taint_of(taint, cloud=False) for taint in given), *own],
        least=0,
        most=most,
        limit="clusterAutoscaling.resourceLimits of the cluster",
        shared=(resource.provider, next((get(rule, "gpu", "type") for rule in rules), None)),
        price=price,
    )


def _driver_of(resource: Resource) -> Any:
    """`driverVersion` of a class's first choice with GPUs; None if it is not set."""
    rules = items(resource.props, "spec", "priorities")
    return next((get(rule, "gpu", "driverVersion") for rule in rules if get(rule, "gpu")), None)


def _has_gpu(rule: Any) -> bool:
    machine = get(rule, "machineType")
    machine_type = gke.machine_type(machine) if isinstance(machine, str) else None
    return isinstance(get(rule, "gpu"), Mapping) or (
        machine_type is not None and machine_type.accelerator is not None
    )


def _is_unknown(rule: Any) -> bool:
    return UNKNOWN in (
        get(rule, "machineType"), get(rule, "gpu", "type"), get(rule, "gpu", "count")
    )  # fmt: skip


def _choice(rule: Any, limits: Any) -> tuple[Any, NodePrice]:
    machine, model = get(rule, "machineType"), get(rule, "gpu", "type")
    gpus = number(get(rule, "gpu", "count")) or 0
    machine = machine if isinstance(machine, str) else ""
    model = model if isinstance(model, str) else None
    price = gke_node(machine, model, int(gpus))
    if limits is UNKNOWN:
        return UNKNOWN, price
    row = gke.machine_type(machine)
    shape: dict[str, float] = {} if row is None else {"cpu": row.vcpu, "memory": row.memory_gib}
    if model:
        shape[model] = gpus
    return fitting(limits, shape), price


def _cluster(resource: Resource, resources: Sequence[Resource]) -> Resource | None:
    """The cluster of the class; None for a cluster outside of the stack."""
    clusters = list(of_type(resources, GOOGLE.cluster))
    mine = [entry for entry in clusters if entry.name == resource.provider] or clusters
    return mine[0] if len(mine) == 1 else None


def _limits(cluster: Resource | None) -> Any:
    """Resource -> limit of the nodes that the cluster may create; `UNKNOWN` if it is None."""
    if cluster is None:
        return UNKNOWN
    scaling = get(cluster.props, "clusterAutoscaling")
    if UNKNOWN in (scaling, get(scaling, "enabled")):
        return UNKNOWN
    limits = items(scaling, "resourceLimits")
    if any(UNKNOWN in (entry, get(entry, "resourceType")) for entry in limits):
        return UNKNOWN
    return {get(entry, "resourceType"): get(entry, "maximum") for entry in limits}


def software(pool: Pool, resources: Sequence[Resource], *, maybe: bool) -> Software | None:
    """What GKE installs on the nodes."""
    if pool.resource.type != COMPUTE_CLASS:
        return None
    version = _driver_of(pool.resource)
    managed = version in ("default", "latest") or (maybe and version in (None, UNKNOWN))
    return ["GKE"] if managed else [], ["GKE"]
