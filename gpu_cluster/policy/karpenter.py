"""Pools whose nodes Karpenter or EKS Auto Mode starts.

The fields are those of Karpenter 1.15.0 (components/crds) and of Auto Mode's NodeClass
(components/eks/auto_nodes.py names the page).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from gpu_cluster.components.catalog import eks
from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.catalog.aws_prices import eks_node
from gpu_cluster.policy.pool import Pool, Software, dearest, fitting, taint_of
from gpu_cluster.policy.reading import (
    UNKNOWN,
    Resource,
    entries,
    get,
    is_off,
    items,
    number,
    of_type,
)

NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
EC2_NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
AUTO_NODE_CLASS = "kubernetes:eks.amazonaws.com/v1:NodeClass"
_IN_GIB = 2**30
_OVERHEAD = 0.925
"""Share of its memory that a node reports: Karpenter's `vmMemoryOverheadPercent` is 0.075."""
_FAMILY = ("instance-family", "instance-category")
_IMAGE = ["the image"]


def pool(resource: Resource, resources: Sequence[Resource]) -> Pool | None:
    """A NodePool. If `spec.replicas` is set, it is the number of its nodes."""
    if resource.type != NODE_POOL:
        return None
    spec = get(resource.props, "spec")
    template = get(spec, "template")
    types, gpu = _required(items(template, "spec", "requirements"))
    replicas = get(spec, "replicas")
    most, price = dearest([
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
        taints=[taint_of(taint, cloud=False) for taint in items(template, "spec", "taints")],
        least=0 if replicas is None else replicas,
        most=most,
        limit="spec.limits.nodes",
        price=price,
    )


def _required(requirements: Sequence[Any]) -> tuple[list[str] | None, bool]:
    """Instance types that are listed, None if they are not known; and whether they have GPUs."""
    types: list[str] | None = []
    gpu = False
    for requirement in requirements:
        key, values = get(requirement, "key"), items(requirement, "values")
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
    return fitting(limits, shape)


def software(pool: Pool, resources: Sequence[Resource], *, maybe: bool) -> Software | None:
    """What the image of the nodes has, or `maybe` may have."""
    if pool.resource.type != NODE_POOL:
        return None
    reference = get(pool.resource.props, "spec", "template", "spec", "nodeClassRef")
    if get(reference, "group") == "eks.amazonaws.com":
        return _IMAGE, _IMAGE
    families = {family for row in _classes(reference, resources) for family in _families(row)}
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
    for term in items(node_class.props, "spec", "amiSelectorTerms"):
        alias = get(term, "alias")
        yield alias.partition("@")[0] if isinstance(alias, str) else UNKNOWN


def nodes_private(resource: Resource) -> Iterator[str]:
    """A node class gives its nodes no public addresses."""
    if resource.type not in (EC2_NODE_CLASS, AUTO_NODE_CLASS):
        return
    for path in (("associatePublicIPAddress",), ("advancedNetworking", "associatePublicIPAddress")):
        if get(resource.props, "spec", *path) is True:
            kind = resource.type.rpartition(":")[2]
            yield (
                f"{kind} {resource.name} gives nodes public addresses; drop spec.{'.'.join(path)}"
            )


def instance_metadata(resource: Resource, *, hops: float) -> Iterator[str]:
    """Pods cannot get the node's role. Defaults of the EC2NodeClass of Karpenter 1.15.0: IMDSv2,
    one hop (components/crds)."""
    options = get(resource.props, "spec", "metadataOptions")
    if resource.type != EC2_NODE_CLASS or get(options, "httpEndpoint") == "disabled":
        return
    if get(options, "httpTokens") == "optional":
        yield (
            f"EC2NodeClass {resource.name} allows IMDSv1; set spec.metadataOptions"
            ".httpTokens to required"
        )
    limit = number(get(options, "httpPutResponseHopLimit"))
    if limit is not None and limit > hops:
        yield (
            f"EC2NodeClass {resource.name} sets {limit:g} as hop limit for instance "
            f"metadata, so pods may get the node's role; set it to {hops:g}"
        )


def disks_encrypted(resource: Resource) -> Iterator[str]:
    """Without mappings Karpenter encrypts the volumes (DefaultEBS in pkg/providers/amifamily/
    resolver.go of 1.15.0); a mapping has no default (components/crds)."""
    if resource.type != EC2_NODE_CLASS:
        return
    for mapping in items(resource.props, "spec", "blockDeviceMappings"):
        if is_off(get(mapping, "ebs", "encrypted")):
            yield (
                f"EC2NodeClass {resource.name}: volume {get(mapping, 'deviceName')} is not "
                "encrypted; set ebs.encrypted"
            )
