"""The locations in which the provider looks for its resources."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, Config


def location_of(config: Config, inputs: Mapping[str, Any]) -> str:
    """The region or zone of a cluster or node pool: its own, or the provider's."""
    location = inputs.get("location") or config.get("zone") or config.get("region")
    if not location:
        raise CloudError("cannot determine location: set it here, or gcp:zone, or gcp:region")
    return str(location)


def region_in(location: str) -> str:
    """The region of a region or zone."""
    return location.rpartition("-")[0] if is_zone(location) else location


def is_zone(location: str) -> bool:
    """Whether this is a zone such as us-central1-a (IsZone, utils.go)."""
    return location.count("-") > 1
