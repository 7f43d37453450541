"""EKS, as benchmarks and fault injection measure it."""

from components.catalog.clouds import AWS

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
"""Nodes wait for their network plugin, and coredns waits for the first node."""
