"""The GPU dashboard for Grafana and the alert rules for Prometheus."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..catalog import charts_and_alerts
from ..catalog.charts_and_alerts import GROUPINGS, Grouping, Measure, Unit
from ..catalog.metrics import Source

_SOURCE: Source = "exporter"
_UNITS: Mapping[Unit, str] = {
    "%": "percent",
    "MiB": "mbytes",
    "°C": "celsius",
    "W": "watt",
    "MHz": "none",
    "errors": "short",
    "code": "none",
}
_LEGENDS: Mapping[Grouping, str] = {
    "node": "{{Hostname}}",
    "pod": "{{namespace}}/{{pod}}",
    "GPU": "{{Hostname}} GPU {{gpu}} {{GPU_I_ID}}",
}
_MATCHERS = 'Hostname=~"$node", namespace=~"$namespace", pod=~"$pod"'
_WIDTH, _HEIGHT = 8, 8
"""Node, pod and GPU are next to each other in Grafana's 24 columns."""


def dashboard(title: str) -> dict[str, Any]:
    """Grafana's dashboard model: one row per measure, by node, by pod and by GPU."""
    return {
        "uid": "gpus",
        "title": title,
        "tags": ["gpu"],
        "schemaVersion": 39,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                _variable("node", "label_values(DCGM_FI_DEV_FB_USED, Hostname)"),
                _variable("namespace", "label_values(DCGM_FI_DEV_FB_USED, namespace)"),
                _variable("pod", "label_values(DCGM_FI_DEV_FB_USED, pod)"),
            ]
        },
        "panels": [
            _panel(measure, grouping, row, column)
            for row, measure in enumerate(charts_and_alerts.measures(_SOURCE))
            for column, grouping in enumerate(GROUPINGS)
        ],
    }


def rules() -> dict[str, Any]:
    """A Prometheus rules file, which is also the spec of a PrometheusRule."""
    return {"groups": [{"name": "gpu", "rules": list(_rules())}]}


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        # Also includes GPUs that no pod uses.
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(measure: Measure, grouping: Grouping, row: int, column: int) -> dict[str, Any]:
    legend = " ".join([_LEGENDS[grouping], *(f"{label} {{{{{label}}}}}" for label in measure.by)])
    return {
        "id": row * len(GROUPINGS) + column + 1,
        "type": "timeseries",
        "title": f"{measure.title} ({measure.unit}) by {grouping}",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": _UNITS[measure.unit]}, "overrides": []},
        "targets": [
            {
                "refId": "A",
                "expr": charts_and_alerts.query(measure, grouping, _MATCHERS),
                "legendFormat": legend,
            }
        ],
    }


def _rules() -> Iterator[dict[str, Any]]:
    for alert in charts_and_alerts.alerts(_SOURCE):
        where = "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}"
        yield {
            "alert": alert.name,
            "expr": alert.expression(),
            "for": f"{alert.minutes}m",
            "labels": {"severity": alert.severity},
            "annotations": {"summary": f"{where}: {alert.title}", "description": alert.text},
        }
