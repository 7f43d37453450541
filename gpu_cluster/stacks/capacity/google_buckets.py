"""Whether the buckets that pods use exist, are writable for pods, and are near the cluster."""

from collections.abc import Mapping
from typing import Literal

from gpu_cluster.components.access.service_accounts import ServiceAccountArgs
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.verdict import Finding, Unknown

_MULTI_REGIONS = {"US": "us-", "EU": "europe-", "ASIA": "asia-"}
"""Multi-region -> the prefix of its regions' names."""


def bucket_findings(
    accounts: Mapping[str, ServiceAccountArgs], *, region: str, api: GoogleApi
) -> tuple[list[Finding], list[str]]:
    """A finding for each bucket that an account could not use, and a note for each that is far from
    `region`. Dual-regions are not checked."""
    result, notes = [], []
    for account, args in accounts.items():
        for bucket, right in args.buckets.items():
            about = f"serviceAccounts.{account}.buckets.{bucket}"
            row = api.found("storage", f"b/{bucket}")
            if row is None:
                reason = "no such bucket exists; create it, or correct its name"
                result.append(Finding.wrong(about, reason))
                continue
            if isinstance(row, Unknown):
                result.append(Finding.unknown(about, row.reason))
                continue
            uniform = (row.get("iamConfiguration") or {}).get("uniformBucketLevelAccess") or {}
            if not uniform.get("enabled"):
                # Federated identities, such as pods, need it: cloud.google.com,
                # federated-identity-supported-services. So do conditions:
                # cloud.google.com/storage/docs/access-control/iam.
                word: Literal["wrong", "unknown"] = "unknown"
                refused = "reads may be refused"
                if right == "write":
                    refused, word = "pods cannot write to it", "wrong"
                elif args.this_cluster_only:
                    refused, word = "the condition of thisClusterOnly is refused", "wrong"
                result.append(
                    Finding(
                        about=about,
                        word=word,
                        reason=f"uniform bucket-level access is off, so {refused}; run gcloud "
                        f"storage buckets update gs://{bucket} --uniform-bucket-level-access",
                    )
                )
            place = str(row.get("location", ""))
            several = _MULTI_REGIONS.get(place)
            near = region.startswith(several) if several else region == place.lower()
            if (several or "-" in place) and not near:
                notes.append(
                    f"bucket {bucket} is in {place}, and the cluster in {region}: reading from it "
                    "is slow and is billed by volume"
                )
    return result, notes
