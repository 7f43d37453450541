"""GKE's rules for a node pool: counts, machine types, accelerators, zones, images.

`node_features` has the rules for combinations of its optional features.
"""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.components.catalog.gke import (
    ACCELERATORS,
    NODE_POOL_NAME,
    MachineType,
    gpu_counts_for,
    machine_type,
)
from gpu_cluster.rehearsal.simulators.google.container.locations import IMAGES
from gpu_cluster.rehearsal.simulators.google.container.node_defaults import (
    accelerator_of,
    accelerators,
)
from gpu_cluster.rehearsal.simulators.google.container.node_features import FEATURES
from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request


def check_name(name: str) -> None:
    """Raises ApiError for an invalid name. The provider does not check it, nor does a preview:
    pulumi/pulumi-gcp issue 1510."""
    if not NODE_POOL_NAME.fullmatch(name):
        raise bad_request(
            f'Invalid value for field "node_pool.name": "{name}". Must be a match of regex '
            f"'(?:{NODE_POOL_NAME.pattern})' (only lowercase alphanumerics and '-' allowed, must "
            "start with a letter and end with an alphanumeric, and must be no longer than 40 "
            "characters)."
        )


def check_node_pool(pool: Mapping[str, Any]) -> None:
    """Raises ApiError for an invalid `NodePool`, which has GKE's defaults."""
    _check_counts(pool)
    machine = _check_machine(pool)
    _check_accelerators(pool, machine)
    for feature in FEATURES:
        feature.check(pool)


def _check_counts(pool: Mapping[str, Any]) -> None:
    scaling = pool.get("autoscaling") or {}
    totals = [int(scaling.get(name) or 0) for name in ("totalMinNodeCount", "totalMaxNodeCount")]
    per_zone = [int(scaling.get(name) or 0) for name in ("minNodeCount", "maxNodeCount")]
    if any(totals) and any(per_zone):
        raise bad_request(
            "autoscaling: total and per-zone node counts exclude each other: give either "
            "totalMinNodeCount and totalMaxNodeCount, or minNodeCount and maxNodeCount"
        )
    least, most = totals if any(totals) else per_zone
    if scaling.get("enabled") and least > most:
        raise bad_request(f"autoscaling: the minimum {least} is more than the maximum {most}")
    settings = pool["upgradeSettings"]
    if (
        settings.get("strategy", "SURGE") == "SURGE"
        and not settings.get("maxSurge")
        and not settings.get("maxUnavailable")
    ):
        raise bad_request("upgradeSettings: maxSurge and maxUnavailable cannot both be 0")


def _check_machine(pool: Mapping[str, Any]) -> MachineType:
    config = pool["config"]
    name = config["machineType"]
    machine = machine_type(name)
    if machine is None:
        raise bad_request(
            f"Machine type with name '{name}' does not exist in zone '{pool['locations'][0]}' (as "
            "far as the catalogue goes that a rehearsal knows)"
        )
    for zone in pool["locations"]:
        if machine.zones is not None and zone not in machine.zones:
            raise bad_request(f"Machine type with name '{name}' does not exist in zone '{zone}'")
    if str(config["imageType"]).upper() not in IMAGES:
        raise bad_request(
            f"Image type '{config['imageType']}' is not supported: {', '.join(IMAGES)}"
        )
    # ai-hypercomputer/docs/create/gke-ai-hypercompute-custom-a4x (read 2026-11-28): "must use a
    # Container-Optimized OS node image".
    if name.startswith("a4x-") and not str(config["imageType"]).upper().startswith("COS"):
        raise bad_request(f"Image type '{config['imageType']}' is not supported for {name}")
    return machine


def _check_accelerators(pool: Mapping[str, Any], machine: MachineType) -> None:
    config, zones = pool["config"], pool["locations"]
    given = list(accelerators(config))
    if len(given) > 1:
        raise bad_request("At most one accelerator type is allowed in a node pool")
    if machine.fractional:
        raise ApiError(
            501, f"a rehearsal does not simulate {machine.name}, which has a share of one GPU"
        )
    for _, name, count in given:
        if name not in ACCELERATORS or ACCELERATORS[name].retired:
            raise bad_request(f"Accelerator type '{name}' does not exist in zone '{zones[0]}'")
        counts = gpu_counts_for(machine.name, name, zone=zones[0])
        if count not in counts:
            raise bad_request(
                f"Machine type {machine.name} cannot have {count} of accelerator '{name}': "
                f"{'it can have ' + ', '.join(map(str, counts)) if counts else 'it takes none'}"
            )
    found = accelerator_of(pool)
    for zone in zones if found else ():
        if found and zone not in found[0].zones and not found[0].zones_partial:
            raise bad_request(f"Accelerator type '{found[0].name}' does not exist in zone '{zone}'")
