"""EKS, as benchmarks and fault injection measure it."""

from components.catalog.clouds import AWS
from components.catalog.node_prices import eks_node
from components.eks.settings import EksSettings
from quality.platforms import nodes
from stacks.cost.bill import Bill, Item
from stacks.cost.bill_parts import always, hourly, monthly, price_of

ENVIRONMENT = "train"
SCALE = 10.0
KILL_PARTS = 3
"""A stack on EKS has four times as many operations as one on GKE."""
ORDER = (
    "aws:ec2/vpc:Vpc",
    "aws:ec2/subnet:Subnet",
    AWS.cluster,
    "aws:eks/addon:Addon",
    AWS.node_pool,
    "aws:eks/addon:Addon",
)
"""Nodes wait for their network plugin, and coredns for the first of them."""


def idle(settings: EksSettings) -> dict[str, Bill]:
    """terraform-aws-modules/terraform-aws-eks, eks-managed-node-group, and terraform-aws-vpc."""
    disk = monthly("disk", price_of("aws", "ebs-gp3"), 20)
    fee = always("control plane", "standard", hourly("fee", price_of("aws", "eks-cluster")))
    key = always("KMS key", "of secrets", monthly("key", price_of("aws", "kms-key"), 1))
    gateways = Item(
        name="NAT",
        what="gateway and address",
        parts=[
            hourly("gateway", price_of("aws", "nat-gateway")),
            hourly("address", price_of("aws", "public-ipv4")),
        ],
        idle=len(settings.cluster.network.zones),
        full=len(settings.cluster.network.zones),
    )
    default = nodes("default", eks_node(["t3.medium"]), [disk], 1)
    gpus = [
        nodes(name, eks_node(one.args.instance_types), [disk], 1)
        for name, one in settings.pools.items()
    ]
    name = "terraform-aws-eks"
    return {
        name: Bill(items=[fee, key, gateways, default, *gpus]),
        f"{name}, GPU pools from 0": Bill(items=[fee, key, gateways, default]),
    }
