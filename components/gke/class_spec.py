"""What a cluster declares for its compute classes: the `spec` of each, and the limits."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..catalog import gke as catalog
from ..catalog import kubernetes as names
from ..cluster import GPU_RESOURCE, ResolvedPool
from .classes import bought, common_spec
from .cluster_args import GkeClusterArgs
from .pool_args import GkeGpuNodePoolArgs

_IMAGES = {"cos": "cos_containerd", "ubuntu": "ubuntu_containerd"}


def class_spec(resolved: ResolvedPool[GkeGpuNodePoolArgs], service_account: Any) -> Any:
    """The `spec` of the ComputeClass; `service_account`: the email of its nodes' account."""
    args, pool = resolved.args, resolved.pool
    # The nodes of a choice are those of node pools in exactly its zones (pkg/computeclass/rules/
    # location.go), which it uses up before the next one.
    # GKE never uses a choice whose reservation is missing in one of the zones that are named with
    # it; without them, it uses the reservation's own. pkg/autoprovisioning/injection.go,
    # validateSpecifiedZones
    named = [not isinstance(entry, str) and bool(entry.zones) for entry in args.fallback] or [True]
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
            [
                _priority(choice, fixed=fixed)
                for choice, fixed in zip(resolved.choices, named, strict=True)
            ],
            migrates=bool(args.fallback) and args.migrate_back,
        ),
        "nodePoolConfig": {key: value for key, value in config.items() if value != []},
    }
    if args.consolidation_delay_minutes is not None:
        delay = {"consolidationDelayMinutes": args.consolidation_delay_minutes}
        spec["autoscalingPolicy"] = delay
    return spec


def _priority(choice: ResolvedPool[GkeGpuNodePoolArgs], *, fixed: bool) -> Any:
    """One choice of the order. GKE may choose anything for omitted fields; Spot is always set.
    `fixed`: whether its zones are those of its reservation."""
    args, zones = choice.args, list(choice.places)
    storage: dict[str, Any] = {"bootDiskType": args.boot_disk, "bootDiskSize": args.disk_size_gb}
    # GKE requires the number of those that a reserved machine includes, and machineType with it
    # ("Auto-create node pools to consume reservations").
    if args.ssds and (args.local_storage or args.capacity_type == "reservation"):
        storage["localSSDCount"] = args.ssds
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
    if args.capacity_type != "reservation":
        location["zones"] = zones
        return rule | bought(args.capacity_type, any_reservation=args.any_reservation)
    return rule | bought("reservation", args.reservation, zones if fixed or len(zones) == 1 else [])


def resource_limits(
    cluster: GkeClusterArgs, pools: Mapping[str, ResolvedPool[GkeGpuNodePoolArgs]]
) -> dict[str, int]:
    """The maximum for the whole cluster, so that every pool can reach its own maximum: `cpu`,
    `memory` in GiB, and GPUs by model. These are the only limits on node pools that GKE creates.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/node-auto-provisioning, 2026-11-24
    """
    amounts: Counter[str] = Counter()
    memory = 0.0
    shapes = [([cluster.system_pool.machine_type], cluster.system_pool.max_nodes)]
    shapes += [([pool.machine_type], pool.max_nodes) for pool in cluster.cpu_pools.values()]
    shapes += [
        ([choice.args.machine_type for choice in pool.choices], pool.args.max_nodes)
        for pool in pools.values()
    ]
    for machine_types, nodes in shapes:
        machines = [machine for name in machine_types if (machine := catalog.machine_type(name))]
        amounts["cpu"] += max(machine.vcpu for machine in machines) * nodes
        memory += max(machine.memory_gib for machine in machines) * nodes
    amounts["memory"] = math.ceil(memory)
    for pool in pools.values():
        amounts[pool.args.gpu_model.name] += pool.args.gpus * pool.args.max_nodes
    return dict(amounts)
