"""Who pods are in the cloud, and how a platform gives them rights and buckets.

Every platform has a way; what a user says of it is the same everywhere.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from .catalog import kubernetes as names
from .catalog.broad_rights import (
    AWS_POLICIES,
    GOOGLE_PROJECT_ROLES,
    GOOGLE_ROLES,
    too_broad,
)
from .effect import Sent, Tries
from .limits import DNS_LABEL, UNIQUE, Limit, check_limits, matching, pattern

KMS_KEY = re.compile(r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):[0-9]{12}:key/[0-9A-Za-z-]+")
"""A key itself: EKS answers with that for an alias, and IAM grants nothing by one."""
KMS_ARN = matching("a KMS key; give its ARN, arn:aws:kms:REGION:ACCOUNT:key/ID", KMS_KEY)
_ROLE = matching(
    "a role; write it as roles/bigquery.jobUser",
    re.compile(r"roles/[a-zA-Z0-9_.]+|(?:projects|organizations)/[^/]+/roles/[a-zA-Z0-9_.]+"),
)
POLICY = matching(
    "the ARN of a policy; write it as arn:aws:iam::ACCOUNT:policy/NAME",
    re.compile(r"arn:aws[a-z-]*:iam::(?:aws|[0-9]{12}):policy/[\w+=,.@/-]+"),
)


def _narrow(patterns: Sequence[str], before: str = "") -> Limit:
    """A right that matches none of the patterns; `before`: what precedes that part of a value."""
    broad = (re.compile(before + re.escape(each).replace(r"\*", ".*")) for each in patterns)
    return Limit(lambda right: too_broad(right, patterns), {"not": pattern(*broad)})


BUCKET_NAME = matching(
    "a bucket's name; allowed: 3 to 63 lowercase letters, digits, '-', '_' and '.', a letter or "
    "digit at each end",
    names.BUCKET,
    hint=lambda name: f"give {name.split('/')[2]} only" if "://" in name else None,
)
"""As both clouds take it."""


Right = Literal["read", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountArgs:
    """A Kubernetes service account of this stack, with its own permissions in the cloud: no key,
    and nothing that another pod of the node could take."""

    namespace: Annotated[str, DNS_LABEL, Sent("ObjectMeta namespace"), Tries("kube-public")] = (
        "default"
    )
    """The namespace of the account and of the pods that may have it: one of `namespaces`, or an
    existing one."""
    buckets: Annotated[
        Mapping[Annotated[str, BUCKET_NAME], Right], Sent("BucketIAMMember", "RolePolicy")
    ] = field(default_factory=dict)
    """Existing buckets, and whether its pods read the objects or also write and delete them; the
    permissions cover only these buckets. The driver that mounts buckets is installed with the first
    one."""
    roles: Annotated[
        Sequence[Annotated[str, _ROLE, _narrow((*GOOGLE_ROLES, *GOOGLE_PROJECT_ROLES))]],
        UNIQUE,
        Sent("IAMMember role"),
    ] = ()
    """GKE: IAM roles in the stack's project, such as `roles/bigquery.jobUser`."""
    policies: Annotated[
        Sequence[Annotated[str, POLICY, _narrow(AWS_POLICIES, before=".*/")]],
        UNIQUE,
        Sent("RolePolicyAttachment policyArn"),
    ] = ()
    """EKS: ARNs of IAM policies, of AWS or of your account."""
    this_cluster_only: Annotated[bool, Sent("BucketIAMMember condition")] = False
    """GKE: whether an IAM condition confines the rights to this cluster. By default, they hold for
    the same namespace and account of every cluster of the project."""
    bucket_keys: Annotated[
        Sequence[Annotated[str, KMS_ARN]], Sent("RolePolicy policy.Statement[].Resource[]")
    ] = ()
    """EKS: ARNs of the KMS keys of your own with which its buckets are encrypted by default."""

    def __post_init__(self) -> None:
        check_limits(self)
        if self.bucket_keys and not self.buckets:
            raise ValueError(
                "bucketKeys: is set without buckets; name the buckets, or drop the key"
            )
        for key, given in (("roles", self.roles), ("policies", self.policies)):
            ends = [each.rpartition("/")[2] for each in given]
            if double := sorted({each for each in ends if ends.count(each) > 1}):
                raise ValueError(f"{key}: {double[0]!r} is a duplicate; list it once")


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDriver:
    """How pods of a platform mount a bucket."""

    driver: str
    """The CSI driver's name."""
    inline: bool
    """Whether a pod names the bucket itself; else through a PersistentVolume and its claim."""
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    """What pods that mount one must have."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """The volume's attributes besides the bucket's name."""
    mount_options: Sequence[str] = ()
    """Of every mount, with a PersistentVolume."""
    write_options: Sequence[str] = ()
    """Of a mount that writes, deletes and overwrites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """The disks of a stack's claims, on a platform where the stack itself creates them."""

    region: str
    """Of the disks, and so of their zones."""
    zones: Sequence[str]
    """The zones of the stack's own network, the first of which a claim gets that names none; empty
    in an existing network, whose zones only the cloud knows."""
    pool_key: str
    """The key by which a pool is confined to some zones, or to some subnets."""
    shared: str
    """What to use if several nodes have to mount one."""
    other_class: str
    """What to do for a StorageClass of one's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClasses:
    """The StorageClasses of a platform, as far as claims can be wrong about them."""

    disks: Sequence[str] = ()
    """Those whose volumes are disks, which one node attaches."""
    least_gib: Mapping[str, int] = field(default_factory=dict)
    """Class -> GiB of its smallest volume, where a smaller claim fails."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Class -> why its volumes would not work here, and what to name instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the pods of a platform can be given."""

    rights: Literal["roles", "policies"] | None = None
    """The key by which a service account gets rights there."""
    buckets: BucketDriver | None = None
    """None if the stack mounts none."""
    disks: Disks | None = None
    """None if a driver of the cluster creates the disk of a claim and deletes it again."""
    classes: VolumeClasses = VolumeClasses()
    """What claims of the stack can name."""
    editors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Where people may create pods: key of the cluster's block -> the namespaces in it."""
    viewers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Where people may only look, likewise."""
    groups: Sequence[str] | None = None
    """The Kubernetes groups that people can be in; None if others than the stack say so."""
    emails: bool = False
    """Whether Kubernetes knows people and groups by their e-mail addresses."""

    def check(self, account: ServiceAccountArgs, platform: str) -> None:
        """Raises ValueError if the platform cannot give the account what it names."""
        for key, given in (("roles", account.roles), ("policies", account.policies)):
            if given and key != self.rights:
                instead = f"use {self.rights}" if self.rights else "grant the permissions yourself"
                raise ValueError(f"{key}: is not available on platform {platform}; {instead}")
        if account.this_cluster_only and self.rights != "roles":
            raise ValueError(
                f"thisClusterOnly: on platform {platform} permissions apply to one cluster "
                "anyway, or are not managed by this stack; drop the key"
            )
        if account.bucket_keys and self.rights != "policies":
            raise ValueError(f"bucketKeys: platform {platform} does not need it; drop the key")
        for position, arn in enumerate(account.bucket_keys):
            if self.disks is not None and f":kms:{self.disks.region}:" not in arn:
                raise ValueError(
                    f"bucketKeys[{position}]: {arn!r} is not in {self.disks.region}; S3 needs a "
                    "key in the bucket's region, and buckets are in the region of the cluster"
                )
        if account.buckets and self.buckets is None:
            raise ValueError(
                f"buckets: platform {platform} cannot mount buckets; use volumes with existingClaim"
            )
        if self.buckets is not None and not self.buckets.inline:
            for bucket in account.buckets:
                if reason := names.invalid_dns_subdomain(bucket):
                    raise ValueError(
                        f"buckets.{bucket}: on platform {platform} a bucket's name {reason}"
                    )


def bucket_claim(account: str, bucket: str) -> str:
    """The PersistentVolumeClaim by which pods of the account mount the bucket, where its driver
    needs one. A dot is in no account's name, and in no name of `volumeClaims`."""
    return f"{account}.{bucket}"
