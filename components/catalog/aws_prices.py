"""List prices of AWS in us-east-1: nodes, and what a cluster costs apart from them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from . import eks
from .prices import NodePrice, Price, known

_VPC: Final = "quoted from aws.amazon.com/vpc/pricing, 2026-09-20"
_GP3: Final = "quoted from aws.amazon.com/ebs/general-purpose, undated"
_EKS_SOURCE: Final = "karpenter's pricing tables of 2026-07-20 (GPUs) and 2026-01-19 (CPU)"

PRICES: Final[Mapping[str, Price]] = MappingProxyType({
    "eks-cluster": Price(0.1, "hour", "AWS blog on EKS version support"),
    "eks-cluster-extended-support": Price(0.6, "hour", "AWS blog on EKS version support",
        notes="instead of eks-cluster, not on top of it"),
    "nat-gateway": Price(0.045, "hour", _VPC),
    "nat-gateway-data": Price(0.045, "GB", _VPC),
    "public-ipv4": Price(0.005, "hour", "quoted from aws.amazon.com/vpc/pricing, 2026-08-09"),
    "vpc-endpoint": Price(0.01, "hour",
        "quoted from aws.amazon.com/privatelink/pricing, 2026-08-09",
        notes="per interface endpoint and zone"),
    "vpc-endpoint-data": known(0.01, "GB"),
    "ebs-gp3": Price(0.08, "GB-month", _GP3),
    "ebs-gp3-throughput": Price(0.04, "MiB/s-month", _GP3, notes="above 125 MiB/s"),
    "ebs-gp3-iops": Price(0.005, "IOPS-month", _GP3, notes="above 3,000"),
    "ebs-initialization": Price(0.0036, "GB",
        "quoted by aws-samples from aws.amazon.com/ebs/pricing, 2025; at most that"),
    "kms-key": Price(1.0, "month", "quoted from aws.amazon.com/kms/pricing, 2026-09-29",
        notes="each of the first two rotations, a year apart, adds 1.0"),
    "cloudwatch-logs": known(0.5, "GB", "ingested"),
})  # fmt: skip


def eks_node(instance_types: Sequence[str]) -> NodePrice:
    """The price of a node of a group with any of these instance types: the highest one."""
    rows = [eks.instance_type(name) for name in instance_types]
    prices = [None if instance is None else instance.on_demand for instance in rows]
    known_prices = [price for price in prices if price is not None]
    return NodePrice(
        on_demand=max(known_prices) if known_prices and len(known_prices) == len(prices) else None,
        # Spot prices on AWS change hourly and differ by zone.
        spot=None,
        source=_EKS_SOURCE if known_prices else "",
    )
