"""How pods on EKS mount a bucket: Mountpoint for Amazon S3, each pod with its own permissions.

https://github.com/awslabs/mountpoint-s3-csi-driver/blob/v2.3.0/docs/CONFIGURATION.md
"""

from ..access import BucketDriver


def driver(region: str) -> BucketDriver:
    """`region`: that of the cluster and its buckets; the driver does not ask a node for it."""
    return BucketDriver(
        driver="s3.csi.aws.com",
        inline=False,
        attributes={"authenticationSource": "pod", "stsRegion": region},
        mount_options=[f"region {region}", "allow-other"],
        # `allow-other` admits other users; the modes decide what they may do. Files belong to the
        # user that Mountpoint runs as, with modes 644 and 755 by default.
        write_options=["allow-delete", "allow-overwrite", "file-mode=666", "dir-mode=777"],
    )
