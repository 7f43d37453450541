"""What Google Cloud has to know to show a GKE cluster's GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..catalog.metrics import Source
from ..cluster import Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeGpuMonitoringArgs:
    """Where a cluster's GPU metrics come from, and who hears of alerts."""

    source: Source
    """`managed` turns GKE's own DCGM on; `exporter` turns it off and uses the stack's own."""
    notification_channels: Sequence[str] = ()
    """As `projects/.../notificationChannels/...`."""

    @property
    def dcgm(self) -> bool:
        """Whether GKE runs its managed DCGM."""
        return self.source == "managed"


def monitoring_of(runs: Runs) -> GkeGpuMonitoringArgs | None:
    """The same of what is to run in a cluster; None where nobody asked for metrics."""
    if runs.metrics is None:
        return None
    return GkeGpuMonitoringArgs(
        source=runs.metrics, notification_channels=runs.notification_channels
    )
