"""The settings that EKS can only change by making a cluster or a node group anew.

`make prove` previews a change of every setting; one that replaces and is not here fails it.
"""

from components.replacement import Lasting

CLUSTER: Lasting = {
    "name": "cluster",
    # The control plane stays in its zones, and in its subnets: only nodes can be in more of them.
    "network.zones": "node pools, if longer",
    # https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html
    "network.cidr": "nothing",
    "network.subnet_ids": "node pools",
    "service_cidr": "cluster",
    # https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html
    "version": "next minor",
    # EKS takes a key once. For another, the provider does nothing and says nothing, and the stack
    # would delete its own, without which no secret can be read.
    "secrets_key": "nothing",
    "system_pool.instance_types": "system pool",
    "system_pool.spot": "system pool",
}

POOL: Lasting = {
    "instance_types": "GPU pool",
    "zones": "GPU pool",
    "subnet_ids": "GPU pool",
    "capacity": "GPU pool",
    "reservation": "GPU pool",
    "os": "GPU pool",
    "ami_type": "GPU pool",
}
