"""A new environment on an existing EKS cluster."""

from gpu_cluster.components.eks.cluster_args import DEFAULT_VERSION
from gpu_cluster.stacks.environments.eks import LOCATION
from gpu_cluster.stacks.environments.new_stack import (
    MAX_NODES,
    Choices,
    Parts,
    Question,
    added,
    example,
    offer_for,
    scalar,
)

__all__ = ["LOCATION", "QUESTIONS", "parts", "provider"]
SUBNET = "subnet-0123456789abcdef0"
QUESTIONS = (
    Question("kubernetes_version", "the cluster's Kubernetes version", DEFAULT_VERSION),
    Question("subnet_ids", "private subnets of its VPC, comma-separated", SUBNET, many=True),
)

DEFAULT_SCALER = "cluster-autoscaler"
_INSTALLED = {
    DEFAULT_SCALER: [
        "autoscaler: {} # remove this line if the cluster already has Cluster Autoscaler"
    ],
    "karpenter": [
        "karpenter: {} # if the cluster already has Karpenter, instead of this line",
        "# karpenterNodeRole: NAME, the role of that Karpenter's nodes",
    ],
}
"""Scaler -> the lines that install it; nothing installs Auto Mode."""
_REPAIR = "nodeRepair: { enabled: false } # true if the cluster has eks-node-monitoring-agent"


def provider(choices: Choices) -> list[str]:
    """Implements `Environment`."""
    region = choices.location
    return [f"  aws:region: {scalar(region or LOCATION)}{example(region)}"]


def parts(choices: Choices) -> Parts:
    """Implements `Environment`."""
    offer = offer_for(choices, "aws", choices.location or LOCATION)
    scaler = choices.scaler or DEFAULT_SCALER
    version = choices.kubernetes_version or DEFAULT_VERSION
    subnets = choices.subnet_ids or (SUBNET,)
    groups = ", ".join(map(scalar, choices.security_group_ids))
    return (
        added(choices, offer, "EKS"),
        [
            f"version: {scalar(version)}{example(choices.kubernetes_version)}",
            "network:",
            f"  subnetIds: [{', '.join(map(scalar, subnets))}]"
            + (example(choices.subnet_ids) or " # private, in the cluster's VPC"),
            f"  securityGroupIds: [{groups}]"
            if groups
            else "  # securityGroupIds: that of the other nodes, if they have a separate one",
            *_INSTALLED.get(scaler, ()),
        ],
        [
            f"instanceTypes: [{offer.machine}]",
            f"maxNodes: {choices.max_nodes or MAX_NODES} # from 0, as pods need them",
            *(
                [f"subnetIds: [{scalar(subnets[0])}] # one zone for each pool"]
                if len(subnets) > 1
                else []
            ),
            *([_REPAIR] if scaler == DEFAULT_SCALER else []),
        ],
        1,
    )
