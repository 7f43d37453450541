"""EKS, as benchmarks and fault injection measure it."""

from gpu_cluster.clouds.rows.aws import rows
from gpu_cluster.components.catalog.clouds import AWS

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
SECONDS = {
    AWS.cluster: 900.0,
    AWS.node_pool: 180.0,
    **{token: row.seconds for token, row in rows().items() if row.seconds},
}
EMPTY_POOL = 90.0
SOURCES = (
    "EKS control plane: 793 to 971 s over 21 regions, 900 s in us-west-2 (easontechtalk.com)",
    "EKS node group: 2 to 4 minutes for one or two nodes; addons below a minute (issue reports)",
)
OUTPUTS = {
    AWS.cluster: {
        "endpoint": "https://192.0.2.1",
        "certificateAuthority": {"data": "Q0E="},
        "vpcConfig": {"clusterSecurityGroupId": "sg-1"},
    },
    AWS.node_pool: {"resources": [{"autoscalingGroups": [{"name": "eks-group"}]}]},
}
