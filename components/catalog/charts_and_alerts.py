"""The GPU measures that every dashboard shows, and the GPU states that need attention.

Each query is PromQL over the metrics and labels of `catalog.metrics`. If pods share GPUs, a GPU has
one series per pod, so each GPU is reduced to one value before values are added up.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from . import metrics
from .metrics import Source

Unit = Literal["%", "MiB", "°C", "W", "MHz", "errors", "code"]
Grouping = Literal["node", "pod", "GPU"]
GROUPINGS: Final[tuple[Grouping, ...]] = ("node", "pod", "GPU")

_DEVICE: Final = ("Hostname", "gpu", "GPU_I_ID")
"""The labels that identify one GPU, or one MIG partition of it."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A row of a dashboard: a quantity by node, by pod and by GPU."""

    title: str
    unit: Unit
    metric: str
    combine: Literal["avg", "max", "sum"]
    """How the value of a node or a pod is derived from those of its GPUs."""
    scale: str = ""
    """Arithmetic after the metric (for a counter, after its rate per second) to get `unit`."""
    by: tuple[str, ...] = ()
    """Labels that distinguish lines, in addition to the node, pod or GPU."""


MEASURES: Final = (
    Measure("Utilisation", "%", "DCGM_FI_DEV_GPU_UTIL", "avg"),
    Measure("Compute engine active", "%", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "avg", scale=" * 100"),
    Measure("Memory used", "MiB", "DCGM_FI_DEV_FB_USED", "sum"),
    Measure("Memory free", "MiB", "DCGM_FI_DEV_FB_FREE", "sum"),
    Measure("Temperature", "°C", "DCGM_FI_DEV_GPU_TEMP", "max"),
    Measure("Power", "W", "DCGM_FI_DEV_POWER_USAGE", "sum"),
    Measure(
        "XID errors of the last 5 minutes",
        "errors",
        "DCGM_EXP_XID_ERRORS_COUNT",
        "sum",
        by=("xid",),
    ),
    Measure("Last XID error", "code", "DCGM_FI_DEV_XID_ERRORS", "max"),
    Measure("SM clock", "MHz", "DCGM_FI_DEV_SM_CLOCK", "avg"),
    Measure(
        "Throttled for temperature", "%", "DCGM_FI_DEV_THERMAL_VIOLATION", "max", scale=" / 1e7"
    ),
    Measure("Throttled for power", "%", "DCGM_FI_DEV_POWER_VIOLATION", "max", scale=" / 1e7"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A state of a GPU that needs attention."""

    name: str
    title: str
    query: str
    """PromQL, in which `{matchers}` stands for the label matchers of the platform."""
    minutes: int
    """How long the state must last before the alert fires."""
    severity: Literal["critical", "warning"]
    text: str
    """What it means and what to do."""

    def expression(self, matchers: str = "") -> str:
        """The query with label matchers such as `cluster="gpu-dev"`."""
        if not matchers:
            return self.query.replace(", {matchers}", "").replace("{matchers}", "")
        return self.query.replace("{matchers}", matchers)


ALERTS: Final = (
    Alert(
        name="GpuXidError",
        title="XID error",
        query="max by (Hostname, gpu, xid, namespace, pod) "
        "(DCGM_EXP_XID_ERRORS_COUNT{{matchers}}) > 0",
        minutes=0,
        severity="critical",
        text="The driver reported an error of the GPU. Look up the code in NVIDIA's XID "
        "catalogue; 13, 31 and 43 are mostly caused by the program, for others drain the "
        "node.",
    ),
    Alert(
        name="GpuThermalThrottling",
        title="throttled for temperature",
        query="max by (Hostname, gpu) "
        "(rate(DCGM_FI_DEV_THERMAL_VIOLATION{{matchers}}[5m])) / 1e9 > 0.05",
        minutes=10,
        severity="warning",
        text="More than 5 % of the time the GPU runs slower because it is too hot. On your own "
        "machines check the cooling; in a cloud, drain and delete the node.",
    ),
    Alert(
        name="GpuPowerThrottling",
        title="throttled for power",
        # A GPU at full load reaches its power limit now and then.
        query="max by (Hostname, gpu) "
        "(rate(DCGM_FI_DEV_POWER_VIOLATION{{matchers}}[5m])) / 1e9 > 0.5",
        minutes=30,
        severity="warning",
        text="More than half of the time the GPU runs slower because of its power limit. Compare "
        "nvidia-smi -q -d POWER with other nodes of the pool.",
    ),
    Alert(
        name="GpuIdle",
        title="idle for an hour while a pod holds it",
        # Partitions report no utilisation in percent, but compute engine activity from 0 to 1:
        # below half a percent of either counts as idle.
        query="max by (Hostname, gpu, GPU_I_ID, namespace, pod) "
        '(max_over_time(DCGM_FI_DEV_GPU_UTIL{pod!="", {matchers}}[5m]) '
        'or max_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE{pod!="", {matchers}}[5m])) < 0.005',
        minutes=60,
        severity="warning",
        text="A pod holds the GPU without using it, while others may be waiting. Delete the pod, "
        "or ask its owner.",
    ),
)


def measures(source: Source) -> Iterator[Measure]:
    """The measures whose metric `source` collects."""
    return (measure for measure in MEASURES if metrics.collected(measure.metric, source))


def alerts(source: Source) -> Iterator[Alert]:
    """The alerts whose metrics `source` collects."""
    return (alert for alert in ALERTS if metrics.collected(alert.query, source))


def query(measure: Measure, grouping: Grouping, matchers: str = "") -> str:
    """The PromQL of one panel, with label matchers such as `cluster="gpu-dev"`."""
    if grouping == "pod":
        matchers = ", ".join(['pod!=""', *([matchers] if matchers else [])])
    series = f"{measure.metric}{{{matchers}}}"
    if metrics.METRICS[measure.metric].kind == "counter":
        series = f"rate({series}[5m])"
    value = series + measure.scale
    if grouping == "pod":
        return _by(measure.combine, ("namespace", "pod", *measure.by), value)
    once = _by("max", (*_DEVICE, *measure.by), value)
    if grouping == "node":
        return _by(measure.combine, ("Hostname", *measure.by), once)
    return once


def used_metrics() -> set[str]:
    """Every metric that a dashboard or an alert names."""
    queries = [measure.metric for measure in MEASURES] + [alert.query for alert in ALERTS]
    return {name for query in queries for name in metrics.metrics_in(query)}


def _by(operator: str, labels: tuple[str, ...], value: str) -> str:
    return f"{operator} by ({', '.join(labels)}) ({value})"
