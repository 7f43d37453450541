"""What a user says of a GKE Autopilot cluster."""

from dataclasses import dataclass
from typing import Annotated

from components.catalog import gke as catalog
from components.effect import Sent, Tries
from components.gke.cluster_args import GkeControlPlaneArgs, unknown_location
from components.limits import Limit, pattern
from components.on_change import OnChange


def _not_a_region(location: str) -> str | None:
    if catalog.is_zone(location):
        region = catalog.region_of(location)
        return f"{location!r} is a zone, and Autopilot clusters are regional; give {region}"
    return unknown_location(location)


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeAutopilotArgs(GkeControlPlaneArgs):
    """A GKE Autopilot cluster. Its nodes come and go with its pods, and are GKE's own business."""

    location: Annotated[
        str,
        Limit(_not_a_region, pattern(catalog.REGION)),
        OnChange("cluster"),
        Sent("Cluster location"),
        Tries("us-central1"),
    ]
    """A region: Autopilot clusters are regional."""
