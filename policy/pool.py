"""A pool as the rules see it, in both clouds: shape, labels, taints, limits, price."""

from collections.abc import Mapping, Sequence
from typing import Any

from components.catalog import eks, gke
from components.catalog import kubernetes as names
from components.catalog.clouds import AWS, GOOGLE
from components.catalog.node_prices import eks_node, gke_node
from components.kube.taints import from_cloud
from policy import scalers
from policy.pool_shape import Pool as Pool
from policy.reading import UNKNOWN, Resource, each, entries, get, number

OWN_MODULES = "INSTALLATION_DISABLED"
"""The `gpuDriverVersion` with which GKE does not install the driver."""


def pool_of(resource: Resource, resources: Sequence[Resource] = ()) -> Pool | None:
    """The resource as a pool; None if it is something else.

    `resources`: those of the stack, which may include a node group's launch template, or the
    cluster that limits a ComputeClass.
    """
    match resource.type:
        case GOOGLE.node_pool:
            return _gke_pool(resource)
        case AWS.node_pool:
            return _eks_pool(resource, resources)
        case scalers.NODE_POOL:
            return scalers.karpenter_pool(resource)
        case scalers.COMPUTE_CLASS:
            return scalers.compute_class(resource, resources)
        case _:
            return None


def pools_of(resources: Sequence[Resource]) -> list[Pool]:
    """The pools among the resources."""
    return [pool for resource in resources if (pool := pool_of(resource, resources)) is not None]


def driver_version(pool: Pool) -> Any:
    """`gpuDriverVersion` of a GKE pool's GPUs; None if it is not set."""
    accelerator = get(pool.resource.props, "nodeConfig", "guestAccelerators", 0)
    return get(accelerator, "gpuDriverInstallationConfig", "gpuDriverVersion")


def _gke_pool(resource: Resource) -> Pool:
    props = resource.props
    config = get(props, "nodeConfig")
    machine = get(config, "machineType")
    accelerators = each(config, "guestAccelerators")
    row = gke.machine_type(machine) if isinstance(machine, str) else None
    built_in = row is not None and row.accelerator is not None
    gpu_model, count = get(accelerators, 0, "type"), number(get(accelerators, 0, "count"))
    attached = isinstance(gpu_model, str) and count is not None
    priced = row is not None and (not accelerators or built_in or attached)
    least, most = _gke_bounds(props)
    return Pool(
        resource=resource,
        gpu=built_in or (bool(accelerators) and accelerators != [UNKNOWN]),
        labels=entries(config, "labels"),
        taints=[_taint(taint) for taint in each(config, "taints")],
        least=least,
        most=most,
        price=gke_node(machine, gpu_model if isinstance(gpu_model, str) else None, int(count or 0))
        if priced
        else None,
    )


def _gke_bounds(props: Mapping[str, Any]) -> tuple[Any, Any]:
    """Minimum and maximum nodes in the whole pool. Without `total...`, the counts are per zone."""
    scaling = get(props, "autoscaling")
    if scaling is UNKNOWN:
        return UNKNOWN, UNKNOWN
    if number(get(scaling, "totalMaxNodeCount")):
        return get(scaling, "totalMinNodeCount") or 0, get(scaling, "totalMaxNodeCount")
    per_zone = _zones(props)
    if scaling is None:
        count = get(props, "nodeCount")
        fixed = get(props, "initialNodeCount") if count is None else count
        return _times(fixed, per_zone), _times(fixed, per_zone)
    least, most = get(scaling, "minNodeCount") or 0, get(scaling, "maxNodeCount")
    return _times(least, per_zone), _times(most, per_zone)


def _zones(props: Mapping[str, Any]) -> Any:
    """The number of zones in which the pool has nodes: in a regional cluster, the cluster's zones
    or those of its settings."""
    zones: Any = get(props, "nodeLocations")
    if zones is UNKNOWN or zones:
        return UNKNOWN if zones is UNKNOWN else len(zones)
    location: Any = get(props, "location")
    if location is UNKNOWN:
        return UNKNOWN
    is_region = isinstance(location, str) and gke.is_region(location)
    return gke.ZONES_OF_A_REGION if is_region else 1


def _times(count: Any, zones: Any) -> Any:
    known = number(count)
    if known == 0:
        return 0
    return UNKNOWN if known is None or zones is UNKNOWN else known * zones


def _eks_pool(resource: Resource, resources: Sequence[Resource]) -> Pool:
    props = resource.props
    given = each(props, "instanceTypes")
    # EKS copies them from the template, so that a preview does not show them although the template,
    # and thus the nodes' cost, is known.
    unknown = not given or UNKNOWN in given
    types = (_templates_types(resource, resources) if unknown else []) or given
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
        warm=_warm(props),
        price=eks_node(known) if known and len(known) == len(types) else None,
    )


def _warm(props: Mapping[str, Any]) -> tuple[int, int]:
    """As `Pool.warm` has it."""
    config = get(props, "warmPoolConfig")
    if get(config, "poolState") != "RUNNING":
        return 0, 0
    least, most = (number(get(props, "scalingConfig", key)) or 0 for key in ("minSize", "maxSize"))
    prepared = number(get(config, "maxGroupPreparedCapacity"))
    if prepared is None or prepared < 0:  # without one, and with -1, all that the group can have
        prepared = most
    waiting = int(number(get(config, "minSize")) or 0)
    idle, full = (eks.warm_instances(int(n), int(prepared), waiting) for n in (least, most))
    return idle, full


def _templates_types(group: Resource, resources: Sequence[Resource]) -> list[Any]:
    """The instance type in a group's launch template, which a Capacity Block uses."""
    used = group.uses.get("launchTemplate", ())
    return [
        kind
        for one in resources
        if one.urn in used and (kind := get(one.props, "instanceType")) is not None
    ]


def _taint(taint: Any) -> Any:
    if taint is UNKNOWN:
        return UNKNOWN
    return (get(taint, "key"), get(taint, "value"), from_cloud(get(taint, "effect")))


def known_labels(pool: Pool) -> Mapping[str, Any] | None:
    """The labels of the pool's nodes, if the declaration contains them; else None."""
    if pool.labels is None:
        return None
    labels = dict(pool.labels)
    if pool.resource.type != GOOGLE.node_pool or not pool.gpu:
        return labels
    accelerator = get(pool.resource.props, "nodeConfig", "guestAccelerators", 0)
    labels[names.GKE_ACCELERATOR] = get(accelerator, "type") or UNKNOWN
    version = driver_version(pool)
    if isinstance(version, str) and version != OWN_MODULES:
        labels[names.GKE_GPU_DRIVER_VERSION] = version.lower()
    elif version != OWN_MODULES:
        labels[names.GKE_GPU_DRIVER_VERSION] = UNKNOWN
    return labels
