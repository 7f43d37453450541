"""The GPU metrics of alerts and dashboards, as the pinned DCGM exporter documents them.

Sources, read on 2026-11-21: dcgm-exporter 4.5.3-4.8.2, etc/default-counters.csv (names, types,
units). `managed` is what GKE's own exporter, gke-dcgm-exporter 4.4.1-4.6.0-gke.17, was seen to
export.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Source = Literal["managed", "exporter"]
"""The collector of the metrics: GKE's managed DCGM, or the exporter of this stack."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the counters file."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    """A description in our own words, with the unit."""
    managed: bool = False
    """Whether GKE's managed DCGM exports it."""
    labels: tuple[str, ...] = ()
    """Labels that only this metric has."""


_ROWS: Final = (
    Metric("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock, MHz", managed=True),
    Metric("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature, C", managed=True),
    Metric("DCGM_FI_DEV_POWER_USAGE", "gauge", "power draw, W", managed=True),
    Metric(
        "DCGM_FI_DEV_GPU_UTIL",
        "gauge",
        "time in which a kernel ran, percent; not there with MIG",
        managed=True,
    ),
    Metric(
        "DCGM_FI_DEV_XID_ERRORS",
        "gauge",
        "code of the last XID error; it stays until the exporter restarts",
        labels=("err_code", "err_msg"),
    ),
    Metric("DCGM_FI_DEV_POWER_VIOLATION", "counter", "time throttled for power, ns"),
    Metric("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", "time throttled for temperature, ns"),
    # The file declares a counter, but the value falls when an error leaves the window; it is a
    # gauge since 4.6.0-4.8.3.
    Metric(
        "DCGM_EXP_XID_ERRORS_COUNT",
        "gauge",
        "XID errors of the last 5 minutes, by code",
        labels=("xid", "window_size_in_ms"),
    ),
    Metric("DCGM_FI_DEV_FB_FREE", "gauge", "memory free, MiB", managed=True),
    Metric("DCGM_FI_DEV_FB_USED", "gauge", "memory used, MiB", managed=True),
    Metric(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "gauge",
        "time in which the compute engine was active, 0 to 1; Volta and later, also with MIG",
        managed=True,
    ),
)

METRICS: Final[Mapping[str, Metric]] = MappingProxyType({row.name: row for row in _ROWS})


def metrics_in(query: str) -> set[str]:
    """Names of the DCGM metrics in a PromQL expression, whether or not they exist."""
    return set(re.findall(r"\bDCGM_\w+", query))


def collected(query: str, source: Source) -> bool:
    """Whether `source` has every metric of the query."""
    return source == "exporter" or all(METRICS[name].managed for name in metrics_in(query))


def counters(names: Collection[str]) -> str:
    """The exporter's counters file with exactly these metrics, in the table's order.

    Each line has exactly two commas.
    """
    return "".join(
        f"{metric.name}, {metric.kind}, {metric.help.replace(',', ';')}.\n"
        for metric in METRICS.values()
        if metric.name in names
    )
