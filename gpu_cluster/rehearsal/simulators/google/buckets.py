"""Who may use a bucket, and whether a pod can mount it with Cloud Storage FUSE.

An inventory describes buckets; any other bucket exists, with uniform bucket-level access.

https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-setup
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpu_cluster.components.catalog.gke import region_of
from gpu_cluster.rehearsal.simulators.cloud import Mount
from gpu_cluster.rehearsal.simulators.google import policies
from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.container.tokens import CLUSTER
from gpu_cluster.rehearsal.simulators.google.errors import ApiError
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.google_inventory import Bucket

DRIVER = "gcsfuse.csi.storage.gke.io"
_OF_CLUSTER = re.compile(
    r"request\.auth\.claims\.google\.providerId\s*==\s*[\"'](?P<provider>[^\"']+)[\"']"
)
"""The IAM condition that restricts a role for pods to one cluster of the project."""
READING = ("roles/storage.objectViewer", "roles/storage.objectUser", "roles/storage.objectAdmin")
WRITING = READING[1:]
"""Roles on a bucket or its project that allow listing and reading, or also writing."""


def _get_policy(call: Call) -> dict[str, Any]:
    return _shown(call, policies.get(_of_bucket(call)))


def _set_policy(call: Call) -> dict[str, Any]:
    """Which buckets accept conditions: https://cloud.google.com/storage/docs/access-control/iam

    The error's code and message are not Cloud Storage's own.
    """
    bindings = (call.body or {}).get("bindings", ())
    uniform = call.cloud.buckets.get(call.path["bucket"], Bucket()).uniform_access
    if not uniform and any(binding.get("condition") for binding in bindings):
        raise ApiError(
            412,
            "Conditional role bindings need uniform bucket-level access.",
            reason="conditionNotMet",
        )
    return _shown(call, policies.change(_of_bucket(call), call.body, 412))


def _get(call: Call) -> dict[str, Any]:
    """https://cloud.google.com/storage/docs/json_api/v1/buckets"""
    name = call.path["bucket"]
    bucket = call.cloud.buckets.get(name, Bucket())
    if bucket.missing:
        raise ApiError(404, "The specified bucket does not exist.", reason="notFound")
    uniform = {"enabled": bucket.uniform_access}
    return {
        "kind": "storage#bucket",
        "id": name,
        "name": name,
        "location": (bucket.location or _region(call)).upper(),
        "iamConfiguration": {
            "bucketPolicyOnly": uniform,
            "uniformBucketLevelAccess": uniform,
            "publicAccessPrevention": "inherited",
        },
    }


def _region(call: Call) -> str:
    """The region of the cluster, whose stack uses the bucket; without a cluster, `US`."""
    clusters = call.cloud.of(CLUSTER)
    return next((region_of(cluster.state["location"]) for cluster in clusters), "US")


def _of_bucket(call: Call) -> Call:
    """The policy has its own path here, `b/NAME/iam`, instead of a verb."""
    return replace(call, name=f"b/{call.path['bucket']}")


def _shown(call: Call, policy: dict[str, Any]) -> dict[str, Any]:
    bucket = f"projects/_/buckets/{call.path['bucket']}"
    return policy | {"kind": "storage#policy", "resourceId": bucket}


def why_not_mounted(
    mount: Mount,
    cluster: CloudResource,
    granted: Mapping[str, Mapping[str, Any]],
    buckets: Mapping[str, Bucket],
) -> str:
    """Why the bucket is not mounted by Cloud Storage FUSE, or not usable; empty if it is.

    `granted`: the policies of buckets and projects, by name. The messages are the driver's:
    GoogleCloudPlatform/gcs-fuse-csi-driver, docs/troubleshooting.md (2026-08-21).
    """
    bucket = mount.attributes.get("bucketName", "")
    if mount.driver != DRIVER:
        return f"bucket {bucket}: GKE has no driver {mount.driver}"
    addons = cluster.state.get("addonsConfig") or {}
    enabled = (addons.get("gcsFuseCsiDriverConfig") or {}).get("enabled")
    if not enabled and not (cluster.state.get("autopilot") or {}).get("enabled"):
        return f"bucket {bucket}: the cluster has no Cloud Storage FUSE driver (gcsFuseCsiDriver)"
    if mount.annotations.get("gke-gcsfuse/volumes") != "true":
        return (
            f"bucket {bucket}: the pod has no sidecar to mount it: its annotation "
            "gke-gcsfuse/volumes is not true"
        )
    bucket_is = buckets.get(bucket, Bucket())
    failed = f'bucket {bucket}: MountVolume.SetUp failed for volume "{mount.volume}" : rpc error: '
    if bucket_is.missing:
        return (
            f'{failed}code = NotFound desc = failed to get GCS bucket "{bucket}": storage: bucket '
            "doesn't exist"
        )
    pool = (cluster.state.get("workloadIdentityConfig") or {}).get("workloadPool")
    member = f"serviceAccount:{pool}[{mount.namespace}/{mount.service_account}]"
    wanted = WRITING if mount.writes else READING
    provider = "https://container.googleapis.com/v1/" + cluster.identity
    if not {*wanted}.isdisjoint(_roles(member, provider, bucket, granted)):
        return _refused_write(mount, bucket, bucket_is) if mount.writes else ""
    verb = "write to" if mount.writes else "read"
    return (
        f"bucket {bucket}: googleapi: Error 403: {member} may not {verb} it: it has none of "
        f"{', '.join(wanted)}, forbidden"
    )


def _refused_write(mount: Mount, bucket: str, bucket_is: Bucket) -> str:
    """The error of a write to the mounted bucket; empty if it succeeds."""
    if not bucket_is.uniform_access:
        return (
            f"bucket {bucket}: gcs.PreconditionError: googleapi: Error 412: The type of "
            "authentication token used for this request requires that Uniform Bucket Level Access "
            "be enabled., conditionNotMet"
        )
    flags = dict(
        flag.partition("=")[::2] for flag in mount.attributes.get("mountOptions", "").split(",")
    )
    if mount.user and mount.group is None and flags.get("uid") != str(mount.user):
        return (
            f"bucket {bucket}: Permission denied: the mount is root's, the container runs as user "
            f"{mount.user}, and the pod has no fsGroup"
        )
    return ""


def _roles(
    member: str, provider: str, bucket: str, granted: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """The member's roles on the bucket or on a whole project, in the cluster `provider`, without
    those under a condition on anything else."""
    for name, policy in granted.items():
        if name == f"b/{bucket}" or (name.startswith("projects/") and name.count("/") == 1):
            for binding in policy.get("bindings", ()):
                condition = binding.get("condition") or {}
                found = _OF_CLUSTER.fullmatch(condition.get("expression", ""))
                holds = not condition or (found is not None and found["provider"] == provider)
                if member in binding["members"] and holds:
                    yield binding["role"]


ENDPOINTS = {"STORAGE": "storage/v1/"}
METHODS = {
    "storage.buckets.get": _get,
    "storage.buckets.getIamPolicy": _get_policy,
    "storage.buckets.setIamPolicy": _set_policy,
}
