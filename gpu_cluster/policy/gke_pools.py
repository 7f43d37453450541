"""GKE node pools as the rules see them, and their part of the rules."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_cluster.components.catalog import gke
from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.catalog.clouds import GOOGLE
from gpu_cluster.components.catalog.google_prices import gke_node
from gpu_cluster.policy.pods import pods_of
from gpu_cluster.policy.pool import Pool, Software, taint_of
from gpu_cluster.policy.reading import (
    UNKNOWN,
    Resource,
    differs,
    entries,
    get,
    is_off,
    is_on,
    items,
    number,
)

_OWN_MODULES = "INSTALLATION_DISABLED"
"""The `gpuDriverVersion` with which GKE does not install the driver."""


def pool(resource: Resource, resources: Sequence[Resource]) -> Pool | None:
    """A node pool."""
    if resource.type != GOOGLE.node_pool:
        return None
    props = resource.props
    config = get(props, "nodeConfig")
    machine = get(config, "machineType")
    accelerators = items(config, "guestAccelerators")
    row = gke.machine_type(machine) if isinstance(machine, str) else None
    built_in = row is not None and row.accelerator is not None
    gpu_model, count = get(accelerators, 0, "type"), number(get(accelerators, 0, "count"))
    attached = isinstance(gpu_model, str) and count is not None
    priced = row is not None and (not accelerators or built_in or attached)
    least, most = _bounds(props)
    gpu = built_in or (bool(accelerators) and accelerators != [UNKNOWN])
    return Pool(
        resource=resource,
        gpu=gpu,
        labels=entries(config, "labels"),
        added=_added(props) if gpu else {},
        taints=[taint_of(taint) for taint in items(config, "taints")],
        least=least,
        most=most,
        size="initialNodeCount",
        limit="autoscaling.totalMaxNodeCount",
        price=gke_node(machine, gpu_model if isinstance(gpu_model, str) else None, int(count or 0))
        if priced
        else None,
    )


def _bounds(props: Mapping[str, Any]) -> tuple[Any, Any]:
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


def _driver_version(props: Mapping[str, Any]) -> Any:
    """`gpuDriverVersion` of the pool's GPUs; None if it is not set."""
    accelerator = get(props, "nodeConfig", "guestAccelerators", 0)
    return get(accelerator, "gpuDriverInstallationConfig", "gpuDriverVersion")


def _added(props: Mapping[str, Any]) -> Mapping[str, Any]:
    """The labels that GKE adds to nodes with GPUs."""
    labels = {
        names.GKE_ACCELERATOR: get(props, "nodeConfig", "guestAccelerators", 0, "type") or UNKNOWN
    }
    version = _driver_version(props)
    if version != _OWN_MODULES:
        text = version.lower() if isinstance(version, str) else UNKNOWN
        labels[names.GKE_GPU_DRIVER_VERSION] = text
    return labels


def software(pool: Pool, resources: Sequence[Resource], *, maybe: bool) -> Software | None:
    """What GKE installs on the nodes."""
    if pool.resource.type != GOOGLE.node_pool:
        return None
    version, labels = _driver_version(pool.resource.props), entries(pool.labels or {})
    off = (labels or {}).get(names.GKE_NO_DEFAULT_PLUGIN)
    # Newer GKE versions install a driver if it is not set, older ones do not.
    managed = version in ("DEFAULT", "LATEST") or (maybe and version in (None, UNKNOWN))
    own_plugin = off is None and pool.labels is not None
    plugin = ["GKE"] if own_plugin or (maybe and (off is UNKNOWN or pool.labels is None)) else []
    # The DaemonSet of GKE's plugin also installs its driver.
    return plugin if managed else [], plugin


def secure_boot(resource: Resource) -> Iterator[str]:
    """GKE nodes boot only signed software, unless the driver's module is installed by others."""
    scaling = get(resource.props, "clusterAutoscaling")
    autopilot = is_on(get(resource.props, "enableAutopilot"))
    if resource.type == GOOGLE.cluster and get(scaling, "enabled") is True and not autopilot:
        created = get(scaling, "autoProvisioningDefaults", "shieldedInstanceConfig")
        if is_off(get(created, "enableSecureBoot")):
            yield (
                f"cluster {resource.name} creates node pools that boot without Secure Boot; set "
                "clusterAutoscaling.autoProvisioningDefaults.shieldedInstanceConfig"
                ".enableSecureBoot"
            )
    if (found := pool(resource, ())) is None:
        return
    shielded = get(resource.props, "nodeConfig", "shieldedInstanceConfig")
    version = _driver_version(resource.props)
    if found.gpu and version in (_OWN_MODULES, UNKNOWN):
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


def mig_profile(resource: Resource) -> Iterator[str]:
    """A GPU on GKE is only split into MIG partitions that its model supports."""
    asked = []
    if resource.type == GOOGLE.node_pool:
        for accelerator in items(resource.props, "nodeConfig", "guestAccelerators"):
            size = get(accelerator, "gpuPartitionSize")
            asked.append((f"pool {resource.name}", get(accelerator, "type"), size))
            strategy = get(accelerator, "gpuSharingConfig", "gpuSharingStrategy")
            if isinstance(size, str) and size and strategy == "MPS":
                yield (
                    f"pool {resource.name} shares MIG partitions by MPS, which does not run on "
                    "them; set gpuSharingStrategy to TIME_SHARING, or drop gpuPartitionSize"
                )
    for pods in pods_of(resource):
        selector = get(pods.spec, "nodeSelector")
        size = get(selector, names.GKE_GPU_PARTITION_SIZE)
        asked.append((pods.title, get(selector, names.GKE_ACCELERATOR), size))
    for who, model, size in asked:
        gpu = gke.ACCELERATORS.get(model) if isinstance(model, str) else None
        if gpu is not None and isinstance(size, str) and size and size not in gpu.mig:
            allowed = ", ".join(gpu.mig) or "none, because it does not support MIG"
            yield f"{who} requests MIG partition {size} of {model}; allowed: {allowed}"


def instance_metadata(resource: Resource, *, hops: float) -> Iterator[str]:
    """Workload Identity's metadata server is between pods and the node's credentials."""
    if resource.type != GOOGLE.node_pool:
        return
    mode = get(resource.props, "nodeConfig", "workloadMetadataConfig", "mode")
    if differs(mode, "GKE_METADATA"):
        yield (
            f"pool {resource.name} exposes the node's credentials to pods; set "
            "nodeConfig.workloadMetadataConfig.mode to GKE_METADATA"
        )
    if get(resource.props, "nodeConfig", "metadata", "disable-legacy-endpoints") == "false":
        yield (
            f"pool {resource.name} serves the legacy metadata endpoints, which need no "
            "header; set disable-legacy-endpoints to true"
        )
