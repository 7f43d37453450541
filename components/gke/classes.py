"""A GPU pool as a GKE compute class: its nodes, its priorities, its limits. GKE Autopilot
uses what is the same for both.

Facts from
https://docs.cloud.google.com/kubernetes-engine/docs/concepts/about-custom-compute-classes (of
2026-04-13), the CRD (datreeio/CRDs-catalog, cloud.google.com/computeclass_v1.json) and GKE's own
autoscaler (GoogleCloudPlatform/cluster-autoscaler 7d250507, pkg/computeclass and
pkg/autoprovisioning), read 2026-11-24. This module does without an SDK.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..catalog import gke as catalog
from ..catalog import kubernetes as names
from ..cluster import GPU_RESOURCE, GpuPool, ResolvedPool, Taint
from ..decode import NAMESPACE
from ..scalers import NotWith
from . import reservation as reservations

if TYPE_CHECKING:
    from .cluster_args import GkeClusterArgs
    from .pool_args import Capacity, GkeGpuNodePoolArgs

_IMAGES = {"cos": "cos_containerd", "ubuntu": "ubuntu_containerd"}


def not_in_classes(reason: str, *, but: Sequence[Any] = ()) -> NotWith:
    """Marks a setting for which a ComputeClass has no field.

    https://docs.cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass and the CRD of
    GKE 1.34 and 1.35 (datreeio/CRDs-catalog, cloud.google.com/computeclass_v1.json), 2026-11-24.
    """
    return NotWith("compute-classes", reason, but=but)


WHOLE_GPUS = not_in_classes("compute classes have only whole GPUs")


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


def common_spec(
    pool: str, priorities: Sequence[Mapping[str, Any]], *, migrates: bool
) -> dict[str, Any]:
    """The fields that all classes share. `migrates`: whether pods return to earlier choices."""
    return {
        "description": f"GPU pool {pool}",
        "nodePoolAutoCreation": {"enabled": True},
        "priorities": list(priorities),
        # Set although it is the default, which was different before GKE 1.33.
        "whenUnsatisfiable": "DoNotScaleUp",
        "activeMigration": {"optimizeRulePriority": migrates},
    }


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
    if way != "reservation":
        location["zones"] = list(zones)
        return rule | bought(way)
    # GKE never uses a choice whose reservation is missing in one of these zones; without them, it
    # uses the reservation's own zone. pkg/autoprovisioning/injection.go, validateSpecifiedZones
    places = list(zones)
    named = places if not args.fallback or len(places) == 1 else []
    storage |= local_ssds(args.machine)
    return rule | bought(way, args.reservation, named)


def bought(
    way: "Capacity", reservation: str | None = None, zones: Sequence[str] = ()
) -> dict[str, Any]:
    """The fields of a priority for the way of buying nodes. `zones`: those in which the reservation
    must be; GKE refuses zones of a location together with them."""
    if way == "flex-start":
        return {"flexStart": {"enabled": True}}
    if way != "reservation":
        return {"spot": way == "spot"}
    assert reservation is not None, "checked with the order"
    specific = _specific(reservation) | ({"zones": list(zones)} if zones else {})
    return {"spot": False, "reservations": {"affinity": "Specific", "specific": [specific]}}


def local_ssds(machine: catalog.MachineType) -> dict[str, int]:
    """The storage of a priority with a reservation: GKE requires the number of the local SSDs that
    a reserved machine includes, and `machineType` with it ("Auto-create node pools to consume
    reservations")."""
    return {"localSSDCount": machine.local_ssds} if machine.local_ssds else {}


def _specific(reservation: str) -> dict[str, Any]:
    named = reservations.parse(reservation)
    specific: dict[str, Any] = {"name": named.name}
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
