"""Rules on node pools: what a pool is, on both clouds, and what each has to be like."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.catalog import eks, gke
from components.catalog import kubernetes as names
from components.catalog.node_prices import NodePrice, eks_node, gke_node
from policy.reading import UNKNOWN, Resource, differs, each, entries, get, is_off, is_one_of, number

GKE_POOL = "gcp:container/nodePool:NodePool"
EKS_POOL = "aws:eks/nodeGroup:NodeGroup"
LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"

_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    "NO_EXECUTE": "NoExecute",
}
_OWN_MODULES = "INSTALLATION_DISABLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A GKE node pool or an EKS node group; any value may be `UNKNOWN`."""

    resource: Resource
    gpu: bool
    """Whether it is known to carry GPUs."""
    labels: Any
    """Declared labels, a map."""
    taints: list[Any]
    """(key, value, effect in Kubernetes spelling) or `UNKNOWN`."""
    least: Any
    """Nodes that are always there."""
    most: Any
    """Nodes that there can be."""
    price: NodePrice | None
    """Of one node; None where its shape is not known."""

    @property
    def name(self) -> str:
        """Its logical name: the pool's name in the config."""
        return self.resource.name


def pool_of(resource: Resource) -> Pool | None:
    """The resource as a pool; None where it is none."""
    match resource.type:
        case "gcp:container/nodePool:NodePool":
            return _gke_pool(resource)
        case "aws:eks/nodeGroup:NodeGroup":
            return _eks_pool(resource)
        case _:
            return None


def pools_of(resources: Sequence[Resource]) -> list[Pool]:
    """The pools among the resources."""
    return [pool for resource in resources if (pool := pool_of(resource)) is not None]


def driver_version(pool: Pool) -> Any:
    """`gpuDriverVersion` of a GKE pool's GPUs; None where it is not set."""
    accelerator = get(pool.resource.props, "nodeConfig", "guestAccelerators", 0)
    return get(accelerator, "gpuDriverInstallationConfig", "gpuDriverVersion")


def taint(resource: Resource, *, key: str) -> Iterator[str]:
    """A GPU pool keeps pods away that use no GPU."""
    pool = _gpu_pool(resource)
    if pool is None or any(taint is UNKNOWN or UNKNOWN in taint for taint in pool.taints):
        return
    if not any(name == key and effect in ("NoSchedule", "NoExecute")
               for name, _, effect in pool.taints):  # fmt: skip
        yield (
            f"GPU pool {pool.name} has no taint {key} with effect NoSchedule, so pods that use no "
            "GPU may fill its nodes; declare the taint on the pool"
        )


def minimum(resource: Resource, *, stacks: Sequence[str]) -> Iterator[str]:
    """A GPU pool costs nothing while nobody uses it."""
    pool = _gpu_pool(resource)
    if pool is None or is_one_of(resource.stack, stacks):
        return
    least = number(pool.least)
    if least:
        allowed = ", ".join(stacks) or "none"
        yield (
            f"GPU pool {pool.name} keeps {least:g} node{'' if least == 1 else 's'} running in "
            f"stack {resource.stack}; set its minimum to 0, or allow the stack (allowed: {allowed})"
        )


def size(resource: Resource) -> Iterator[str]:
    """The autoscaler's node counts are not reverted by an update."""
    pool = pool_of(resource)
    if pool is None:
        return
    least, most = number(pool.least), number(pool.most)
    if least is None or most is None or least == most:
        return
    field = "scalingConfig.desiredSize" if resource.type == EKS_POOL else "initialNodeCount"
    covering = (field, field.partition(".")[0])
    if not any(path in covering for path in resource.ignore_changes):
        yield (
            f"pool {pool.name} is autoscaled from {least:g} to {most:g} nodes and does not ignore "
            f"changes of {field}, so an update reverts the autoscaler's count; ignore it"
        )


def secure_boot(resource: Resource) -> Iterator[str]:
    """GKE nodes boot signed software alone, except where somebody loads modules of their own."""
    if resource.type != GKE_POOL:
        return
    pool = _gke_pool(resource)
    shielded = get(resource.props, "nodeConfig", "shieldedInstanceConfig")
    version = driver_version(pool)
    if pool.gpu and version in (_OWN_MODULES, UNKNOWN):
        return
    if is_off(get(shielded, "enableSecureBoot")):
        yield (
            f"pool {resource.name} boots without Secure Boot; set "
            "nodeConfig.shieldedInstanceConfig.enableSecureBoot"
        )
    if get(shielded, "enableIntegrityMonitoring") is False:
        yield (
            f"pool {resource.name} has integrity monitoring off; set "
            "nodeConfig.shieldedInstanceConfig.enableIntegrityMonitoring"
        )


def metadata(resource: Resource, *, hops: float) -> Iterator[str]:
    """Pods cannot get the node's own credentials from the metadata server."""
    props = resource.props
    match resource.type:
        case "gcp:container/nodePool:NodePool":
            mode = get(props, "nodeConfig", "workloadMetadataConfig", "mode")
            if differs(mode, "GKE_METADATA"):
                yield (
                    f"pool {resource.name} gives pods the node's credentials; set "
                    "nodeConfig.workloadMetadataConfig.mode to GKE_METADATA"
                )
            if get(props, "nodeConfig", "metadata", "disable-legacy-endpoints") == "false":
                yield (
                    f"pool {resource.name} serves the legacy metadata endpoints, which need no "
                    "header; set disable-legacy-endpoints to true"
                )
        case "aws:ec2/launchTemplate:LaunchTemplate":
            options = get(props, "metadataOptions")
            if get(options, "httpEndpoint") == "disabled":
                return
            if differs(get(options, "httpTokens"), "required"):
                yield (
                    f"launch template {resource.name} allows IMDSv1; set "
                    "metadataOptions.httpTokens to required"
                )
            limit = get(options, "httpPutResponseHopLimit")
            if limit is not UNKNOWN and (number(limit) is None or limit > hops):
                given = "no" if limit is None else f"{limit:g} as"
                yield (
                    f"launch template {resource.name} sets {given} hop limit for instance "
                    f"metadata, so pods may get the node's role; set it to {hops:g}"
                )
        case "aws:eks/nodeGroup:NodeGroup" if get(props, "launchTemplate") is None:
            yield (
                f"node group {resource.name} has no launch template, and EKS's own lets pods reach "
                "instance metadata over two hops; give it one with IMDSv2 and hop limit "
                f"{hops:g}"
            )


def disks(resource: Resource) -> Iterator[str]:
    """What nodes write is encrypted; on Google Cloud it always is."""
    props = resource.props
    if resource.type == LAUNCH_TEMPLATE:
        mappings = each(props, "blockDeviceMappings")
        if not mappings:
            yield (
                f"launch template {resource.name} names no volume, so the root volume is encrypted "
                "only where the account's default says so; map it with ebs.encrypted"
            )
        for mapping in mappings:
            volume = get(mapping, "ebs")
            if volume is not None and is_off(get(volume, "encrypted")):
                yield (
                    f"launch template {resource.name}: volume {get(mapping, 'deviceName')} is not "
                    "encrypted; set ebs.encrypted"
                )
    elif resource.type == "aws:ebs/volume:Volume" and is_off(get(props, "encrypted")):
        yield f"volume {resource.name} is not encrypted; set encrypted"
    elif resource.type == EKS_POOL and get(props, "launchTemplate") is None:
        yield (
            f"node group {resource.name} has no launch template, so its volumes are encrypted only "
            "where the account's default says so; give it one with ebs.encrypted"
        )


def _gpu_pool(resource: Resource) -> Pool | None:
    pool = pool_of(resource)
    return pool if pool is not None and pool.gpu else None


def _gke_pool(resource: Resource) -> Pool:
    props = resource.props
    config = get(props, "nodeConfig")
    machine = get(config, "machineType")
    accelerators = each(config, "guestAccelerators")
    row = gke.machine_type(machine) if isinstance(machine, str) else None
    built_in = row is not None and row.accelerator is not None
    card, count = get(accelerators, 0, "type"), number(get(accelerators, 0, "count"))
    priced = row is not None and (not accelerators or built_in or count is not None)
    least, most = _gke_bounds(props)
    return Pool(
        resource=resource,
        gpu=built_in or (bool(accelerators) and accelerators != [UNKNOWN]),
        labels=entries(config, "labels"),
        taints=[_taint(taint) for taint in each(config, "taints")],
        least=least,
        most=most,
        price=gke_node(machine, card if isinstance(card, str) else None, int(count or 0))
        if priced
        else None,
    )


def _gke_bounds(props: Mapping[str, Any]) -> tuple[Any, Any]:
    """Least and most nodes in the whole pool. Without `total...` the counts are per zone."""
    scaling = get(props, "autoscaling")
    if scaling is UNKNOWN:
        return UNKNOWN, UNKNOWN
    if number(get(scaling, "totalMaxNodeCount")):
        return get(scaling, "totalMinNodeCount") or 0, get(scaling, "totalMaxNodeCount")
    zones: Any = get(props, "nodeLocations")
    per_zone = UNKNOWN if zones is UNKNOWN else len(each(props, "nodeLocations")) or 1
    if scaling is None:
        count = get(props, "nodeCount")
        fixed = get(props, "initialNodeCount") if count is None else count
        return _times(fixed, per_zone), _times(fixed, per_zone)
    least, most = get(scaling, "minNodeCount") or 0, get(scaling, "maxNodeCount")
    return _times(least, per_zone), _times(most, per_zone)


def _times(count: Any, zones: Any) -> Any:
    known = number(count)
    if known == 0:
        return 0
    return UNKNOWN if known is None or zones is UNKNOWN else known * zones


def _eks_pool(resource: Resource) -> Pool:
    props = resource.props
    types = each(props, "instanceTypes")
    known = [name for name in types if isinstance(name, str)]
    image = get(props, "amiType")
    rows = [eks.INSTANCE_TYPES.get(name) for name in known]
    return Pool(
        resource=resource,
        gpu=(isinstance(image, str) and "NVIDIA" in image) or any(row is not None for row in rows),
        labels=entries(props, "labels"),
        taints=[_taint(taint) for taint in each(props, "taints")],
        least=get(props, "scalingConfig", "minSize"),
        most=get(props, "scalingConfig", "maxSize"),
        price=eks_node(known) if known and len(known) == len(types) else None,
    )


def _taint(taint: Any) -> Any:
    if taint is UNKNOWN:
        return UNKNOWN
    effect = get(taint, "effect")
    spelt = effect if effect is UNKNOWN else _EFFECTS.get(effect, effect)
    return (get(taint, "key"), get(taint, "value"), spelt)


def known_labels(pool: Pool) -> Mapping[str, Any] | None:
    """The labels of the pool's nodes as far as the declaration tells; None where it does not."""
    if pool.labels is None:
        return None
    labels = dict(pool.labels)
    if pool.resource.type != GKE_POOL or not pool.gpu:
        return labels
    accelerator = get(pool.resource.props, "nodeConfig", "guestAccelerators", 0)
    labels[names.GKE_ACCELERATOR] = get(accelerator, "type") or UNKNOWN
    version = driver_version(pool)
    if isinstance(version, str) and version != _OWN_MODULES:
        labels[names.GKE_GPU_DRIVER_VERSION] = version.lower()
    elif version != _OWN_MODULES:
        labels[names.GKE_GPU_DRIVER_VERSION] = UNKNOWN
    return labels
