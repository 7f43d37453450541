"""EKS, as fault injection knows it."""

from gpu_cluster.components.catalog.clouds import AWS

KILL_PARTS = 3
"""A stack on EKS has four times as many operations as one on GKE."""
OUTPUTS = {
    AWS.cluster: {
        "endpoint": "https://192.0.2.1",
        "certificateAuthority": {"data": "Q0E="},
        "vpcConfig": {"clusterSecurityGroupId": "sg-1"},
    },
    AWS.node_pool: {"resources": [{"autoscalingGroups": [{"name": "eks-group"}]}]},
}
