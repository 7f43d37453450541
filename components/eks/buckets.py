"""How pods on EKS mount a bucket: Mountpoint for Amazon S3, each with its own rights.

https://github.com/awslabs/mountpoint-s3-csi-driver/blob/v2.3.0/docs/CONFIGURATION.md
"""

from components.access import Access, BucketDriver


def access(region: str) -> Access:
    """`region`: of the cluster, and so of its buckets; the driver asks no node for it."""
    return Access(
        rights="policies",
        buckets=BucketDriver(
            driver="s3.csi.aws.com",
            inline=False,
            attributes={"authenticationSource": "pod", "stsRegion": region},
            # Whoever the container runs as: the driver makes files root's.
            mount_options=[f"region {region}", "allow-other"],
            write_options=["allow-delete", "allow-overwrite"],
        ),
    )
