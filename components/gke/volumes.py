"""The volumes of pods on GKE: buckets through Cloud Storage FUSE, and the classes of their claims.

https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-ephemeral
"""

from ..access.service_accounts import Access, BucketDriver, VolumeClasses
from ..catalog import gke_volumes as catalog
from .existing_args import GkeExistingNetworkArgs
from .network_args import GkeNetworkArgs, last_part

_SIDECAR = "gke-gcsfuse"
_LIMITS = {"cpu": "0", "memory": "0", "ephemeral-storage": "0"}
"""Limits of the sidecar that mounts buckets; 0 means no limit. With its default, 256 MiB of memory,
a data loader or a checkpoint of some GB fails permanently with "Transport endpoint is not
connected" (GoogleCloudPlatform/gcs-fuse-csi-driver, docs/troubleshooting.md, 2026-08-21)."""
_AUTOPILOT_LIMITS = {"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "10Gi"}
"""On Autopilot, every container has limits, and its requests equal them."""


def access(
    network: GkeNetworkArgs | GkeExistingNetworkArgs,
    *,
    autopilot: bool = False,
    security_group: str | None,
    no_cache: str = "",
) -> Access:
    """Access to a cluster in this network, and that of the stack's pods. `security_group`: empty
    if only the cluster's owner knows it. `no_cache`: why no disk can have a cache."""
    limits = _AUTOPILOT_LIMITS if autopilot else _LIMITS
    return Access(
        emails=True,
        groups_need="cluster.securityGroup" if security_group is None else "",
        rights="roles",
        buckets=BucketDriver(
            driver="gcsfuse.csi.storage.gke.io",
            inline=True,
            # GKE's webhook adds the sidecar that mounts the bucket.
            pod_annotations={
                f"{_SIDECAR}/volumes": "true",
                **{f"{_SIDECAR}/{name}-limit": amount for name, amount in limits.items()},
            },
            # Also shows folders that exist only in the names of objects.
            attributes={"mountOptions": "implicit-dirs"},
        ),
        classes=_classes(network, no_cache),
    )


def _classes(network: GkeNetworkArgs | GkeExistingNetworkArgs, no_cache: str) -> VolumeClasses:
    """The StorageClasses for a cluster in this network."""
    every = {**catalog.GKE_CLASSES, **catalog.STACK_CLASSES}
    disks = [name for name, row in every.items() if row.driver == catalog.DISKS]
    most = {name: row.most_gib for name, row in every.items()}
    least = {name: row.fails_below_gib for name, row in every.items()}
    refused = {name: no_cache for name, row in every.items() if row.cached and no_cache}
    if isinstance(network, GkeExistingNetworkArgs) and network.vpc is None:
        refused |= {
            name: "puts the file system into a VPC network that the stack does not know; set "
            "cluster.network.vpc to the cluster's network"
            for name, row in every.items()
            if row.driver == catalog.FILESTORE
        }
        return VolumeClasses(disks=disks, least_gib=least, most_gib=most, refused=refused)
    # In the project's own network `default`, GKE's classes work.
    if last_part(network.vpc or "") != catalog.DEFAULT_NETWORK or network.host_project is not None:
        instead = {
            row.kind: name
            for name, row in catalog.STACK_CLASSES.items()
            if row.driver == catalog.FILESTORE
        }
        refused |= {
            name: "puts the file system into the VPC network default, where the cluster's nodes "
            f"cannot reach it; use {instead[row.kind]}, which this stack creates for the "
            "cluster's network"
            for name, row in catalog.GKE_CLASSES.items()
            if row.driver == catalog.FILESTORE
        }
    return VolumeClasses(disks=disks, least_gib=least, most_gib=most, refused=refused)
