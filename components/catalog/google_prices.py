"""List prices of Google Cloud in us-central1: nodes, and what a cluster costs apart from them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from . import gke
from .prices import NodePrice, Price, known

_CASPRICE: Final = "kubernetes/autoscaler gce_price_info.go, 2026-06-23"
_CLOUD_NAT: Final = "quoted from cloud.google.com/nat/pricing, 2026-10-16"
_UNKNOWN: Final = NodePrice(on_demand=None, spot=None, source="")

PRICES: Final[Mapping[str, Price]] = MappingProxyType({
    "gke-cluster": Price(0.1, "hour", "GKE pricing page",
        notes="the free tier covers one zonal or Autopilot cluster of a billing account"),
    "gke-cluster-extended-period": Price(0.5, "hour", "GKE pricing page",
        notes="on top of gke-cluster, for a minor in the extended support period"),
    "gke-free-tier": Price(74.4, "month", "GKE pricing page",
        notes="a credit per billing account, not for regional Standard clusters"),
    "cloud-nat-per-vm": Price(0.0014, "hour", _CLOUD_NAT,
        notes="per machine that uses the gateway, up to cloud-nat-most in all"),
    "cloud-nat-most": known(0.044, "hour"),
    "cloud-nat-data": Price(0.045, "GB", _CLOUD_NAT),
    "external-ipv4": Price(0.005, "hour", _CLOUD_NAT),
    "pd-standard": Price(0.04, "GiB-month", _CASPRICE),
    "pd-balanced": Price(0.1, "GiB-month", _CASPRICE),
    "pd-ssd": Price(0.17, "GiB-month", _CASPRICE),
    "hyperdisk-balanced": Price(0.08, "GiB-month",
        "quoted from Google's price list, 0.000109589 an hour, 2026-08-11",
        notes="capacity; 3,000 IOPS and 140 MiB/s come with it, and more is billed apart"),
    "filestore-standard": Price(0.2, "GiB-month",
        "cloud.google.com/filestore/pricing, its example of Basic HDD, 0.000274 an hour",
        notes="of an undated copy of the page"),
    "filestore-premium": known(0.3, "GiB-month", "Basic SSD"),
    "filestore-zonal": known(0.3, "GiB-month"),
    "filestore-enterprise": known(0.6, "GiB-month"),
    "local-ssd": Price(0.08, "GiB-month", _CASPRICE),
    "local-ssd-spot": Price(0.048, "GiB-month", _CASPRICE),
})  # fmt: skip


def gke_node(machine_type: str, accelerator: str | None = None, gpus: int = 0) -> NodePrice:
    """The price of a node of Google Cloud; `accelerator` and `gpus` apply to attached GPUs (N1)."""
    machine = gke.machine_type(machine_type)
    if machine is None:
        return _UNKNOWN
    on_demand, spot = machine.on_demand, machine.spot
    source, uncertain = machine.price_source, machine.price_uncertain
    if machine.accelerator is None and gpus:
        gpu_model = gke.ACCELERATORS.get(accelerator or "")
        if gpu_model is None:
            return _UNKNOWN
        on_demand = _sum(on_demand, gpu_model.on_demand, gpus)
        spot = _sum(spot, gpu_model.spot, gpus)
        source = f"{source} + {gpu_model.price_source}"
        uncertain = uncertain or gpu_model.price_uncertain
    return NodePrice(
        on_demand=on_demand,
        spot=spot,
        source=source,
        uncertain=uncertain,
        without="local SSD" if machine.local_ssd_gib and "with SSD" not in source else None,
    )


def _sum(host: float | None, gpu_model: float | None, gpus: int) -> float | None:
    return None if host is None or gpu_model is None else round(host + gpus * gpu_model, 5)
