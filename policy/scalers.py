"""Pools whose nodes a scaler starts itself: NodePools of Karpenter and EKS Auto Mode, and
ComputeClasses of GKE.

The fields are those of Karpenter 1.14.3 (components/crds), of Auto Mode's NodeClass and of GKE's
custom compute classes (components/eks/auto_nodes.py and components/gke/classes.py name the pages).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from components.catalog import eks, gke
from components.catalog import kubernetes as names
from components.catalog.clouds import GOOGLE
from components.catalog.node_prices import NodePrice, eks_node, gke_node
from components.kube import quantity
from policy.pool_shape import Pool
from policy.reading import UNKNOWN, Resource, each, entries, get, number, of_type

NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
EC2_NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
AUTO_NODE_CLASS = "kubernetes:eks.amazonaws.com/v1:NodeClass"
COMPUTE_CLASS = "kubernetes:cloud.google.com/v1:ComputeClass"

Software = tuple[list[str], list[str]]
"""The providers of the pool's driver, and those of its device plugin."""

_IN_GIB = 2**30
_OVERHEAD = 0.925
"""Share of its memory that a node reports: Karpenter's `vmMemoryOverheadPercent` is 0.075."""
_FAMILY = ("instance-family", "instance-category")
_IMAGE = ["the image"]


def karpenter_pool(resource: Resource) -> Pool:
    """A NodePool. If `spec.replicas` is set, it is the number of its nodes."""
    spec = get(resource.props, "spec")
    template = get(spec, "template")
    types, gpu = _required(each(template, "spec", "requirements"))
    replicas = get(spec, "replicas")
    most, price = _dearest([
        (replicas if replicas is not None else _nodes(spec, name), eks_node([name]))
        for name in types or ()
    ])  # fmt: skip
    if types is None or UNKNOWN in (spec, template):
        most, price = UNKNOWN, None
    elif not types:
        # It may start any instance type of the account, so its cost has no limit.
        most, price = (_nodes(spec, "") if replicas is None else replicas), eks_node([])
    return Pool(
        resource=resource,
        gpu=gpu,
        labels=entries(template, "metadata", "labels"),
        taints=[_taint(taint) for taint in each(template, "spec", "taints")],
        least=0 if replicas is None else replicas,
        most=most,
        price=price,
    )


def _required(requirements: Sequence[Any]) -> tuple[list[str] | None, bool]:
    """Instance types that are listed, None if they are not known; and whether they have GPUs."""
    types: list[str] | None = []
    gpu = False
    for requirement in requirements:
        key, values = get(requirement, "key"), each(requirement, "values")
        if UNKNOWN in (key, get(requirement, "operator"), *values):
            types = None
            continue
        if get(requirement, "operator") == "NotIn":
            continue
        part = str(key).rpartition("/")[2]
        if key == names.INSTANCE_TYPE:
            gpu = gpu or any(name in eks.INSTANCE_TYPES for name in values)
            types = None if types is None else [*types, *values]
        elif part in _FAMILY:
            gpu = gpu or any(_of_family(name, part) in values for name in eks.INSTANCE_TYPES)
        elif part.startswith("instance-gpu-"):
            gpu = gpu or get(requirement, "operator") != "DoesNotExist"
    return types, gpu


def _of_family(name: str, part: str) -> str:
    family = name.partition(".")[0]
    if part == "instance-family":
        return family
    return family[: next((at for at, letter in enumerate(family) if letter.isdigit()), len(family))]


def _nodes(spec: Any, instance_type: str) -> Any:
    """How many nodes of the instance type `spec.limits` allow; None if there is no limit."""
    limits = entries(spec, "limits")
    if limits is None:
        return UNKNOWN
    instance = eks.instance_type(instance_type)
    shape: dict[str, float] = {"nodes": 1}
    if instance is not None:
        shape |= {
            "cpu": instance.vcpu,
            "memory": instance.memory_gib * _OVERHEAD * _IN_GIB,
            names.GPU_RESOURCE: instance.gpus,
        }
    return _fitting(limits, shape)


def _fitting(limits: Mapping[str, Any], shape: Mapping[str, float]) -> Any:
    counts = []
    for resource, amount in shape.items():
        limit = limits.get(resource)
        if limit is UNKNOWN:
            return UNKNOWN
        most = quantity.or_none(limit)
        if most is not None and amount >= 1:
            counts.append(int(float(most) // amount))
    return min(counts, default=None)


def _dearest(shapes: Sequence[tuple[Any, NodePrice]]) -> tuple[Any, NodePrice | None]:
    """The choice that can cost the most; one without a limit or a price decides."""
    for nodes, price in shapes:
        if number(nodes) is None or price.most is None:
            return nodes, price
    most = max(shapes, key=lambda one: one[0] * (one[1].most or 0), default=None)
    return (UNKNOWN, None) if most is None else most


def compute_class(resource: Resource, resources: Sequence[Resource]) -> Pool | None:
    """A ComputeClass that creates node pools; None for one that only uses existing ones, and on
    Autopilot, where nodes have neither a price nor a limit here."""
    spec, cluster = get(resource.props, "spec"), _cluster(resource, resources)
    autopilot = cluster is not None and get(cluster.props, "enableAutopilot") is True
    if autopilot or get(spec, "nodePoolAutoCreation", "enabled") is not True:
        return None
    rules = [rule for rule in each(spec, "priorities") if get(rule, "nodepools") is None]
    limits = _limits(cluster)
    most, price = _dearest([_choice(rule, limits) for rule in rules if rule is not UNKNOWN])
    if UNKNOWN in rules or any(_is_unknown(rule) for rule in rules):
        most, price = UNKNOWN, None
    gpu = any(_has_gpu(rule) for rule in rules)
    name = get(resource.props, "metadata", "name")
    node_labels = entries(spec, "nodePoolConfig", "nodeLabels")
    driver = driver_of(resource)
    labels = None if node_labels is None else {**node_labels, names.GKE_COMPUTE_CLASS: name}
    if labels is not None and gpu and driver != "disabled":
        labels[names.GKE_GPU_DRIVER_VERSION] = UNKNOWN if driver is None else driver
    # GKE adds these itself.
    own: list[Any] = [(names.GKE_COMPUTE_CLASS, name, "NoSchedule")]
    if gpu:
        own.append((names.GPU_RESOURCE, "present", "NoSchedule"))
    return Pool(
        resource=resource,
        gpu=gpu,
        labels=labels,
        taints=[*(_taint(taint) for taint in each(spec, "nodePoolConfig", "taints")), *own],
        least=0,
        most=most,
        price=price,
    )


def driver_of(resource: Resource) -> Any:
    """`driverVersion` of a class's first choice with GPUs; None if it is not set."""
    rules = each(resource.props, "spec", "priorities")
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
    return _fitting(limits, shape), price


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
    limits = each(scaling, "resourceLimits")
    if any(UNKNOWN in (entry, get(entry, "resourceType")) for entry in limits):
        return UNKNOWN
    return {get(entry, "resourceType"): get(entry, "maximum") for entry in limits}


def counted_once(pools: Sequence[Pool], costs: Mapping[str, float]) -> dict[str, float]:
    """Removes classes that share a limit of their cluster with one that can cost more."""
    shared: dict[tuple[Any, Any], str] = {}
    left = dict(costs)
    for pool in pools:
        if pool.resource.type != COMPUTE_CLASS or pool.name not in left:
            continue
        rules = each(pool.resource.props, "spec", "priorities")
        key = (pool.resource.provider, next((get(r, "gpu", "type") for r in rules), None))
        other = shared.setdefault(key, pool.name)
        if other != pool.name:
            cheaper = min(pool.name, other, key=lambda name: costs[name])
            shared[key] = pool.name if cheaper == other else other
            del left[cheaper]
    return left


def software(pool: Pool, resources: Sequence[Resource], *, maybe: bool) -> Software:
    """What the cloud installs on such nodes. With `maybe`, also what it may install."""
    if pool.resource.type == COMPUTE_CLASS:
        version = driver_of(pool.resource)
        managed = version in ("default", "latest") or (maybe and version in (None, UNKNOWN))
        return ["GKE"] if managed else [], ["GKE"]
    reference = get(pool.resource.props, "spec", "template", "spec", "nodeClassRef")
    if get(reference, "group") == "eks.amazonaws.com":
        return _IMAGE, _IMAGE
    families = {family for one in _classes(reference, resources) for family in _families(one)}
    if not families or UNKNOWN in families:
        return (_IMAGE, _IMAGE) if maybe else ([], [])
    return (
        _IMAGE if families <= {"al2023", "al2", "bottlerocket"} else [],
        _IMAGE if families == {"bottlerocket"} else [],
    )


def _classes(reference: Any, resources: Sequence[Resource]) -> Iterator[Resource]:
    for node_class in of_type(resources, EC2_NODE_CLASS):
        if get(node_class.props, "metadata", "name") in (get(reference, "name"), UNKNOWN):
            yield node_class


def _families(node_class: Resource) -> Iterator[Any]:
    """Families of the images that Karpenter chooses; `UNKNOWN` for a custom image."""
    for term in each(node_class.props, "spec", "amiSelectorTerms"):
        alias = get(term, "alias")
        yield alias.partition("@")[0] if isinstance(alias, str) else UNKNOWN


def _taint(taint: Any) -> Any:
    if taint is UNKNOWN:
        return UNKNOWN
    return (get(taint, "key"), get(taint, "value"), get(taint, "effect"))
