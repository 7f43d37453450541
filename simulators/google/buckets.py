"""Who may use a bucket, and whether a pod mounts it: Cloud Storage FUSE, and the pod's own rights.

Which buckets there are, nobody says: any is there.

https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-setup
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from simulators.cloud import Mount
from simulators.google import policies
from simulators.google.api.call import Call
from simulators.google.resource import CloudResource

DRIVER = "gcsfuse.csi.storage.gke.io"
READING = ("roles/storage.objectViewer", "roles/storage.objectUser", "roles/storage.objectAdmin")
WRITING = READING[1:]
"""Roles on a bucket, or on its project, whose holder lists and reads its objects, or also writes
them."""


def _get_policy(call: Call) -> dict[str, Any]:
    return _shown(call, policies.get(_of_bucket(call)))


def _set_policy(call: Call) -> dict[str, Any]:
    return _shown(call, policies.change(_of_bucket(call), call.body, 412))


def _of_bucket(call: Call) -> Call:
    """Its policy is a path of its own here, `b/NAME/iam`, and no verb."""
    return replace(call, name=f"b/{call.path['bucket']}")


def _shown(call: Call, policy: dict[str, Any]) -> dict[str, Any]:
    bucket = f"projects/_/buckets/{call.path['bucket']}"
    return policy | {"kind": "storage#policy", "resourceId": bucket}


def why_not_mounted(
    mount: Mount, cluster: CloudResource, granted: Mapping[str, Mapping[str, Any]]
) -> str:
    """Why Cloud Storage FUSE does not mount it; empty where it does.

    `granted`: the policies of buckets and projects, by name.
    """
    bucket = mount.attributes.get("bucketName", "")
    if mount.driver != DRIVER:
        return f"bucket {bucket}: GKE has no driver {mount.driver}"
    addons = cluster.state.get("addonsConfig") or {}
    there = (addons.get("gcsFuseCsiDriverConfig") or {}).get("enabled")
    if not there and not (cluster.state.get("autopilot") or {}).get("enabled"):
        return f"bucket {bucket}: the cluster has no Cloud Storage FUSE driver (gcsFuseCsiDriver)"
    if mount.annotations.get("gke-gcsfuse/volumes") != "true":
        return (
            f"bucket {bucket}: the pod has no sidecar to mount it: its annotation "
            "gke-gcsfuse/volumes is not true"
        )
    pool = (cluster.state.get("workloadIdentityConfig") or {}).get("workloadPool")
    member = f"serviceAccount:{pool}[{mount.namespace}/{mount.service_account}]"
    wanted = WRITING if mount.writes else READING
    if not {*wanted}.isdisjoint(_roles(member, bucket, granted)):
        return ""
    verb = "write to" if mount.writes else "read"
    return (
        f"bucket {bucket}: googleapi: Error 403: {member} may not {verb} it: it has none of "
        f"{', '.join(wanted)}, forbidden"
    )


def _roles(member: str, bucket: str, granted: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The member's roles on the bucket or on a whole project; those under a condition not."""
    for name, policy in granted.items():
        if name == f"b/{bucket}" or (name.startswith("projects/") and name.count("/") == 1):
            for binding in policy.get("bindings", ()):
                if member in binding["members"] and "condition" not in binding:
                    yield binding["role"]


METHODS = {
    "storage.buckets.getIamPolicy": _get_policy,
    "storage.buckets.setIamPolicy": _set_policy,
}
