"""What a cluster declares for its compute classes: the `spec` of each, and the limits."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..catalog import gke as catalog
from ..catalog import kubernetes as names
from ..cluster import GPU_RESOURCE, ResolvedPool
from .classes import bought, common_spec
from .cluster_args import GkeClusterArgs
from .disk_image import of_class
from .pool_args import Capacity, GkeGpuNodePoolArgs

_IMAGES = {"cos": "cos_containerd", "ubuntu": "ubuntu_containerd"}


def class_spec(resolved: ResolvedPool[GkeGpuNodePoolArgs], service_account: Any) -> Any:
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
        **common_spec(
            pool.name,
            [_priority(args, resolved.places, way) for way in args.order],
            migrates=bool(args.fallback) and args.migrate_back,
        ),
        "nodePoolConfig": {key: value for key, value in config.items() if value != []},
    }
    if args.consolidation_delay_minutes is not None:
        delay = {"consolidationDelayMinutes": args.consolidation_delay_minutes}
        spec["autoscalingPolicy"] = delay
    return spec


def _priority(args: GkeGpuNodePoolArgs, zones: Iterable[str], way: Capacity) -> Any:
    """One choice of the order. GKE may choose anything for omitted fields; Spot is always set."""
    storage: dict[str, Any] = {"bootDiskType": args.boot_disk, "bootDiskSize": args.disk_size_gb}
    # GKE requires the number of those that a reserved machine includes, and machineType with it
    # ("Auto-create node pools to consume reservations").
    if args.ssds and (args.local_storage or way == "reservation"):
        storage["localSSDCount"] = args.ssds
    if args.secondary_boot_disk:
        storage["secondaryBootDisks"] = of_class(args.secondary_boot_disk)
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
    if way != "reservation":
        location["zones"] = list(zones)
        return rule | bought(way, any_reservation=args.any_reservation)
    # GKE never uses a choice whose reservation is missing in one of these zones; without them, it
    # uses the reservation's own zone. pkg/autoprovisioning/injection.go, validateSpecifiedZones
    places = list(zones)
    named = places if not args.fallback or len(places) == 1 else []
    return rule | bought(way, args.reservation, named)


def resource_limits(
    cluster: GkeClusterArgs, pools: Mapping[str, ResolvedPool[GkeGpuNodePoolArgs]]
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
