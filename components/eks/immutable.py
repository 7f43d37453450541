"""The settings for which EKS replaces a cluster or a node group, and those that EKS keeps.

`make inject-faults` makes a change of every setting; a replacement that is not here fails it.
"""

import re

from components.eks.reservation import CAPACITY_TYPES
from components.replacement import (
    NEVER,
    Lasting,
    Refusal,
    Verdict,
    if_longer,
    kept,
    next_minor,
)

_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)-(\d{8})")


def _bought(old: str, new: str) -> Verdict:
    """EKS keeps the `capacityType` of a node group; a reservation stands in its launch template,
    and another one recycles the nodes."""
    return None if CAPACITY_TYPES[old] == CAPACITY_TYPES[new] else "GPU pool"


_release_taken_away = kept("the release follows the next Kubernetes version, or name a newer one")


def _never_lower(old: str, new: str) -> Verdict:
    """An image's release: EKS takes no node group back to an earlier one.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html
    """
    before, after = _RELEASE.fullmatch(old), _RELEASE.fullmatch(new)
    if before and after and tuple(map(int, after.groups())) < tuple(map(int, before.groups())):
        return Refusal("take a newer release, ", of="GPU pool")
    return _release_taken_away(old, new)


CLUSTER: Lasting = {
    "name": "cluster",
    # The control plane stays in its zones, and in its subnets: only nodes can be in more of them.
    "network.zones": if_longer("node pools"),
    # https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html
    "network.cidr": NEVER,
    "network.subnet_ids": "node pools",
    "service_cidr": "cluster",
    # https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html
    "version": next_minor,
    # EKS takes a key once. For another, the provider does nothing and says nothing, and the stack
    # would delete its own, without which no secret can be read.
    "secrets_encryption_key": NEVER,
    # The provider keeps what is no longer given: the field is optional and computed.
    "addon_versions": kept("name the addon's version to change to"),
    "system_pool.instance_types": "system pool",
    "system_pool.spot": "system pool",
}

POOL: Lasting = {
    "instance_types": "GPU pool",
    "zones": "GPU pool",
    "subnet_ids": "GPU pool",
    "capacity_type": _bought,
    "os": "GPU pool",
    "ami_type": "GPU pool",
    "release_version": _never_lower,
}
