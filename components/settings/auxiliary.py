"""Reads namespaces, service accounts and claims from a stack's config.

Each function raises ValueError with one line that begins with the key's path.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..access import Access, Disks, ServiceAccountArgs, VolumeClasses
from ..cluster import ResolvedPool
from ..decode import at, decode_map
from ..gpu.pod_group import PodGroup
from ..gpu.volume_args import VolumeClaimArgs
from ..kube import quantity


def read_accounts(
    path: str, value: object, platform: str, access: Access
) -> Mapping[str, ServiceAccountArgs]:
    """Reads the config's `serviceAccounts`, whose key is `path`."""
    accounts = decode_map(path, ServiceAccountArgs, value)
    for name, account in accounts.items():
        at(f"{path}.{name}", access.check, account, platform)
    return accounts


def read_claims(
    path: str, value: object, platform: str, access: Access
) -> Mapping[str, VolumeClaimArgs]:
    """Reads the config's `volumeClaims`, whose key is `path`."""
    claims = decode_map(path, VolumeClaimArgs, value)
    for name, claim in claims.items():
        at(f"{path}.{name}", _check_disk, claim, platform, access.disks)
        at(f"{path}.{name}", _check_class, claim, platform, access.classes)
    return claims


def _check_disk(claim: VolumeClaimArgs, platform: str, disks: Disks | None) -> None:
    if disks is None:
        if claim.zone is not None:
            raise ValueError(
                f"zone: on platform {platform} the cluster chooses the disk's zone; drop the key"
            )
        return
    if claim.several_nodes:
        raise ValueError(
            f"accessMode: {claim.access_mode} needs a file system that several nodes can mount, "
            f"and on platform {platform} a claim is a disk for one node; {disks.shared}"
        )
    if claim.storage_class is not None:
        raise ValueError(
            f"storageClass: {claim.storage_class!r} has no effect on platform {platform}, where "
            "the stack itself creates the disks of its claims; drop the key, or "
            f"{disks.other_class}. For a claim that exists see 'A disk that the driver created' in "
            "docs/how-to/give-jobs-data.md"
        )
    if claim.zone is None and not disks.zones:
        raise ValueError(
            "zone: is missing; name the zone of the disk, since only the cloud knows those of "
            f"an existing network, such as {disks.region}a"
        )
    if claim.zone is not None and disks.zones and claim.zone not in disks.zones:
        raise ValueError(
            f"zone: {claim.zone!r} is not in the cluster's network; allowed: "
            f"{', '.join(disks.zones)}"
        )
    if claim.zone is not None and not disks.zones and claim.zone[:-1] != disks.region:
        raise ValueError(
            f"zone: {claim.zone!r} is not a zone of {disks.region}; give one such as "
            f"{disks.region}a"
        )


def check_disk_zones(
    pod_groups: Iterable[PodGroup],
    claims: Mapping[str, VolumeClaimArgs],
    pools: Mapping[str, ResolvedPool[Any]],
    disks: Disks | None,
) -> None:
    """Raises ValueError if pods mount a disk and their pool can start nodes in another zone.

    Cluster Autoscaler assumes that such a pool only has its first zone, and the cloud starts the
    node in any (kubernetes/autoscaler cloudprovider/aws/README.md).
    """
    if disks is None:
        return
    for pods in pod_groups:
        for volume, claim in pods.claims.items():
            places = pools[pods.pool].places
            zone = claims[claim].zone or disks.zones[0]
            if list(places) == [zone] or (not disks.zones and len(places) == 1):
                continue
            key = f"gpuPools.{pods.pool}.{disks.pool_key}"
            way = f"set {key} to [{zone}]" if disks.zones else f"name in {key} only the one there"
            if disks.zones and len(places) == 1:
                way += f", or volumeClaims.{claim}.zone to {places[0]}"
            raise ValueError(
                f"{pods.path}.volumes.{volume}.claim: the disk of {claim} is in {zone}, "
                f"and nodes of pool {pods.pool} can be in {', '.join(places)}; {way}"
            )


def _check_class(claim: VolumeClaimArgs, platform: str, classes: VolumeClasses) -> None:
    storage_class = claim.storage_class
    if storage_class is None:
        return
    if reason := classes.refused.get(storage_class):
        raise ValueError(f"storageClass: on platform {platform} {storage_class} {reason}")
    if storage_class in classes.disks and claim.several_nodes:
        raise ValueError(
            f"accessMode: {claim.access_mode} needs a file system that several nodes can mount, "
            f"and {storage_class} creates a disk for one node; name another storageClass, such as "
            "gpu-cluster-filestore on GKE, or use a bucket"
        )
    least = classes.least_gib.get(storage_class, 0)
    if quantity.parse(claim.size) < least * 2**30:
        raise ValueError(
            f"size: {claim.size} is too small for storageClass {storage_class}; allowed: {least}Gi "
            "or more"
        )
    most = classes.most_gib.get(storage_class)
    if most is not None and quantity.parse(claim.size) > most * 2**30:
        raise ValueError(
            f"size: {claim.size} is too large for storageClass {storage_class}; allowed: at most "
            f"{most}Gi"
        )
