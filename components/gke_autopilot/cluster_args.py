"""The settings of a GKE Autopilot cluster."""

from dataclasses import dataclass
from typing import Annotated, Literal

from ..catalog import gke as catalog
from ..gke.cluster_args import GkeControlPlaneArgs, unknown_location
from ..schema.effect import Sent
from ..schema.limits import Limit, pattern
from ..schema.on_change import OnChange


def _not_a_region(location: str) -> str | None:
    if catalog.is_zone(location):
        region = catalog.region_of(location)
        return f"{location!r} is a zone, and Autopilot clusters are regional; give {region}"
    return unknown_location(location)


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeAutopilotArgs(GkeControlPlaneArgs):
    """A GKE Autopilot cluster. GKE creates, deletes and manages its nodes as pods need them."""

    location: Annotated[
        str,
        Limit(_not_a_region, pattern(catalog.REGION)),
        OnChange("cluster"),
        Sent("Cluster location"),
    ]
    """The region: Autopilot clusters are regional."""
    scaler: Annotated[Literal["gke", "compute-classes"], OnChange("pods"), Sent("ComputeClass")] = (
        "gke"
    )
    """What selects the nodes that GKE starts for a pod: labels in the pod's node selector (`gke`),
    or a compute class for each pool (`compute-classes`), optionally with an order of `fallback`."""

    def warnings(self) -> list[str]:
        """The warnings of the control plane, and one about a channel."""
        lines = GkeControlPlaneArgs.warnings(self)
        if self.release_channel == "extended":
            # No copy of the page itself was found, and the API's reference does not say it.
            lines.append(
                "releaseChannel: notes of 2026-09 on Google's page about channels say that "
                "Autopilot clusters cannot use extended, so GKE may refuse it"
            )
        return lines
