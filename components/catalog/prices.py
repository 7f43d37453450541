"""The cost of a cluster apart from its machines: list prices in us-east-1 and us-central1.

US dollars. A date in a source is the day on which the page had the price; if only public notes that
quote a page were read, the source says so. Prices of machines and GPUs are in `gke` and `eks`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

HOURS_PER_MONTH: Final = 730
"""The length of a month for billing."""

Unit = Literal["hour", "month", "GB", "GB-month", "GiB-month", "MiB/s-month", "IOPS-month"]


@dataclass(frozen=True, slots=True)
class Price:
    """An item of a bill."""

    name: str
    cloud: str
    """Key of `CLOUDS`."""
    dollars: float
    per: Unit
    source: str
    uncertain: bool = False
    """Whether it is general knowledge, without a source: good for an estimate, not for a limit."""
    notes: str = ""


_CASPRICE: Final = "kubernetes/autoscaler gce_price_info.go, 2026-06-23"
_CLOUD_NAT: Final = "quoted from cloud.google.com/nat/pricing, 2026-10-16"
_VPC: Final = "quoted from aws.amazon.com/vpc/pricing, 2026-09-20"
_GP3: Final = "quoted from aws.amazon.com/ebs/general-purpose, undated"


def _known(name: str, cloud: str, dollars: float, per: Unit, notes: str = "") -> Price:
    source = "list price as generally known, 2026-11"
    return Price(name, cloud, dollars, per, source, uncertain=True, notes=notes)


_ROWS: Final = (
    Price("gke-cluster", "google", 0.1, "hour", "GKE pricing page",
        notes="the free tier covers one zonal or Autopilot cluster of a billing account"),
    Price("gke-cluster-extended-period", "google", 0.5, "hour", "GKE pricing page",
        notes="on top of gke-cluster, for a minor in the extended support period"),
    Price("gke-free-tier", "google", 74.4, "month", "GKE pricing page",
        notes="a credit per billing account, not for regional Standard clusters"),
    Price("cloud-nat-per-vm", "google", 0.0014, "hour", _CLOUD_NAT,
        notes="per machine that uses the gateway, up to cloud-nat-most in all"),
    _known("cloud-nat-most", "google", 0.044, "hour"),
    Price("cloud-nat-data", "google", 0.045, "GB", _CLOUD_NAT),
    Price("external-ipv4", "google", 0.005, "hour", _CLOUD_NAT),
    Price("pd-standard", "google", 0.04, "GiB-month", _CASPRICE),
    Price("pd-balanced", "google", 0.1, "GiB-month", _CASPRICE),
    Price("pd-ssd", "google", 0.17, "GiB-month", _CASPRICE),
    Price("hyperdisk-balanced", "google", 0.08, "GiB-month",
        "quoted from Google's price list, 0.000109589 an hour, 2026-08-11",
        notes="capacity; 3,000 IOPS and 140 MiB/s come with it, and more is billed apart"),
    Price("filestore-standard", "google", 0.2, "GiB-month",
        "cloud.google.com/filestore/pricing, its example of Basic HDD, 0.000274 an hour",
        notes="of an undated copy of the page"),
    _known("filestore-premium", "google", 0.3, "GiB-month", "Basic SSD"),
    _known("filestore-zonal", "google", 0.3, "GiB-month"),
    _known("filestore-enterprise", "google", 0.6, "GiB-month"),
    Price("local-ssd", "google", 0.08, "GiB-month", _CASPRICE),
    Price("local-ssd-spot", "google", 0.048, "GiB-month", _CASPRICE),
    Price("eks-cluster", "aws", 0.1, "hour", "AWS blog on EKS version support"),
    Price("eks-cluster-extended-support", "aws", 0.6, "hour", "AWS blog on EKS version support",
        notes="instead of eks-cluster, not on top of it"),
    Price("nat-gateway", "aws", 0.045, "hour", _VPC),
    Price("nat-gateway-data", "aws", 0.045, "GB", _VPC),
    Price("public-ipv4", "aws", 0.005, "hour",
        "quoted from aws.amazon.com/vpc/pricing, 2026-08-09"),
    Price("vpc-endpoint", "aws", 0.01, "hour",
        "quoted from aws.amazon.com/privatelink/pricing, 2026-08-09",
        notes="per interface endpoint and zone"),
    _known("vpc-endpoint-data", "aws", 0.01, "GB"),
    Price("ebs-gp3", "aws", 0.08, "GB-month", _GP3),
    Price("ebs-gp3-throughput", "aws", 0.04, "MiB/s-month", _GP3, notes="above 125 MiB/s"),
    Price("ebs-gp3-iops", "aws", 0.005, "IOPS-month", _GP3, notes="above 3,000"),
    Price("kms-key", "aws", 1.0, "month", "quoted from aws.amazon.com/kms/pricing, 2026-09-29",
        notes="each of the first two rotations, a year apart, adds 1.0"),
    _known("cloudwatch-logs", "aws", 0.5, "GB", "ingested"),
)  # fmt: skip

PRICES: Final[Mapping[tuple[str, str], Price]] = MappingProxyType(
    {(row.cloud, row.name): row for row in _ROWS}
)
"""(cloud, name) -> price."""
