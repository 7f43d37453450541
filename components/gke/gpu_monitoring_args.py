"""The settings for showing a GKE cluster's GPUs in Google Cloud."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..catalog.metrics import Source
from ..cluster import Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeGpuMonitoringArgs:
    """Where a cluster's GPU metrics come from, and who is notified of alerts."""

    source: Source
    """`managed` turns GKE's own DCGM on; `exporter` turns it off and uses the stack's exporter."""
    notification_channels: Sequence[str] = ()
    """Names of the form `projects/.../notificationChannels/...`."""

    @property
    def dcgm(self) -> bool:
        """Whether GKE runs its managed DCGM."""
        return self.source == "managed"


def monitoring_of(runs: Runs) -> GkeGpuMonitoringArgs | None:
    """These settings for what is to run in a cluster; None if metrics are not enabled."""
    if runs.metrics is None:
        return None
    return GkeGpuMonitoringArgs(
        source=runs.metrics, notification_channels=runs.notification_channels
    )
