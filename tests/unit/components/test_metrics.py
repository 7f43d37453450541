"""Every query of a dashboard or an alert names what the pinned exporter documents, and no more."""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster.components.catalog import charts_and_alerts, images, metrics
from gpu_cluster.components.catalog.charts_and_alerts import ALERTS, GROUPINGS, MEASURES
from gpu_cluster.components.gpu import grafana

GOOGLE = 'cluster="gpu-dev", location="us-central1-a"'
OPERATORS = {"avg", "max", "sum", "by", "or", "rate", "max_over_time"}
TOKEN = re.compile(
    r"""\s*(?:(?P<text>"[^"]*")|(?P<range>\[\d+[smh]\])|(?P<number>\d[\d.]*(?:e\d+)?)"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<sign>=~|!=|[-+*/<>=(){},]))"""
)


def tokens(query: str) -> list[tuple[str, str]]:
    """The query as `(kind, text)`; a character that PromQL does not know fails."""
    found, place = [], 0
    while place < len(query.rstrip()):
        match = TOKEN.match(query, place)
        assert match, f"not PromQL at {query[place:]!r}"
        found.append((str(match.lastgroup), match[match.lastgroup or 0]))
        place = match.end()
    return found


def names_of(query: str) -> tuple[set[str], set[str]]:
    """The metrics that a query reads, and the labels that it matches or groups by."""
    read: set[str] = set()
    labels: set[str] = set()
    depth, grouping = [""], False
    for kind, text in tokens(query):
        if text in "({":
            depth.append("labels" if text == "{" or grouping else "")
            grouping = False
        elif text in ")}":
            depth.pop()
        elif kind == "name" and depth[-1] == "labels":
            labels.add(text)
        elif text == "by":
            grouping = True
        elif kind == "name" and text not in OPERATORS:
            read.add(text)
    assert depth == [""], f"brackets do not match in {query}"
    return read, labels


def queries() -> Iterator[tuple[str, bool]]:
    """Every query that any platform gets, and whether it is Google Cloud's."""
    for measure in MEASURES:
        for grouping in GROUPINGS:
            yield charts_and_alerts.query(measure, grouping, GOOGLE), True
    for alert in ALERTS:
        yield alert.expression(GOOGLE), True
    for panel in grafana.dashboard("GPUs")["panels"]:
        yield panel["targets"][0]["expr"], False
    for rule in grafana.rules()["groups"][0]["rules"]:
        yield rule["expr"], False


LABELS = {
    *("gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "Hostname"),
    *("pod", "namespace", "container"),
}
"""Of every GPU metric: internal/pkg/rendermetrics and transformation of dcgm-exporter."""
GOOGLE_LABELS = {"cluster", "location"}
"""Added by Google: cloud.google.com/stackdriver/docs/managed-prometheus."""


@pytest.mark.parametrize(("query", "google"), sorted(set(queries())))
def test_a_query_names_only_what_is_documented(query: str, google: bool) -> None:
    """Metrics and labels of a query are those of the exporter; on Google Cloud its own two too."""
    read, labels = names_of(query)
    assert read
    assert read <= set(metrics.METRICS)
    own = {label for name in read for label in metrics.METRICS[name].labels}
    assert labels <= own | LABELS | (GOOGLE_LABELS if google else set())


def test_the_tokenizer_sees_what_is_wrong() -> None:
    """Metrics, matched labels and grouped labels are all found, wherever they stand."""
    query = 'max by (Hostname, gpux) (rate(NO_SUCH{poddy=~"a|b"}[5m]) / 1e7 or DCGM_X * 2) > 0.5'
    assert names_of(query) == ({"NO_SUCH", "DCGM_X"}, {"Hostname", "gpux", "poddy"})


@pytest.mark.parametrize("query", ["sum by (a) (b", "a $ b", "rate(a[5x])"])
def test_the_tokenizer_refuses_what_is_no_promql(query: str) -> None:
    """An open bracket, an unknown sign and an unknown duration do not pass."""
    with pytest.raises(AssertionError):
        names_of(query)


@pytest.mark.parametrize(("query", "google"), sorted(set(queries())))
def test_counters_are_read_as_rates_and_gauges_as_values(query: str, google: bool) -> None:
    """`rate` stands before every counter and before nothing else."""
    for name, before in re.findall(r"((?<=rate\()DCGM_\w+)|(DCGM_\w+)", query):
        kind = metrics.METRICS[name or before].kind
        assert (kind == "counter") == bool(name)


def test_every_google_query_looks_at_one_cluster() -> None:
    """A project's Prometheus has every cluster: each metric is narrowed to this one."""
    for query, google in queries():
        if google:
            assert query.count(GOOGLE) == len(re.findall(r"DCGM_\w+", query))


def test_a_shared_gpu_counts_once_for_its_node() -> None:
    """A node's value is made of its GPUs, not of the pods on them."""
    for measure in MEASURES:
        query = charts_and_alerts.query(measure, "node")
        assert "by (Hostname, gpu, GPU_I_ID" in query
        assert "namespace" not in query


def test_a_pod_s_panel_leaves_out_gpus_that_no_pod_holds() -> None:
    """Without a pod there is no line by pod."""
    for measure in MEASURES:
        assert f'{measure.metric}{{pod!=""' in charts_and_alerts.query(measure, "pod")


def test_the_dashboard_has_what_people_ask_for() -> None:
    """Utilisation, memory, temperature, power, XID errors, clock and throttling are measures."""
    shown = {measure.metric.removeprefix("DCGM_FI_DEV_") for measure in MEASURES}
    assert shown >= {
        "GPU_UTIL", "FB_USED", "FB_FREE", "GPU_TEMP", "POWER_USAGE", "XID_ERRORS", "SM_CLOCK",
        "THERMAL_VIOLATION", "POWER_VIOLATION",
    }  # fmt: skip


def test_alerts_watch_errors_throttling_and_idle_gpus() -> None:
    """An idle GPU calls for a person after an hour, and only while a pod holds it."""
    by_name = {alert.name: alert for alert in ALERTS}
    assert {"GpuXidError", "GpuThermalThrottling", "GpuPowerThrottling"} < set(by_name)
    assert by_name["GpuIdle"].minutes == 60
    assert by_name["GpuIdle"].expression().count('{pod!=""}') == 2
    # The last error's code stays for ever: an alert on it would never end.
    assert "DCGM_FI_DEV_XID_ERRORS" not in by_name["GpuXidError"].query


def test_managed_dcgm_is_not_asked_for_what_it_has_not() -> None:
    """GKE's own exporter has no XID errors and no throttling times, so neither is shown."""
    measures = {measure.title for measure in charts_and_alerts.measures("managed")}
    assert measures == {
        "Utilisation", "Compute engine active", "Memory used", "Memory free", "Temperature",
        "Power", "SM clock",
    }  # fmt: skip
    alerts = {alert.name for alert in charts_and_alerts.alerts("managed")}
    assert "GpuIdle" in alerts
    assert not {"GpuXidError", "GpuThermalThrottling", "GpuPowerThrottling"} & alerts
    assert list(charts_and_alerts.measures("exporter")) == list(MEASURES)
    assert list(charts_and_alerts.alerts("exporter")) == list(ALERTS)


def test_the_counters_file_has_what_is_used_and_three_columns() -> None:
    """The exporter collects exactly what queries name, from lines with two commas each."""
    text = metrics.counters(charts_and_alerts.used_metrics())
    rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    assert all(len(row) == 3 for row in rows)
    used = {name for query, _ in queries() for name in names_of(query)[0]}
    assert {row[0] for row in rows} == used
    assert all(metrics.METRICS[row[0]].kind == row[1] for row in rows)


def test_the_table_s_rows_are_rows_of_the_pinned_version() -> None:
    """Names are of the exporter's own files, once each; those and the source are of the image."""
    assert len(metrics._ROWS) == len(metrics.METRICS)
    names = Path(__file__).with_name("dcgm_metrics.txt").read_text()
    assert metrics.METRICS.keys() <= {*names.splitlines()}
    tag = str(images.DCGM_EXPORTER.tag).removesuffix("-distroless")
    assert tag in str(metrics.__doc__)
    assert f"dcgm-exporter {tag}, " in names


def test_the_grafana_dashboard_is_a_grid_without_overlaps() -> None:
    """Three panels side by side for each measure, each with an id of its own."""
    panels = grafana.dashboard("GPUs")["panels"]
    assert len(panels) == 3 * len(MEASURES)
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {json.dumps(panel["gridPos"], sort_keys=True) for panel in panels}
    assert len(places) == len(panels)
    assert max(panel["gridPos"]["x"] + panel["gridPos"]["w"] for panel in panels) == 24
