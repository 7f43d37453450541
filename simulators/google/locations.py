"""Where GKE is offered, in which versions, and with which boot disks."""

import re
from collections.abc import Mapping
from typing import Any

from components.catalog.gke import (
    ACCELERATOR_ZONES,
    CHANNEL_DEFAULTS,
    MACHINE_ZONES,
    is_region,
    is_zone,
    machine_type,
    region_of,
)
from plugins.cloud.handler import CloudError, Config

MINORS: Mapping[str, tuple[int, int]] = {
    "RAPID": (33, 36),
    "REGULAR": (33, 36),
    "STABLE": (33, 35),
    "EXTENDED": (30, 36),
    "UNSPECIFIED": (33, 36),
}
"""Oldest and newest 1.x of each release channel (release notes of mid-2026)."""
_VERSION = re.compile(r"1\.([0-9]+)(\.[0-9]+)?(-gke\.[0-9]+)?")
_ZONES_OF_A_REGION = 3


def location_of(config: Config, inputs: Mapping[str, Any]) -> str:
    """The region or zone of a cluster or node pool."""
    location = inputs.get("location") or config.get("zone") or config.get("region")
    if not location:
        raise CloudError("cannot determine location: set it here, or gcp:zone, or gcp:region")
    if not is_region(location) and not is_zone(location):
        raise CloudError(f"googleapi: Error 400: Location '{location}' does not exist, badRequest")
    return str(location)


def node_locations(location: str, given: Any) -> list[str]:
    """The zones of a cluster's nodes: a zone's own and the given ones, or three of a region."""
    known = {zone for zones in ACCELERATOR_ZONES.values() for zone in zones}
    known |= {zone for zones in MACHINE_ZONES.values() for zone in zones}
    in_region = sorted(zone for zone in known if region_of(zone) == region_of(location))
    if not in_region:
        raise CloudError(
            f"googleapi: Error 400: Location '{location}' does not exist (as far as the catalogue "
            "goes that a rehearsal knows), badRequest"
        )
    for zone in given or ():
        if not is_zone(zone) or region_of(zone) != region_of(location):
            raise CloudError(
                f"googleapi: Error 400: Node location '{zone}' is not in region "
                f"'{region_of(location)}', badRequest"
            )
    if is_zone(location):
        return [location, *(zone for zone in given or () if zone != location)]
    return list(given or in_region[:_ZONES_OF_A_REGION])


def master_version(state: Mapping[str, Any]) -> str:
    """The version that the control plane gets; raises CloudError for one that is not offered."""
    channel = (state.get("releaseChannel") or {}).get("channel", "UNSPECIFIED")
    default = CHANNEL_DEFAULTS.get(channel, CHANNEL_DEFAULTS["REGULAR"])
    wanted = state.get("minMasterVersion")
    if wanted in (None, "", "-", "latest"):
        return default
    found = _VERSION.fullmatch(str(wanted))
    least, most = MINORS[channel]
    if found is None or not least <= int(found[1]) <= most:
        raise CloudError(
            f"googleapi: Error 400: Master version '{wanted}' is unsupported: channel {channel} "
            f"has 1.{least} to 1.{most}, badRequest"
        )
    if found[3]:
        return str(wanted)
    if default.startswith(f"1.{found[1]}."):
        return default
    return f"1.{found[1]}{found[2] or '.0'}-gke.1000000"


def check_boot_disk(node_config: Mapping[str, Any]) -> None:
    """Raises CloudError where the machine does not take the disk type, in Compute Engine's words.

    N1 has no Hyperdisk; some of the newest machines have nothing else.
    """
    machine, disk = machine_type(node_config["machineType"]), str(node_config["diskType"])
    assert machine is not None, "a stored pool has a machine type of the catalogue"
    if machine.family == "n1":
        taken = not disk.startswith("hyperdisk-")
    else:
        taken = machine.boot_disk in (None, disk)
    if not taken:
        raise CloudError(
            f"googleapi: Error 400: {disk} disk type cannot be used by {machine.name} machine "
            "type., badRequest"
        )
