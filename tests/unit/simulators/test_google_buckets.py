"""What Cloud Storage FUSE, and a write through it, say of a pod's bucket."""

from typing import Any

import pytest

from gpu_cluster.rehearsal.simulators.cloud import Mount
from gpu_cluster.rehearsal.simulators.google_inventory import Bucket, buckets
from gpu_cluster.stacks.definition.names import StackError
from tests.unit.simulators.google_stack import GoogleStack

MEMBER = "serviceAccount:p.svc.id.goog[default/trainer]"
OF_CLUSTER = "https://container.googleapis.com/v1/projects/p/locations/us-central1-a/clusters/"


def said(bucket: Bucket | None = None, *, condition: str = "", **more: Any) -> str:
    """Of a pod of the account `trainer` that writes to the bucket `out`."""
    stack = GoogleStack.with_cluster(
        addonsConfig={"gcsFuseCsiDriverConfig": {"enabled": True}},
        workloadIdentityConfig={"workloadPool": "p.svc.id.goog"},
    )
    if bucket:
        stack.cloud.buckets["out"] = bucket
    binding: dict[str, Any] = {"role": "roles/storage.objectUser", "members": [MEMBER]}
    if condition:
        binding["condition"] = {"title": "t", "expression": condition}
    stack.cloud.policies["b/out"] = {"version": 3, "bindings": [binding]}
    attributes = {"bucketName": "out", "mountOptions": more.pop("options", "implicit-dirs")}
    writes = more.pop("writes", True)
    return stack.cloud.why_not_mounted(
        Mount(volume="out", namespace="default", service_account="trainer",
              driver="gcsfuse.csi.storage.gke.io", attributes=attributes, options=(),
              writes=writes, annotations={"gke-gcsfuse/volumes": "true"}, taints=(), **more)
    )  # fmt: skip


def test_a_bucket_is_mounted_and_written_to() -> None:
    """By root, with a role on it, in a bucket that nobody describes."""
    assert said() == ""


def test_a_write_needs_uniform_access() -> None:
    """It fails with 412 once the pod runs; a pod that only reads is not refused."""
    found = said(Bucket(uniform_access=False))
    assert "Error 412" in found
    assert "requires that Uniform Bucket Level Access be enabled" in found
    assert said(Bucket(uniform_access=False), writes=False) == ""


def test_a_bucket_that_does_not_exist_is_not_found() -> None:
    """In the driver's words."""
    assert "bucket doesn't exist" in said(Bucket(missing=True))


@pytest.mark.parametrize(
    ("more", "denied"),
    [
        ({"user": 1000}, True),
        ({"user": 1000, "group": 1000}, False),
        ({"user": 1000, "options": "implicit-dirs,uid=1000"}, False),
        ({"user": 1000, "writes": False}, False),
    ],
)
def test_a_mount_is_roots_unless_it_says_another_user(more: dict[str, Any], denied: bool) -> None:
    """The driver takes the pod's fsGroup, or the flag `uid`."""
    assert ("Permission denied" in said(**more)) is denied


@pytest.mark.parametrize(
    ("condition", "granted"),
    [
        (f'request.auth.claims.google.providerId == "{OF_CLUSTER}dev"', True),
        (f"request.auth.claims.google.providerId=='{OF_CLUSTER}dev'", True),
        (f'request.auth.claims.google.providerId == "{OF_CLUSTER}other"', False),
        ('request.time < timestamp("2020-01-01T00:00:00Z")', False),
    ],
)
def test_a_right_under_a_condition_holds_in_the_cluster_that_it_names(
    condition: str, granted: bool
) -> None:
    """Any other condition is taken not to hold."""
    assert (said(condition=condition) == "") is granted


def test_an_inventory_describes_buckets(tmp_path: Any) -> None:
    """By name; what it does not know is refused with the stack's file."""
    (tmp_path / "dev.yaml").write_text(
        "buckets: { data: { uniformAccess: false, location: EU }, gone: { missing: true } }"
    )
    assert buckets("dev", tmp_path) == {
        "data": Bucket(uniform_access=False, location="EU"),
        "gone": Bucket(missing=True),
    }
    assert buckets("train-gke", tmp_path) == {}
    (tmp_path / "dev.yaml").write_text("buckets: { data: { uniform: true } }")
    with pytest.raises(StackError, match="allowed: uniformAccess, location, missing"):
        buckets("dev", tmp_path)
