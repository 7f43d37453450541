"""Where GKE is offered, and in which versions."""

import re
from collections.abc import Mapping
from typing import Any

from gpu_cluster.components.catalog.gke import (
    ACCELERATOR_ZONES,
    CHANNEL_DEFAULTS,
    MACHINE_ZONES,
    is_region,
    is_zone,
    region_of,
)
from gpu_cluster.rehearsal.simulators.google.errors import bad_request

MINORS: Mapping[str, tuple[int, int]] = {
    "RAPID": (34, 37),
    "REGULAR": (34, 37),
    "STABLE": (34, 36),
    "EXTENDED": (32, 37),
    "UNSPECIFIED": (34, 37),
}
"""Oldest and newest 1.x of each release channel for new clusters: GKE's release notes of 2026-09-23
to 2026-10-20 (docs.cloud.google.com/kubernetes-engine/docs/release-notes.md.txt)."""
IMAGES = ("COS_CONTAINERD", "UBUNTU_CONTAINERD", "COS", "UBUNTU")
_VERSION = re.compile(r"1\.([0-9]+)(\.[0-9]+)?(-gke\.[0-9]+)?")
_ZONES_OF_A_REGION = 3


def check_location(location: str) -> None:
    """Raises ApiError if this is neither a region nor a zone."""
    if not is_region(location) and not is_zone(location):
        raise bad_request(f"Location '{location}' does not exist")


def node_locations(location: str, given: Any) -> list[str]:
    """The zones of a cluster's nodes: its own zone and the given ones, or three of its region."""
    known = {zone for zones in ACCELERATOR_ZONES.values() for zone in zones}
    known |= {zone for zones in MACHINE_ZONES.values() for zone in zones}
    in_region = sorted(zone for zone in known if region_of(zone) == region_of(location))
    if not in_region:
        raise bad_request(
            f"Location '{location}' does not exist (as far as the catalogue goes that a rehearsal "
            "knows)"
        )
    for zone in given or ():
        if not is_zone(zone) or region_of(zone) != region_of(location):
            raise bad_request(f"Node location '{zone}' is not in region '{region_of(location)}'")
    if is_zone(location):
        return [location, *(zone for zone in given or () if zone != location)]
    return list(given or in_region[:_ZONES_OF_A_REGION])


def channel_of(cluster: Mapping[str, Any]) -> str:
    """The release channel of a `Cluster`."""
    return str((cluster.get("releaseChannel") or {}).get("channel") or "UNSPECIFIED")


def version_in(channel: str, wanted: str | None) -> str:
    """A control plane's version; raises ApiError if it is not offered."""
    default = CHANNEL_DEFAULTS.get(channel, CHANNEL_DEFAULTS["REGULAR"])
    if wanted in (None, "", "-", "latest"):
        return default
    found = _VERSION.fullmatch(str(wanted))
    least, most = MINORS[channel]
    if found is None or not least <= int(found[1]) <= most:
        raise bad_request(
            f"Master version '{wanted}' is unsupported: channel {channel} has 1.{least} to 1.{most}"
        )
    if found[3]:
        return str(wanted)
    if default.startswith(f"1.{found[1]}."):
        return default
    return f"1.{found[1]}{found[2] or '.0'}-gke.1000000"
