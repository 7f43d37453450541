"""The settings that GKE can only change by making a cluster or a node pool anew.

`make prove` previews a change of every setting; one that replaces and is not here fails it.
"""

from components.replacement import Lasting

CONTROL_PLANE: Lasting = {
    "name": "cluster",
    "location": "cluster",
    "network.nodes_cidr": "cluster",
    # https://github.com/hashicorp/terraform-provider-google/issues/7474
    "network.pods_cidr": "nothing",
    "network.services_cidr": "nothing",
}

CLUSTER: Lasting = {**CONTROL_PLANE, "system_pool.spot": "system pool"}

POOL: Lasting = {
    "accelerator": "GPU pool",
    "gpus_per_node": "GPU pool",
    "capacity": "GPU pool",
    "reservation": "GPU pool",
    "os_image": "GPU pool",
    "driver": "GPU pool",
    "driver_version": "GPU pool",
    "installer_image": "GPU pool",
    "sharing": "GPU pool",
    "secure_boot": "GPU pool",
    "compact_placement": "GPU pool",
    "max_run_duration_seconds": "GPU pool",
}
