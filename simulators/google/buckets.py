"""Whether a pod mounts a bucket on GKE: Cloud Storage FUSE, and the pod's own rights.

https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-setup
"""

from collections.abc import Iterable

from simulators.cloud import Mount
from simulators.google.resource import CloudResource

DRIVER = "gcsfuse.csi.storage.gke.io"
READING = ("roles/storage.objectViewer", "roles/storage.objectUser", "roles/storage.objectAdmin")
WRITING = READING[1:]
"""Roles on a bucket, or on its project, whose holder lists and reads its objects, or also writes
them."""
_GRANTS = ("gcp:storage/bucketIAMMember:BucketIAMMember", "gcp:projects/iAMMember:IAMMember")


def why_not_mounted(
    mount: Mount, cluster: CloudResource, resources: Iterable[CloudResource]
) -> str:
    """Why Cloud Storage FUSE does not mount it; empty where it does."""
    bucket = mount.attributes.get("bucketName", "")
    if mount.driver != DRIVER:
        return f"bucket {bucket}: GKE has no driver {mount.driver}"
    addons = cluster.state.get("addonsConfig") or {}
    there = (addons.get("gcsFuseCsiDriverConfig") or {}).get("enabled")
    if not there and not cluster.state.get("enableAutopilot"):
        return f"bucket {bucket}: the cluster has no Cloud Storage FUSE driver (gcsFuseCsiDriver)"
    if mount.annotations.get("gke-gcsfuse/volumes") != "true":
        return (
            f"bucket {bucket}: the pod has no sidecar to mount it: its annotation "
            "gke-gcsfuse/volumes is not true"
        )
    pool = (cluster.state.get("workloadIdentityConfig") or {}).get("workloadPool")
    member = f"serviceAccount:{pool}[{mount.namespace}/{mount.service_account}]"
    wanted = WRITING if mount.writes else READING
    for each in resources:
        at = each.state.get("bucket", bucket)
        granted = each.token in _GRANTS and each.state["member"] == member
        if granted and each.state["role"] in wanted and at == bucket:
            return ""
    verb = "write to" if mount.writes else "read"
    return (
        f"bucket {bucket}: googleapi: Error 403: {member} may not {verb} it: it has none of "
        f"{', '.join(wanted)}, forbidden"
    )
