"""The settings for which GKE replaces a cluster or a node pool, and those that GKE keeps.

`make inject-faults` makes a change of every setting; a replacement that is not here fails it.
"""

from ipaddress import IPv4Network

from components.replacement import NEVER, Lasting, Verdict, kept


def _unless_grown(old: str, new: str) -> Verdict:
    """A subnetwork's range grows in place, and can neither shrink nor move.

    https://cloud.google.com/vpc/docs/create-modify-vpc-networks#expand-subnet
    """
    return None if IPv4Network(old).subnet_of(IPv4Network(new)) else "cluster"


CONTROL_PLANE: Lasting = {
    "name": "cluster",
    "location": "cluster",
    "network.nodes_cidr": _unless_grown,
    # https://github.com/hashicorp/terraform-provider-google/issues/7474
    "network.pods_cidr": NEVER,
    "network.services_cidr": NEVER,
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-shared-vpc: no cluster
    # moves to another network.
    "network.subnetwork": "cluster",
    "network.vpc": "cluster",
    "network.host_project": "cluster",
    "network.pods_range": "cluster",
    "network.services_range": "cluster",
}

CLUSTER: Lasting = {
    **CONTROL_PLANE,
    # The provider keeps what is no longer given: the field is optional and computed.
    "zones": kept("name the zones that its nodes shall be in"),
    "system_pool.spot": "system pool",
}

POOL: Lasting = {
    "accelerator": "GPU pool",
    "gpus_per_node": "GPU pool",
    "capacity_type": "GPU pool",
    "reservation": "GPU pool",
    "driver": "GPU pool",
    "driver_version": "GPU pool",
    "sharing": "GPU pool",
    # osImage, driver and installerImage decide it where it is not given.
    "effective_secure_boot": "GPU pool",
    "compact_placement": "GPU pool",
    "max_run_duration_seconds": "GPU pool",
    "image_streaming": kept("set it to false to turn it off"),
}
