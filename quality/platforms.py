"""What the project's own measurements and comparisons know about each platform."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.components.catalog.clouds import AWS, GOOGLE

KILL_PARTS = {"eks": 3}
"""Platform -> the number of parts into which the kills of the fault injection are divided, if there
are several: a stack on EKS has four times as many operations as one on GKE."""
OUTPUTS: Mapping[str, Mapping[str, Any]] = {
    AWS.cluster: {
        "endpoint": "https://192.0.2.1",
        "certificateAuthority": {"data": "Q0E="},
        "vpcConfig": {"clusterSecurityGroupId": "sg-1"},
    },
    AWS.node_pool: {"resources": [{"autoscalingGroups": [{"name": "eks-group"}]}]},
    GOOGLE.cluster: {"endpoint": "192.0.2.1", "masterAuth": {"clusterCaCertificate": "Q0E="}},
    "gcp:compute/router:Router": {"name": "router"},
    "gcp:serviceaccount/account:Account": {
        "email": "gpu-nodes@my-project.iam.gserviceaccount.com",
        "member": "serviceAccount:gpu-nodes@my-project.iam.gserviceaccount.com",
    },
}
"""Resource type -> the cloud's outputs that the program reads, on every platform."""
