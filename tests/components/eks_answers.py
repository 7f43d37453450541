"""What AWS answers beyond the inputs, for recordings of EKS programs."""

from typing import Any

AWS_OUTPUTS: dict[str, dict[str, Any]] = {
    "aws:eks/cluster:Cluster": {
        "endpoint": "https://0A1B2C.gr7.us-east-1.eks.amazonaws.com",
        "certificateAuthority": {"data": "Y2VydGlmaWNhdGU="},
        "arn": "arn:aws:eks:us-east-1:123456789012:cluster/k8s-ml",
    },
    "aws:eks/nodeGroup:NodeGroup": {
        "resources": [{"autoscalingGroups": [{"name": "eks-train-gpu-0a1b2c"}]}],
    },
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
    "aws:iam/role:Role": {"arn": "arn:aws:iam::123456789012:role/a-role", "name": "a-role"},
    "aws:kms/key:Key": {
        "arn": "arn:aws:kms:us-east-1:123456789012:key/0a1b2c",
        "keyId": "0a1b2c",
    },
}
"""Type token -> outputs."""
