"""A GPU pool as a GKE compute class: its nodes, its priorities, its limits.

Facts from
https://docs.cloud.google.com/kubernetes-engine/docs/concepts/about-custom-compute-classes (of
2026-04-13), the CRD (datreeio/CRDs-catalog, cloud.google.com/computeclass_v1.json) and GKE's own
autoscaler (GoogleCloudPlatform/cluster-autoscaler 7d250507, pkg/computeclass and
pkg/autoprovisioning), read 2026-11-24. This module does without an SDK.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..catalog import gke as catalog
from ..catalog import kubernetes as names
from ..cluster import GPU_RESOURCE, GpuPool, ResolvedPool, Taint
from ..decode import NAMESPACE
from . import reservation as reservations

if TYPE_CHECKING:
    from .cluster_args import GkeClusterArgs
    from .pool_args import Capacity, GkeGpuNodePoolArgs

_LOCAL_SSD_GIB = 375
"""Size of one local SSD on all machine types with GPUs."""
_IMAGES = {"cos": "cos_containerd", "ubuntu": "ubuntu_containerd"}


def check_names(pools: Iterable[str]) -> None:
    """Raises ValueError if a compute class cannot have the name of one of these pools."""
    for name in pools:
        if name == "default" or name.startswith(("gke", "autopilot")):
            raise ValueError(
                f"{NAMESPACE}:gpuPools.{name}: cannot be the name of a compute class: GKE keeps "
                "default and names that begin with gke or autopilot for itself; choose another"
            )


def in_class(pool: GpuPool) -> GpuPool:
    """The pool as pods see it, with a compute class of the same name."""
    mark = Taint(key=names.GKE_COMPUTE_CLASS, value=pool.name)
    return replace(
        pool,
        # GKE does not add the Spot taint to a class's nodes: all of its fallbacks run the same
        # pods.
        taints=[*(taint for taint in pool.taints if taint.key != names.GKE_SPOT), mark],
        node_selector={names.GKE_COMPUTE_CLASS: pool.name},
    )


def class_spec(resolved: "ResolvedPool[GkeGpuNodePoolArgs]", service_account: Any) -> Any:
    """The `spec` of the ComputeClass; `service_account`: the email of its nodes' account."""
    args, pool = resolved.args, resolved.pool
    set_by_gke = (GPU_RESOURCE, names.GKE_COMPUTE_CLASS)
    config = {
        "imageType": _IMAGES[args.os_image],
        "serviceAccount": service_account,
        "nodeLabels": dict(pool.labels),
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect}
            for taint in pool.taints
            if taint.key not in set_by_gke
        ],
        "imageStreaming": {"enabled": bool(args.image_streaming)},
        "gvnic": {"enabled": args.machine.accelerator is not None},
    }
    spec = {
        "description": f"GPU pool {pool.name}",
        "nodePoolAutoCreation": {"enabled": True},
        "nodePoolConfig": {key: value for key, value in config.items() if value != []},
        "priorities": [_priority(args, resolved.places, way) for way in args.order],
        # Set although it is the default, which was different before GKE 1.33.
        "whenUnsatisfiable": "DoNotScaleUp",
        "activeMigration": {"optimizeRulePriority": bool(args.fallback) and args.migrate_back},
    }
    if args.consolidation_delay_minutes is not None:
        delay = {"consolidationDelayMinutes": args.consolidation_delay_minutes}
        spec["autoscalingPolicy"] = delay
    return spec


def _priority(args: "GkeGpuNodePoolArgs", zones: Iterable[str], way: "Capacity") -> Any:
    """One choice of the order. GKE may choose anything for omitted fields; Spot is always set."""
    storage: dict[str, Any] = {"bootDiskType": args.boot_disk, "bootDiskSize": args.disk_size_gb}
    location: dict[str, Any] = {"locationPolicy": args.location_policy.upper()}
    rule: dict[str, Any] = {
        "machineType": args.machine_type,
        "gpu": {
            "type": args.gpu_model.name,
            "count": args.gpus,
            "driverVersion": args.driver_version,
        },
        "storage": storage,
        "location": location,
    }
    if args.max_run_duration_seconds is not None:
        rule["maxRunDurationSeconds"] = args.max_run_duration_seconds
    if way == "flex-start":
        rule["flexStart"] = {"enabled": True}
    else:
        rule["spot"] = way == "spot"
    if way != "reservation":
        location["zones"] = list(zones)
        return rule
    # GKE refuses zones of a location together with those of a reservation, and refuses a
    # reservation of machines with local SSDs unless their number is given.
    rule["reservations"] = {"affinity": "Specific", "specific": [_specific(args, zones)]}
    if args.machine.local_ssd_gib:
        storage["localSSDCount"] = args.machine.local_ssd_gib // _LOCAL_SSD_GIB
    return rule


def _specific(args: "GkeGpuNodePoolArgs", zones: Iterable[str]) -> dict[str, Any]:
    assert args.reservation is not None, "checked with the order"
    named = reservations.parse(args.reservation)
    specific: dict[str, Any] = {"name": named.name}
    # GKE never uses a choice whose reservation is missing in one of these zones; without them, it
    # uses the reservation's own zone. pkg/autoprovisioning/injection.go, validateSpecifiedZones
    places = list(zones)
    if not args.fallback or len(places) == 1:
        specific["zones"] = places
    if named.owner:
        specific["project"] = named.owner
    if named.block:
        specific["reservationBlock"] = {"name": named.block}
    if named.sub_block:
        specific["reservationBlock"]["reservationSubBlock"] = {"name": named.sub_block}
    return specific


def resource_limits(
    cluster: "GkeClusterArgs", pools: "Mapping[str, ResolvedPool[GkeGpuNodePoolArgs]]"
) -> dict[str, int]:
    """The maximum for the whole cluster, so that every pool can reach its own maximum: `cpu`,
    `memory` in GiB, and GPUs by model. These are the only limits on node pools that GKE creates.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/node-auto-provisioning, 2026-11-24
    """
    amounts: Counter[str] = Counter()
    memory = 0.0
    shapes = [(cluster.system_pool.machine_type, cluster.system_pool.max_nodes)]
    shapes += [(pool.machine_type, pool.max_nodes) for pool in cluster.cpu_pools.values()]
    shapes += [(pool.args.machine_type, pool.args.max_nodes) for pool in pools.values()]
    for machine_type, nodes in shapes:
        machine = catalog.machine_type(machine_type)
        assert machine is not None, "checked when the args are created"
        amounts["cpu"] += machine.vcpu * nodes
        memory += machine.memory_gib * nodes
    amounts["memory"] = math.ceil(memory)
    for pool in pools.values():
        amounts[pool.args.gpu_model.name] += pool.args.gpus * pool.args.max_nodes
    return dict(amounts)
