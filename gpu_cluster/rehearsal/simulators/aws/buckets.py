"""Whether a pod mounts a bucket on EKS: Mountpoint for Amazon S3, and the pod's own role.

awslabs/mountpoint-s3-csi-driver docs/CONFIGURATION.md (v2.3.0) and awslabs/mountpoint-s3
doc/CONFIGURATION.md, IAM permissions (read 2026-11-22).
"""

import yaml

from gpu_cluster.components.kube.taints import keeps_away
from gpu_cluster.rehearsal.simulators.aws.account import Account, Bucket
from gpu_cluster.rehearsal.simulators.aws.evaluation import allowed
from gpu_cluster.rehearsal.simulators.aws.roles import policies, role_name
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster
from gpu_cluster.rehearsal.simulators.cloud import Mount

DRIVER = "s3.csi.aws.com"
_KEY_READS = ("kms:Decrypt",)
_KEY_WRITES = ("kms:Decrypt", "kms:GenerateDataKey")
_READS = ("s3:GetObject",)
_WRITES = ("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject")


def why_not_mounted(mount: Mount, account: Account, cluster: Cluster) -> str:
    """Why Mountpoint does not mount the bucket; empty if it does."""
    bucket = mount.attributes.get("bucketName", "")
    if mount.driver != DRIVER:
        return f"bucket {bucket}: EKS has no driver {mount.driver}"
    addon = cluster.addons.get("aws-mountpoint-s3-csi-driver")
    if addon is None:
        return f"bucket {bucket}: the cluster has no aws-mountpoint-s3-csi-driver addon"
    values = yaml.safe_load(addon.get("configurationValues") or "{}")
    kept = [taint.key for taint in mount.taints if keeps_away(taint.effect)]
    if kept and not (values.get("node") or {}).get("tolerateAllTaints"):
        return (
            f"bucket {bucket}: the driver does not run on the node: it does not tolerate "
            f"{', '.join(kept)} (node.tolerateAllTaints)"
        )
    if mount.attributes.get("authenticationSource") != "pod":
        return (
            f"bucket {bucket}: mount-s3: No signing credentials available: the driver's own "
            "service account has no role, and the volume's authenticationSource is not pod"
        )
    identity = cluster.association(mount.namespace, mount.service_account)
    who = f"service account {mount.namespace}/{mount.service_account}"
    if identity is None or not cluster.identity_agent:
        return (
            f"bucket {bucket}: mount-s3: No signing credentials available: {who} has no Pod "
            "Identity association"
        )
    settings = account.buckets.get(bucket, Bucket())
    given = next((flag.split()[1] for flag in mount.options if flag.startswith("region ")), "")
    if (region := settings.region or account.region) != given:
        return (
            f"bucket {bucket}: mount-s3: initial ListObjectsV2 failed for bucket {bucket} in "
            f"region {given}: PermanentRedirect: the bucket is in {region}"
        )
    documents = policies(account, identity["roleArn"])
    objects = f"arn:aws:s3:::{bucket}/*"
    asked = [
        ("s3:ListBucket", f"arn:aws:s3:::{bucket}"),
        *((action, objects) for action in (_WRITES if mount.writes else _READS)),
        # mountpoint-s3 doc/CONFIGURATION.md: with a customer managed key, this is needed as well.
        *((action, settings.key) for action in (_KEY_WRITES if mount.writes else _KEY_READS)
          if settings.key),
    ]  # fmt: skip
    missing = [action for action, what in asked if not allowed(documents, action, what)]
    if missing:
        return (
            f"bucket {bucket}: mount-s3: Access Denied: role {role_name(identity['roleArn'])} may "
            f"not do {', '.join(missing)}"
        )
    lacking = [name for name in ("allow-delete", "allow-overwrite") if name not in mount.options]
    if mount.writes and (lacking or "read-only" in mount.options):
        return f"bucket {bucket}: mounted without {' and '.join(lacking) or 'the right to write'}"
    # The files belong to the user that runs Mountpoint; by default only that user can write.
    open_modes = {"allow-other", "file-mode=666", "dir-mode=777"} <= set(mount.options)
    if mount.writes and mount.group is None and not open_modes:
        return (
            f"bucket {bucket}: Permission denied for images whose user is not Mountpoint's: the "
            "volume has neither allow-other with file-mode=666 and dir-mode=777 nor the pod an "
            "fsGroup"
        )
    return ""
