"""What a user says of a GKE Autopilot cluster."""

from dataclasses import dataclass

from components.catalog import gke as catalog
from components.gke.cluster_args import GkeControlPlaneArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeAutopilotArgs(GkeControlPlaneArgs):
    """A GKE Autopilot cluster. Its nodes come and go with its pods, and are GKE's own business."""

    def __post_init__(self) -> None:
        # A dataclass with slots is another class, which zero-argument super() does not find.
        GkeControlPlaneArgs.__post_init__(self)
        if catalog.is_zone(self.location):
            raise ValueError(
                f"location: {self.location!r} is a zone, and Autopilot clusters are regional; give "
                f"{self.region}"
            )
