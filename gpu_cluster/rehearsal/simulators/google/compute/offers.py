"""A project's quotas, and the regions, zones, machine types and accelerator types on offer."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from gpu_cluster.components.catalog.gke import (
    ACCELERATOR_ZONES,
    ACCELERATORS,
    CPU_MACHINE_TYPES,
    GLOBAL_GPU_QUOTA,
    MACHINE_TYPES,
    machine_type,
    region_of,
)
from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.api.server import Answer
from gpu_cluster.rehearsal.simulators.google.compute import instances, resources
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK
from gpu_cluster.rehearsal.simulators.google.container.machine_families import (
    cache_ssds,
    local_ssds,
    pool_ssds,
)
from gpu_cluster.rehearsal.simulators.google.errors import not_found
from gpu_cluster.tools.google_discovery import document

_DISK_METRICS = {
    "pd-standard": "DISKS_TOTAL_GB",
    "pd-balanced": "SSD_TOTAL_GB",
    "pd-ssd": "SSD_TOTAL_GB",
    "hyperdisk-balanced": "HDB_TOTAL_GB",
}
_DISK_LIMIT = 1_000_000
"""Sufficient for every rehearsal, as quotas of GPUs are."""
_ZONES = sorted({zone for zones in ACCELERATOR_ZONES.values() for zone in zones})


@cache
def _listed() -> list[str]:
    """The metrics of quotas that Compute Engine has."""
    found = document("compute", "v1")
    assert found is not None
    listed: list[str] = found.schemas["Quota"]["properties"]["metric"]["enum"]
    return listed


@cache
def _cpu_metrics() -> dict[str, str]:
    """Family -> the quota of its vCPUs. E2 counts against that of N1, newer ones against
    CPUS_PER_VM_FAMILY, which is not listed."""
    families = (metric.removesuffix("_CPUS") for metric in _listed() if metric.endswith("_CPUS"))
    return {
        family.lower(): f"{family}_CPUS"
        for family in families
        if re.fullmatch("[A-Z][0-9][A-Z]?", family)
    } | {"n1": "CPUS", "e2": "CPUS"}


@cache
def _metrics() -> list[str]:
    """The GPU metrics that Compute Engine lists for a region. There is none for H100 and newer GPUs
    on demand: they count against GPUS_PER_GPU_FAMILY, which it does not list."""
    ours = [
        metric
        for gpu_model in ACCELERATORS.values()
        for metric in (gpu_model.quota_metric, gpu_model.quota_metric_preemptible)
    ]
    return [metric for metric in dict.fromkeys(ours) if metric in _listed()]


def _project(call: Call) -> dict[str, Any]:
    return {
        "kind": "compute#project",
        "name": call.path["project"],
        "selfLink": LINK + call.name,
        "quotas": [
            _quota(call, GLOBAL_GPU_QUOTA, None),
            _cpu_quota(call, "CPUS_ALL_REGIONS", None),
            _network_quota(call, "NETWORKS", "compute.networks", 15),
            _network_quota(call, "SUBNETWORKS", "compute.subnetworks", 275),
        ],
    }


def _network_quota(call: Call, metric: str, token: str, limit: int) -> dict[str, Any]:
    """As in projects whose owner has not asked for more: cloud.google.com/vpc/docs/quota."""
    place = f"{call.name}/"
    used = [item for item in call.cloud.of(token) if item.identity.startswith(place)]
    return {"metric": metric, "limit": float(limit), "usage": float(len(used))}


def region_zones(call: Call, name: str) -> list[str]:
    """The zones of a region; raises ApiError if there is no such region."""
    zones = [zone for zone in _ZONES if region_of(zone) == name]
    if not zones:
        raise not_found("/".join([*call.name.split("/")[:2], "regions", name]))
    return zones


def _region(call: Call, name: str) -> dict[str, Any]:
    project, zones = "/".join(call.name.split("/")[:2]), region_zones(call, name)
    return {
        "kind": "compute#region",
        "name": name,
        "status": "UP",
        "selfLink": f"{LINK}{project}/regions/{name}",
        "zones": [f"{LINK}{project}/zones/{zone}" for zone in zones],
        "quotas": [
            *(_quota(call, metric, name) for metric in _metrics()),
            *(_cpu_quota(call, metric, name) for metric in sorted({*_cpu_metrics().values()})),
            *(_disk_quota(call, metric, name) for metric in sorted({*_DISK_METRICS.values()})),
            _ssd_quota(call, "LOCAL_SSD_TOTAL_GB", name, spot=False),
            _ssd_quota(call, "PREEMPTIBLE_LOCAL_SSD_GB", name, spot=True),
        ],
    }


def _regions(call: Call) -> dict[str, Any]:
    rows = [_region(call, name) for name in sorted({region_of(zone) for zone in _ZONES})]
    return resources.listed(call, "compute#regionList", rows)


def _zone(call: Call, name: str) -> dict[str, Any]:
    project = "/".join(call.name.split("/")[:2])
    if name not in _ZONES:
        raise not_found(f"{project}/zones/{name}")
    return {
        "kind": "compute#zone",
        "name": name,
        "status": "UP",
        "selfLink": f"{LINK}{project}/zones/{name}",
        "region": f"{LINK}{project}/regions/{region_of(name)}",
    }


def _zones(call: Call) -> dict[str, Any]:
    return resources.listed(call, "compute#zoneList", [_zone(call, zone) for zone in _ZONES])


def _quota(call: Call, metric: str, region: str | None) -> dict[str, Any]:
    use, limit = instances.gpus_used(call.cloud, metric, region), call.cloud.limit(metric)
    return {"metric": metric, "limit": float(limit), "usage": float(use)}


def _disk_quota(call: Call, metric: str, region: str) -> dict[str, Any]:
    use = sum(
        pool.nodes * int(pool.state["config"]["diskSizeGb"])
        for pool in call.cloud.pools()
        if _DISK_METRICS.get(pool.state["config"]["diskType"]) == metric
        and region_of(pool.state["locations"][0]) == region
    )
    limit = call.cloud.faults.quota.get(metric, _DISK_LIMIT)
    return {"metric": metric, "limit": float(limit), "usage": float(use)}


def _ssd_quota(call: Call, metric: str, region: str, *, spot: bool) -> dict[str, Any]:
    """Local SSDs. Those of families other than N1 count against LOCAL_SSD_TOTAL_GB_PER_VM_FAMILY,
    which is not listed."""
    use = 0
    for pool in call.cloud.pools():
        config = pool.state["config"]
        machine = str(config["machineType"])
        old = spot or machine.partition("-")[0] == "n1"
        bought = bool(config.get("spot") or config.get("flexStart")) == spot
        if old and bought and region_of(pool.state["locations"][0]) == region:
            ssds = sum(pool_ssds(config)) + cache_ssds(config)
            use += pool.nodes * ssds * local_ssds(machine)[1]
    limit = call.cloud.faults.quota.get(metric, _DISK_LIMIT)
    return {"metric": metric, "limit": float(limit), "usage": float(use)}


def _cpu_quota(call: Call, metric: str, region: str | None) -> dict[str, Any]:
    rows = (
        (row, machine_type(row.labels.get("node.kubernetes.io/instance-type", "")))
        for row in instances.running(call.cloud)
        if row.model == "STANDARD" and region in (None, region_of(row.zone))
    )
    use = sum(
        item.count * machine.vcpu
        for item, machine in rows
        if machine and (region is None or _cpu_metrics().get(machine.family) == metric)
    )
    limit = call.cloud.faults.quota.get(metric, _DISK_LIMIT)
    return {"metric": metric, "limit": float(limit), "usage": float(use)}


def _accelerator(call: Call, name: str, zone: str) -> dict[str, Any]:
    return {"kind": "compute#acceleratorType", **_placed(call, "acceleratorTypes", name, zone)}


def _machine(call: Call, name: str, zone: str) -> dict[str, Any]:
    found = machine_type(name)
    assert found is not None  # all of them are in the catalog
    return {
        "kind": "compute#machineType",
        **_placed(call, "machineTypes", name, zone),
        "guestCpus": found.vcpu,
        "memoryMb": int(found.memory_gib * 1024),
    }


def _placed(call: Call, collection: str, name: str, zone: str) -> dict[str, Any]:
    place = f"{LINK}projects/{call.path['project']}/zones/{zone}"
    return {"name": name, "zone": zone, "selfLink": f"{place}/{collection}/{name}"}


def _accelerator_zones() -> Mapping[str, Iterable[str]]:
    return {
        gpu_model.name: gpu_model.zones
        for gpu_model in ACCELERATORS.values()
        if not gpu_model.retired
    }


def _machine_zones() -> Mapping[str, Iterable[str]]:
    """Every zone has every machine type without GPUs."""
    found: dict[str, Iterable[str]] = dict.fromkeys(CPU_MACHINE_TYPES, _ZONES)
    for machine in MACHINE_TYPES.values():
        found[machine.name] = machine.zones or ACCELERATOR_ZONES[machine.accelerator or ""]
    return found


def _offered(
    collection: str,
    zones_of: Callable[[], Mapping[str, Iterable[str]]],
    row: Callable[[Call, str, str], dict[str, Any]],
) -> dict[str, Answer]:
    """The read methods for what zones offer."""

    def rows(call: Call, zone: str | None) -> Iterator[dict[str, Any]]:
        for name, zones in zones_of().items():
            for place in sorted(zones):
                if zone in (None, place):
                    yield row(call, name, place)

    return resources.reads(collection, rows)


METHODS: Mapping[str, Answer] = {
    "compute.projects.get": lambda call: resources.row(call, _project(call)),
    "compute.regions.get": lambda call: resources.row(call, _region(call, call.path["region"])),
    "compute.regions.list": _regions,
    "compute.zones.get": lambda call: resources.row(call, _zone(call, call.path["zone"])),
    "compute.zones.list": _zones,
    **_offered("acceleratorTypes", _accelerator_zones, _accelerator),
    **_offered("machineTypes", _machine_zones, _machine),
}
