"""What a cluster costs besides its machines: list prices in us-east-1 and us-central1.

US dollars, read on 2026-11-21. Machines and GPUs have their prices in `gke` and `eks`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

HOURS_PER_MONTH: Final = 730
"""What clouds bill a month as."""

Unit = Literal["hour", "month", "GB", "GB-month", "GiB-month", "MiB/s-month", "IOPS-month"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One item of a bill."""

    name: str
    cloud: Literal["gcp", "aws"]
    dollars: float
    per: Unit
    source: str
    uncertain: bool = False
    """From general knowledge, not read in a source: good for an estimate, not for a limit."""
    notes: str = ""

    @property
    def monthly(self) -> float | None:
        """Dollars per month of one piece that runs all the time; None for what counts in bytes."""
        if self.per == "hour":
            return self.dollars * HOURS_PER_MONTH
        return self.dollars if self.per == "month" else None


_CASPRICE: Final = "kubernetes/autoscaler gce_price_info.go, 2026-06-23"
_KNOWN: Final = "list price as generally known, 2026-11"

_ROWS: Final = (
    Price(
        name="gke-cluster",
        cloud="gcp",
        dollars=0.10,
        per="hour",
        source="GKE pricing page",
        notes="the free tier covers one zonal or Autopilot cluster of a billing account",
    ),
    Price(
        name="gke-free-tier",
        cloud="gcp",
        dollars=74.40,
        per="month",
        source="GKE pricing page",
        notes="a credit per billing account, not for regional Standard clusters",
    ),
    Price(
        name="cloud-nat-per-vm",
        cloud="gcp",
        dollars=0.0014,
        per="hour",
        source=_KNOWN,
        uncertain=True,
        notes="per machine that uses the gateway, up to cloud-nat-most in all",
    ),
    Price(
        name="cloud-nat-most",
        cloud="gcp",
        dollars=0.044,
        per="hour",
        source=_KNOWN,
        uncertain=True,
    ),
    Price(
        name="cloud-nat-data", cloud="gcp", dollars=0.045, per="GB", source=_KNOWN, uncertain=True
    ),
    Price(
        name="external-ipv4", cloud="gcp", dollars=0.005, per="hour", source=_KNOWN, uncertain=True
    ),
    Price(
        name="forwarding-rule",
        cloud="gcp",
        dollars=0.025,
        per="hour",
        source=_KNOWN,
        uncertain=True,
    ),
    Price(name="pd-standard", cloud="gcp", dollars=0.04, per="GiB-month", source=_CASPRICE),
    Price(name="pd-balanced", cloud="gcp", dollars=0.10, per="GiB-month", source=_CASPRICE),
    Price(name="pd-ssd", cloud="gcp", dollars=0.17, per="GiB-month", source=_CASPRICE),
    Price(name="local-ssd", cloud="gcp", dollars=0.08, per="GiB-month", source=_CASPRICE),
    Price(name="local-ssd-spot", cloud="gcp", dollars=0.048, per="GiB-month", source=_CASPRICE),
    Price(
        name="eks-cluster",
        cloud="aws",
        dollars=0.10,
        per="hour",
        source="AWS blog on EKS version support",
    ),
    Price(
        name="eks-cluster-extended-support",
        cloud="aws",
        dollars=0.60,
        per="hour",
        source="AWS blog on EKS version support",
        notes="instead of eks-cluster, not on top of it",
    ),
    Price(
        name="nat-gateway", cloud="aws", dollars=0.045, per="hour", source=_KNOWN, uncertain=True
    ),
    Price(
        name="nat-gateway-data", cloud="aws", dollars=0.045, per="GB", source=_KNOWN, uncertain=True
    ),
    Price(
        name="public-ipv4", cloud="aws", dollars=0.005, per="hour", source=_KNOWN, uncertain=True
    ),
    Price(
        name="load-balancer",
        cloud="aws",
        dollars=0.0225,
        per="hour",
        source=_KNOWN,
        uncertain=True,
        notes="and its capacity units",
    ),
    Price(
        name="vpc-endpoint",
        cloud="aws",
        dollars=0.01,
        per="hour",
        source=_KNOWN,
        uncertain=True,
        notes="per interface endpoint and zone",
    ),
    Price(name="ebs-gp3", cloud="aws", dollars=0.08, per="GB-month", source=_KNOWN, uncertain=True),
    Price(
        name="ebs-gp3-throughput",
        cloud="aws",
        dollars=0.04,
        per="MiB/s-month",
        source=_KNOWN,
        uncertain=True,
        notes="above 125 MiB/s",
    ),
    Price(
        name="ebs-gp3-iops",
        cloud="aws",
        dollars=0.005,
        per="IOPS-month",
        source=_KNOWN,
        uncertain=True,
        notes="above 3,000",
    ),
    Price(name="kms-key", cloud="aws", dollars=1.0, per="month", source=_KNOWN, uncertain=True),
    Price(
        name="cloudwatch-logs",
        cloud="aws",
        dollars=0.50,
        per="GB",
        source=_KNOWN,
        uncertain=True,
        notes="ingested",
    ),
)

PRICES: Final[Mapping[tuple[str, str], Price]] = MappingProxyType(
    {(row.cloud, row.name): row for row in _ROWS}
)
"""(cloud, name) -> price."""
