"""The settings of GPU monitoring."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from annotated_types import Interval

from ..catalog.metrics import Source
from ..cluster import Metrics
from ..schema.effect import Sent
from ..schema.limits import Labels, matching
from ..schema.refusal import Refusals, refuse
from ..schema.rules import Checked, only

CHANNEL = matching(
    "a channel; give it as projects/PROJECT/notificationChannels/NUMBER",
    re.compile(r"projects/[^/]+/notificationChannels/[^/]+"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringArgs(Checked):
    """Metrics of every GPU, a dashboard and alerts."""

    enabled: Annotated[bool, Sent("DaemonSet", "ConfigMap", "Dashboard")]
    """Whether the stack monitors its GPUs."""
    source: Annotated[Source | None, Sent("DaemonSet")] = None
    """What collects the metrics. `exporter` is NVIDIA's DCGM exporter, run by this stack. `managed`
    is GKE's own, without XID errors and throttling times, and so without alerts for them. By
    default, it is `managed` on Autopilot, which allows nothing else, and on an existing GKE
    cluster, and `exporter` elsewhere."""
    interval_seconds: Annotated[
        int, Interval(ge=10, le=300), Sent("DaemonSet spec.template.spec.containers[]")
    ] = 30
    """How often the exporter samples and is scraped, in seconds; 10 to 300. GKE's uses 30."""
    notification_channels: Annotated[
        Sequence[Annotated[str, CHANNEL]], Sent("AlertPolicy notificationChannels")
    ] = ()
    """The recipients of alerts, `projects/.../notificationChannels/...`; only on Google Cloud."""
    prometheus_operator: Annotated[bool, Sent("ServiceMonitor")] = False
    """Whether the cluster has the Prometheus Operator's resource types, so that a ServiceMonitor
    and a PrometheusRule replace a scrape config and a rules file; not on Google Cloud."""
    prometheus_labels: Annotated[
        Labels,
        only(prometheus_operator=True)("needs prometheusOperator: true; set it, or drop both"),
        Sent("ServiceMonitor metadata.labels"),
    ] = field(default_factory=dict)
    """The labels by which that Prometheus selects these objects, such as `release: prometheus`."""

    def on(self, platform: str, metrics: Metrics) -> "MonitoringArgs | None":
        """These settings with `source` decided; None if monitoring is not enabled.

        Raises `Refusal` for settings that a cluster with these `metrics` does not support.
        """
        if not self.enabled:
            return None
        refusals = Refusals()
        if metrics.needs:
            refusals.add(refuse("enabled")(f"needs {metrics.needs}"))
        source = self.source or metrics.sources[0]
        if source not in metrics.sources:
            why = {
                "exporter": f"runs privileged on the nodes, which {platform} does not allow",
                "managed": f"exists only on GKE, and the platform is {platform}",
            }[source]
            reason = f"{source} {why}; allowed there: {', '.join(metrics.sources)}"
            refusals.add(refuse("source")(reason))
        if metrics.managed_prometheus and self.prometheus_operator:
            reason = "on Google Cloud the managed Prometheus collects; drop the key"
            refusals.add(refuse("prometheusOperator")(reason))
        if not metrics.managed_prometheus and self.notification_channels:
            reason = "exist only in Google Cloud"
            remedy = "drop the key, and configure receivers in Alertmanager"
            refusals.add(refuse("notificationChannels")(reason, remedy=remedy))
        refusals.check()
        return replace(self, source=source)
