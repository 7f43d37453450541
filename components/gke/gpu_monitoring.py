"""The GPU dashboard and the alerts of a GKE cluster, as resources of Cloud Monitoring."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pulumi
import pulumi_gcp as gcp

from ..catalog import charts_and_alerts
from ..catalog.charts_and_alerts import GROUPINGS, Alert, Grouping, Measure, Unit
from ..catalog.metrics import Source
from ..lifecycle import ownership

_UNITS: Mapping[Unit, str] = {"%": "%", "MiB": "MiBy"}
"""Units in Cloud Monitoring's own notation; other units are shown in the title."""
_WIDTH, _HEIGHT = 16, 12
"""Node, pod and GPU are next to each other in a grid of 48 columns."""


class GkeGpuMonitoring(pulumi.ComponentResource):
    """One dashboard, and an alert policy for each alert whose metrics are collected."""

    dashboard: gcp.monitoring.Dashboard
    policies: list[gcp.monitoring.AlertPolicy]

    def __init__(
        self,
        name: str,
        source: Source,
        notification_channels: Sequence[str] = (),
        *,
        cluster: str,
        location: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Sends alerts to `notification_channels` (`projects/.../notificationChannels/...`)."""
        super().__init__("gpu-cluster:gke:GpuMonitoring", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        # A project's Prometheus contains the series of all its clusters.
        matchers = f'cluster="{cluster}", location="{location}"'
        self.dashboard = gcp.monitoring.Dashboard(
            name,
            dashboard_json=json.dumps(_dashboard(cluster, source, matchers), sort_keys=True),
            opts=child,
        )
        self.policies = [
            gcp.monitoring.AlertPolicy(
                f"{name}-{alert.name}",
                display_name=f"{cluster}: GPU {alert.title}",
                user_labels=ownership.google_labels(),
                combiner="OR",
                severity=alert.severity.upper(),
                notification_channels=list(notification_channels),
                conditions=[
                    {
                        "display_name": alert.title,
                        "condition_prometheus_query_language": {
                            "query": alert.expression(matchers),
                            "duration": f"{alert.minutes * 60}s",
                            "evaluation_interval": "60s",
                            "alert_rule": alert.name,
                            "rule_group": "gpu",
                            # The metrics do not exist before the first GPU node.
                            "disable_metric_validation": True,
                        },
                    }
                ],
                documentation={"content": alert.text, "mime_type": "text/markdown"},
                opts=child,
            )
            for alert in charts_and_alerts.alerts(source)
        ]
        self.register_outputs({})


def _dashboard(cluster: str, source: Source, matchers: str) -> dict[str, Any]:
    shown = list(charts_and_alerts.measures(source))
    tiles = [
        _tile(
            row,
            column,
            {
                "title": f"{measure.title} ({measure.unit}) by {grouping}",
                "xyChart": {"dataSets": [_lines(measure, grouping, matchers)]},
            },
        )
        for row, measure in enumerate(shown)
        for column, grouping in enumerate(GROUPINGS)
    ]
    missing = list(_missing(source))
    if missing:
        tiles.append(
            _tile(
                len(shown),
                0,
                {
                    "title": "Not collected",
                    "text": {
                        "format": "MARKDOWN",
                        "content": "GKE's managed DCGM does not collect: "
                        f"{'; '.join(missing)}. The exporter of this stack does "
                        "(`monitoring.source: exporter`).",
                    },
                },
            )
        )
    return {
        "displayName": f"GPUs of {cluster}",
        "labels": ownership.google_labels(),
        "dashboardFilters": [
            {"filterType": kind, "labelKey": label, "stringValue": ""}
            for kind, label in (
                ("METRIC_LABEL", "Hostname"),
                ("RESOURCE_LABEL", "namespace"),
                ("METRIC_LABEL", "pod"),
                ("METRIC_LABEL", "gpu"),
            )
        ],
        "mosaicLayout": {"columns": _WIDTH * len(GROUPINGS), "tiles": tiles},
    }


def _lines(measure: Measure, grouping: Grouping, matchers: str) -> dict[str, Any]:
    query = {"prometheusQuery": charts_and_alerts.query(measure, grouping, matchers)}
    if measure.unit in _UNITS:
        query["unitOverride"] = _UNITS[measure.unit]
    return {"plotType": "LINE", "targetAxis": "Y1", "timeSeriesQuery": query}


def _tile(row: int, column: int, widget: dict[str, Any]) -> dict[str, Any]:
    tile: dict[str, Any] = {"width": _WIDTH, "height": _HEIGHT, "widget": widget}
    # The API omits zeros from its answer, which would show as a difference in every update.
    if column:
        tile["xPos"] = column * _WIDTH
    if row:
        tile["yPos"] = row * _HEIGHT
    return tile


def _missing(source: Source) -> Iterator[str]:
    present = {*charts_and_alerts.measures(source), *charts_and_alerts.alerts(source)}
    everything: list[Measure | Alert] = [*charts_and_alerts.MEASURES, *charts_and_alerts.ALERTS]
    for metric in everything:
        if metric not in present:
            yield metric.title if isinstance(metric, Measure) else f"alert {metric.name}"
