"""Reads namespaces, service accounts and claims from a stack's config.

Each function raises one `Refusal`; what else it finds is in its `further`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ..access.service_accounts import Access, Disks, ServiceAccountArgs, VolumeClasses
from ..gpu.volume_args import VolumeClaimArgs
from ..kube import quantity
from ..schema.decode import at, decode_map
from ..schema.refusal import Refusal, Refusals, collected, known_only, refuse, unknown_value
from .model import Settings


def read_accounts(
    path: str, value: object, platform: str, access: Access, refusals: Refusals
) -> Mapping[str, ServiceAccountArgs]:
    """Reads the config's `serviceAccounts`, whose key is `path`. Of one that is refused, with a
    reason in `refusals`, only the name is known."""
    accounts = dict(decode_map(path, ServiceAccountArgs, value, refusals))
    for name, account in accounts.items():
        accounts[name] = known_only(ServiceAccountArgs)
        with refusals:
            at(f"{path}.{name}", access.check, account, platform)
            accounts[name] = account
    return accounts


def read_claims(
    path: str, value: object, platform: str, access: Access, refusals: Refusals
) -> Mapping[str, VolumeClaimArgs]:
    """Reads the config's `volumeClaims` like `read_accounts`."""
    claims = dict(decode_map(path, VolumeClaimArgs, value, refusals))
    for name, claim in claims.items():
        claims[name] = known_only(VolumeClaimArgs)
        with refusals:
            at(f"{path}.{name}", _check_disk, claim, platform, access.disks)
            at(f"{path}.{name}", _check_class, claim, platform, access.classes)
            claims[name] = claim
    return claims


@collected
def _check_disk(claim: VolumeClaimArgs, platform: str, disks: Disks | None) -> Iterator[Refusal]:
    if disks is None:
        if claim.zone is not None:
            yield refuse("zone")(
                f"on platform {platform} the cluster chooses the disk's zone; drop the key"
            )
        return
    if claim.several_nodes:
        yield refuse("accessMode")(
            f"{claim.access_mode} needs a file system that several nodes can mount, and on "
            f"platform {platform} a claim is a disk for one node; {disks.shared}"
        )
    if claim.storage_class is not None:
        yield refuse("storageClass", claim.storage_class)(
            f"has no effect on platform {platform}, where the stack itself creates the disks of "
            f"its claims; drop the key, or {disks.other_class}"
        )
    if claim.zone is None and not disks.zones:
        yield refuse("zone")(
            "is missing; name the zone of the disk, since only the cloud knows those of an "
            f"existing network, such as {disks.region}a"
        )
    if claim.zone is not None and disks.zones and claim.zone not in disks.zones:
        yield refuse("zone", claim.zone)("is not in the cluster's network", allowed=disks.zones)
    if claim.zone is not None and not disks.zones and claim.zone[:-1] != disks.region:
        yield refuse("zone", claim.zone)(
            f"is not a zone of {disks.region}; give one such as {disks.region}a"
        )


@collected
def check_disk_zones(settings: Settings[Any]) -> Iterator[Refusal]:
    """Raises `Refusal` if pods mount a disk and their pool can start nodes in another zone.

    Cluster Autoscaler assumes that such a pool only has its first zone, and the cloud starts the
    node in any (kubernetes/autoscaler cloudprovider/aws/README.md).
    """
    disks, claims = settings.own.access.disks, settings.auxiliary.claims
    if disks is None:
        return
    for pods in settings.pod_groups:
        for volume, claim in pods.claims.items():
            places = settings.pools[pods.pool].places
            zone = claims[claim].zone or disks.zones[0]
            if list(places) == [zone] or (not disks.zones and len(places) == 1):
                continue
            key = f"gpuPools.{pods.pool}.{disks.pool_key}"
            way = f"set {key} to [{zone}]" if disks.zones else f"name in {key} only the one there"
            if disks.zones and len(places) == 1:
                way += f", or volumeClaims.{claim}.zone to {places[0]}"
            yield refuse((pods.path, "volumes", volume, "claim"))(
                f"the disk of {claim} is in {zone}, and nodes of pool {pods.pool} can be in "
                f"{', '.join(places)}; {way}"
            )


@collected
def _check_class(
    claim: VolumeClaimArgs, platform: str, classes: VolumeClasses
) -> Iterator[Refusal]:
    storage_class = claim.storage_class
    if storage_class is None:
        return
    own = [name for name in classes.most_gib if name.startswith("gpu-cluster-")]
    if own and storage_class.startswith("gpu-cluster-") and storage_class not in own:
        yield unknown_value("storageClass", storage_class, own)
        return
    if reason := classes.refused.get(storage_class):
        yield refuse("storageClass")(f"on platform {platform} {storage_class} {reason}")
    if storage_class in classes.disks and claim.several_nodes:
        yield refuse("accessMode")(
            f"{claim.access_mode} needs a file system that several nodes can mount, and "
            f"{storage_class} creates a disk for one node; name another storageClass, such as "
            "gpu-cluster-filestore on GKE, or use a bucket"
        )
    least = classes.least_gib.get(storage_class, 0)
    if quantity.parse(claim.size) < least * 2**30:
        yield refuse("size")(
            f"{claim.size} is too small for storageClass {storage_class}",
            remedy=f"allowed: {least}Gi or more",
        )
    most = classes.most_gib.get(storage_class)
    if most is not None and quantity.parse(claim.size) > most * 2**30:
        yield refuse("size")(
            f"{claim.size} is too large for storageClass {storage_class}",
            remedy=f"allowed: at most {most}Gi",
        )
