"""What pods on GKE can mount: buckets by Cloud Storage FUSE, and the classes of their claims.

https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-ephemeral
"""

from ..access import Access, BucketDriver, VolumeClasses
from ..catalog import gke_volumes as catalog
from .existing_args import GkeExistingNetworkArgs
from .network_args import GkeNetworkArgs

_SIDECAR = "gke-gcsfuse"
_LIMITS = {"cpu": "0", "memory": "0", "ephemeral-storage": "0"}
"""Of the sidecar that mounts buckets: 0 is none. Its default, 256 MiB of memory, ends a data loader
or a checkpoint of some GB with "Transport endpoint is not connected", for good
(GoogleCloudPlatform/gcs-fuse-csi-driver, docs/troubleshooting.md, 2026-08-21)."""
_AUTOPILOT_LIMITS = {"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "10Gi"}
"""Autopilot has no container without limits, and requests what they are."""


def access(network: GkeNetworkArgs | GkeExistingNetworkArgs, *, autopilot: bool = False) -> Access:
    """Of the stack's pods, in a cluster in this network."""
    limits = _AUTOPILOT_LIMITS if autopilot else _LIMITS
    return Access(
        emails=True,
        rights="roles",
        buckets=BucketDriver(
            driver="gcsfuse.csi.storage.gke.io",
            inline=True,
            # GKE's webhook adds the sidecar that does the mounting.
            pod_annotations={
                f"{_SIDECAR}/volumes": "true",
                **{f"{_SIDECAR}/{name}-limit": amount for name, amount in limits.items()},
            },
            # Folders that exist only in the names of objects are there too.
            attributes={"mountOptions": "implicit-dirs"},
        ),
        classes=_classes(network),
    )


def _classes(network: GkeNetworkArgs | GkeExistingNetworkArgs) -> VolumeClasses:
    """Of a cluster in this network."""
    disks = [
        name
        for name, row in {**catalog.GKE_CLASSES, **catalog.STACK_CLASSES}.items()
        if row.driver == catalog.DISKS
    ]
    least = {name: row.least_gib for name, row in catalog.STACK_CLASSES.items() if name in disks}
    refused: dict[str, str] = {}
    if isinstance(network, GkeExistingNetworkArgs) and network.vpc is None:
        refused = {
            name: "puts the file system into a VPC network that the stack does not know; set "
            "cluster.network.vpc to the cluster's network"
            for name, row in {**catalog.GKE_CLASSES, **catalog.STACK_CLASSES}.items()
            if row.driver == catalog.FILESTORE
        }
        return VolumeClasses(disks=disks, least_gib=least, refused=refused)
    # In the project's own network `default` GKE's classes are right.
    if network.vpc != catalog.DEFAULT_NETWORK or network.host_project is not None:
        instead = {
            row.kind: name
            for name, row in catalog.STACK_CLASSES.items()
            if row.driver == catalog.FILESTORE
        }
        refused = {
            name: "puts the file system into the VPC network default, where the cluster's nodes "
            f"cannot reach it; use {instead[row.kind]}, which this stack creates for the "
            "cluster's network"
            for name, row in catalog.GKE_CLASSES.items()
            if row.driver == catalog.FILESTORE
        }
    return VolumeClasses(disks=disks, least_gib=least, refused=refused)
