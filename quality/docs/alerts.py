"""The page of alerts and of the dashboards' measurements, from the catalog."""

from collections.abc import Callable, Iterable, Iterator

from components.catalog.charts_and_alerts import ALERTS, GROUPINGS, MEASURES, alerts, measures
from components.catalog.metrics import METRICS, Source
from tools.sections import REFERENCE, table

PAGE = REFERENCE / "alerts.md"

_HEAD = """# Alerts and dashboards

`make docs` writes this page from the catalog. `gpu-cluster:monitoring: { enabled: true }`
turns monitoring on ([every key](configuration/monitoring.md)).

- On GKE Standard, NVIDIA's DCGM exporter, which the stack installs, collects the metrics, or GKE's
  own exporter with `source: managed`; the dashboard and the alerts are in Cloud Monitoring.
- On GKE Autopilot, GKE's own exporter collects them, since Autopilot admits no other; the dashboard
  and the alerts are in Cloud Monitoring.
- On EKS and on an existing cluster, NVIDIA's DCGM exporter collects them; the dashboard and the
  alerts are ConfigMaps for Grafana and Prometheus, or, with `prometheusOperator: true`, a
  ServiceMonitor and a PrometheusRule.

Cloud Monitoring notifies nobody of an alert until `notificationChannels` names a channel. These
commands create one for an e-mail address and list the names of all channels:

```console
$ gcloud beta monitoring channels create --display-name "GPU alerts" --type email \\
    --channel-labels email_address=ml-oncall@example.com
$ gcloud beta monitoring channels list --format 'value(name)'
```

`exporter` and `managed` in the tables below say which of the two exporters has the metric.

## Alerts

To change an alert, change `ALERTS` in `components/catalog/charts_and_alerts.py`.
"""


def markdown() -> str:
    """The page's text."""
    groups = ", by ".join(GROUPINGS)
    return "\n".join(
        [
            _HEAD,
            *table(("alert", "severity", "after", "with", "meaning, and what to do"), _alerts()),
            "",
            f"## Dashboards\n\nEach quantity is shown by {groups}.\n",
            *table(("quantity", "unit", "metric", "with"), _measures()),
            "",
        ]
    )


def _alerts() -> Iterator[tuple[str, ...]]:
    for one in ALERTS:
        after = f"{one.minutes} minutes" if one.minutes else "at once"
        yield f"`{one.name}`", one.severity, after, _sources(one.name, alerts, "name"), one.text


def _measures() -> Iterator[tuple[str, ...]]:
    for one in MEASURES:
        assert one.metric in METRICS
        sources = _sources(one.title, measures, "title")
        yield one.title, one.unit, f"`{one.metric}`", sources


def _sources(name: str, of: Callable[[Source], Iterable[object]], key: str) -> str:
    """The exporters that an alert or a measurement needs."""
    sources: tuple[Source, ...] = ("exporter", "managed")
    return ", ".join(
        source for source in sources if name in {getattr(each, key) for each in of(source)}
    )
