"""Compute Engine's advice on capacity, from `stock` in an inventory and what zones offer.

Sources, read on 2026-11-29: the discovery document of compute v1 (20261106); "View the availability
of Spot VMs" and "About future reservation requests in calendar mode" (docs.cloud.google.com); the
flags of `gcloud beta compute advice capacity`, which sends one selection; Google's skill compute-
spot-capacity-advice on skills.sh: "the v1 backend rejects SPOT". The wording of refusals
is ours, except that of Compute Engine's for a field's value.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from gpu_cluster.components.catalog.gke import ACCELERATOR_ZONES, machine_type
from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.api.server import Answer
from gpu_cluster.rehearsal.simulators.google.compute.offers import region_zones
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK, invalid
from gpu_cluster.rehearsal.simulators.google.errors import bad_request

_MOST_TYPES, _MOST_SPOT, _MOST_RESERVED = 5, 1000, 80
_CALENDAR = ("a3", "a4", "a4x")
"""Families with reservations in calendar mode: A3 and newer (Reservation.reservationMode)."""
_LEAD, _AHEAD = timedelta(hours=87), timedelta(days=60)


def _capacity(call: Call) -> dict[str, Any]:
    region, body = call.path["region"], call.body
    zones = region_zones(call, region)
    scheduling = (body.get("instanceProperties") or {}).get("scheduling") or {}
    if (model := scheduling.get("provisioningModel")) != "SPOT":
        # FLEX_START needs a maximum duration, a field only of alpha.
        raise invalid("instanceProperties.scheduling.provisioningModel", model, "Must be SPOT")
    if call.version == "v1":
        raise invalid("instanceProperties.scheduling.provisioningModel", model, "Use beta")
    if not 1 <= (size := body.get("size", 0)) <= _MOST_SPOT:
        raise invalid("size", size, f"Must be from 1 to {_MOST_SPOT}")
    policy = body.get("instanceFlexibilityPolicy") or {}
    selections = [*(policy.get("instanceSelections") or {}).values()]
    if len(selections) != 1:
        raise bad_request("Exactly one instance selection is supported.")
    types = selections[0].get("machineTypes") or []
    if not 1 <= len(types) <= _MOST_TYPES:
        raise invalid("machineTypes", types, f"Must have from 1 to {_MOST_TYPES} machine types")
    attached = [row["acceleratorType"] for row in selections[0].get("guestAccelerators") or ()]
    for name in types:
        if (machine := machine_type(name)) is None:
            raise invalid("machineTypes", name, "Unknown machine type")
        if attached and machine.family != "n1":
            raise invalid("guestAccelerators", attached[0], f"{name} has no attached accelerators")
    distribution = body.get("distributionPolicy") or {}
    rows = [row.get("zone", "") for row in distribution.get("zones") or ()]
    wanted = [row.rpartition("/")[2] for row in rows] or zones
    for zone, row in zip(wanted, rows or wanted, strict=True):
        if zone not in zones or (rows and "zones/" not in row):
            raise invalid("distributionPolicy.zones", row, f"Must be a zone of {region}")
    # The best of a zone and a machine type: a single zone satisfies every target shape.
    score, zone, name = max(
        ((_score(call, name, attached, zone, size), zone, name)
         for zone in wanted for name in types),
        key=lambda row: row[0],
    )  # fmt: skip
    shard = {
        "zone": f"{LINK}projects/{call.path['project']}/zones/{zone}",
        "machineType": name,
        "instanceCount": size,
        "provisioningModel": "SPOT",
    }
    uptime = {0.9: "3600s", 0.1: "60s", 0.0: "60s"}[score]
    return {
        "recommendations": [
            {"scores": {"obtainability": score, "estimatedUptime": uptime}, "shards": [shard]}
        ]
    }


def _score(call: Call, name: str, attached: list[str], zone: str, size: int) -> float:
    machine = machine_type(name)
    assert machine is not None
    built_in = [machine.accelerator] if machine.accelerator else []
    offered = machine.zones or [zone]
    if zone not in offered or any(
        zone not in ACCELERATOR_ZONES.get(accelerator, ()) for accelerator in built_in + attached
    ):
        return 0.0
    return 0.1 if call.cloud.short_of((name, "spot"), size, zone) else 0.9


def _calendar(call: Call) -> dict[str, Any]:
    specs = call.body.get("futureResourcesSpecs") or {}
    if len(specs) != 1:
        raise bad_request("Exactly one future resources specification is supported.")
    ((key, spec),) = specs.items()
    sku = (spec.get("targetResources") or {}).get("specificSkuResources") or {}
    machine = machine_type(sku.get("machineType", ""))
    if machine is None:
        raise invalid("machineType", sku.get("machineType"), "Unknown machine type")
    if not 1 <= (count := int(sku.get("instanceCount", 0))) <= _MOST_RESERVED:
        raise invalid("instanceCount", count, f"Must be from 1 to {_MOST_RESERVED}")
    times, now = spec.get("timeRangeSpec") or {}, datetime.now(UTC)
    for bound in ("minDuration", "maxDuration"):
        seconds = int(str(times.get(bound, "0s")).removesuffix("s"))
        if not timedelta(days=1) <= timedelta(seconds=seconds) <= timedelta(days=90):
            raise invalid(bound, times.get(bound), "Must be from 1 to 90 days")
    earliest, latest = (
        datetime.fromisoformat(times[name]) if name in times else now + after
        for name, after in (("startTimeNotEarlierThan", _LEAD), ("startTimeNotLaterThan", _AHEAD))
    )
    if earliest < now or latest < earliest or latest > now + _AHEAD + timedelta(minutes=1):
        raise invalid("timeRangeSpec", f"{earliest} to {latest}", "Must be within 60 days")
    start = max(earliest, now + _LEAD)
    end = start + timedelta(seconds=int(times["minDuration"].removesuffix("s")))
    row: dict[str, Any] = {"recommendationType": "FUTURE_RESERVATION", "otherLocations": {}}
    for zone in region_zones(call, call.path["region"]):
        if machine.family not in _CALENDAR or zone not in (
            machine.zones or ACCELERATOR_ZONES[machine.accelerator or ""]
        ):
            status = "NOT_SUPPORTED"
        elif start > latest:
            status = "CONDITIONS_NOT_MET"
        elif call.cloud.short_of((machine.name, "reservation"), count, zone):
            status = "NO_CAPACITY"
        elif "location" in row:
            status = "RECOMMENDED"
        else:
            row |= {"location": f"zones/{zone}", "startTime": start.isoformat(),
                    "endTime": end.isoformat()}  # fmt: skip
            continue
        row["otherLocations"][f"zones/{zone}"] = {"status": status}
    return {"recommendations": [{"recommendationsPerSpec": {key: row}}]}


METHODS: Mapping[str, Answer] = {
    "compute.advice.capacity": _capacity,
    "compute.advice.calendarMode": _calendar,
}
