"""GPU metrics and their labels, as the pinned DCGM exporter documents them.

Sources, read on 2026-11-21: dcgm-exporter 4.5.3-4.8.2, etc/default-counters.csv (names, types,
units), internal/pkg/rendermetrics (device labels) and internal/pkg/transformation (pod labels).
`managed` is what GKE's own exporter, gke-dcgm-exporter 4.4.1-4.6.0-gke.17, was seen to export. Not
in the table: single profiling pipes, ECC counters, retired pages, single NVLink lanes and rows that
are labels.
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
    default: bool = True
    """Whether the row is active in the exporter's default file; others are commented out."""
    managed: bool = False
    """Whether GKE's managed DCGM exports it."""
    labels: tuple[str, ...] = ()
    """Labels that only this metric has, in addition to `DEVICE_LABELS`."""


_ROWS: Final = (
    Metric("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock, MHz", managed=True),
    Metric("DCGM_FI_DEV_MEM_CLOCK", "gauge", "memory clock, MHz"),
    Metric("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "memory temperature, C", managed=True),
    Metric("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature, C", managed=True),
    Metric("DCGM_FI_DEV_POWER_USAGE", "gauge", "power draw, W", managed=True),
    Metric(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "energy since the driver was loaded, mJ",
        managed=True,
    ),
    Metric("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries"),
    Metric(
        "DCGM_FI_DEV_GPU_UTIL",
        "gauge",
        "time in which a kernel ran, percent; not available with MIG",
        managed=True,
    ),
    Metric(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "gauge",
        "time in which memory was read or written, percent",
        managed=True,
    ),
    Metric("DCGM_FI_DEV_ENC_UTIL", "gauge", "encoder in use, percent"),
    Metric("DCGM_FI_DEV_DEC_UTIL", "gauge", "decoder in use, percent"),
    Metric(
        "DCGM_FI_DEV_XID_ERRORS",
        "gauge",
        "code of the last XID error; it stays until the exporter restarts",
        labels=("err_code", "err_msg"),
    ),
    Metric("DCGM_FI_DEV_POWER_VIOLATION", "counter", "time throttled for power, ns", default=False),
    Metric(
        "DCGM_FI_DEV_THERMAL_VIOLATION",
        "counter",
        "time throttled for temperature, ns",
        default=False,
    ),
    Metric(
        "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
        "counter",
        "time throttled because of another GPU, ns",
        default=False,
    ),
    Metric(
        "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION",
        "counter",
        "time throttled for the board's limits, ns",
        default=False,
    ),
    Metric(
        "DCGM_FI_DEV_LOW_UTIL_VIOLATION",
        "counter",
        "time throttled for lack of work, ns",
        default=False,
    ),
    Metric(
        "DCGM_FI_DEV_RELIABILITY_VIOLATION",
        "counter",
        "time throttled for reliability, ns",
        default=False,
    ),
    # The file declares a counter, but the value falls when an error leaves the window; it is a
    # gauge since 4.6.0-4.8.3.
    Metric(
        "DCGM_EXP_XID_ERRORS_COUNT",
        "gauge",
        "XID errors of the last 5 minutes, by code",
        default=False,
        labels=("xid", "window_size_in_ms"),
    ),
    Metric("DCGM_FI_DEV_FB_FREE", "gauge", "memory free, MiB", managed=True),
    Metric("DCGM_FI_DEV_FB_USED", "gauge", "memory used, MiB", managed=True),
    Metric("DCGM_FI_DEV_FB_RESERVED", "gauge", "memory of the driver, MiB"),
    Metric("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", "NVLink traffic"),
    Metric(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "memory rows remapped for uncorrectable errors",
    ),
    Metric(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "counter",
        "memory rows remapped for correctable errors",
    ),
    Metric("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "1 if no spare memory row is left"),
    Metric(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "gauge",
        "time in which the compute engine was active, 0 to 1; Volta and later, also with MIG",
        managed=True,
    ),
    Metric(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "gauge",
        "cycles in which a tensor pipe was active, 0 to 1",
        managed=True,
    ),
    Metric(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "gauge",
        "cycles in which memory moved data, 0 to 1",
        managed=True,
    ),
    Metric("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "PCIe sent, bytes/s", managed=True),
    Metric("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "PCIe received, bytes/s", managed=True),
)

METRICS: Final[Mapping[str, Metric]] = MappingProxyType({row.name: row for row in _ROWS})

DEVICE_LABELS: Final = (
    "gpu",
    "UUID",
    "pci_bus_id",
    "device",
    "modelName",
    "GPU_I_PROFILE",
    "GPU_I_ID",
    "Hostname",
)
"""The labels of every GPU metric; `GPU_I_*` only with MIG. `Hostname` is the node's name."""

POD_LABELS: Final = ("pod", "namespace", "container")
"""The pod that uses the GPU. A Prometheus that does not honor the exporter's labels sets these to
the exporter's own pod, and renames the exporter's to `exported_pod` and so on."""

GOOGLE_LABELS: Final = ("cluster", "location")
"""Labels that Google Cloud Managed Service for Prometheus adds to every series, of all clusters of
a project (cloud.google.com/stackdriver/docs/managed-prometheus, read 2026-11-21)."""


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
