"""The cloud identities of pods, and how each platform grants them permissions and buckets.

Every platform has its own mechanism; the settings are the same everywhere.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from ..catalog import kubernetes as names
from ..catalog.broad_rights import AWS_POLICIES, GOOGLE_PROJECT_ROLES, GOOGLE_ROLES, too_broad
from ..schema.effect import Sent
from ..schema.limits import DNS_LABEL, UNIQUE, Limit, matching, pattern
from ..schema.outputs import MaybeOutput, Named, keyed, named
from ..schema.refusal import Keys, Refusal, collected, raised, refuse
from ..schema.rules import Checked, only, rule

KMS_KEY = re.compile(r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):[0-9]{12}:key/[0-9A-Za-z-]+")
"""The ARN of a key, not an alias: EKS returns the key's ARN for an alias; IAM ignores aliases."""
KMS_ARN = matching("a KMS key; give its ARN, arn:aws:kms:REGION:ACCOUNT:key/ID", KMS_KEY)
_ROLE = matching(
    "a role; write it as roles/bigquery.jobUser",
    re.compile(r"roles/[a-zA-Z0-9_.]+|(?:projects|organizations)/[^/]+/roles/[a-zA-Z0-9_.]+"),
)
# docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html, 2026-11-26.
PRINCIPAL = re.compile(
    r"arn:aws[a-z-]*:iam::(?P<account>[0-9]{12}):(?P<kind>role|user)/(?!aws-service-role/)"
    r"(?:[\w+=,.@-]+/)*(?P<name>[\w+=,.@-]+)"
)
"""The ARN of an IAM role or user that an access entry of EKS can be for."""


def iam_name(arn: str) -> str | None:
    """The same text for all spellings of an IAM role's or user's ARN, None for anything else: a
    name is unique in its account, whatever its path and case
    (docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html)."""
    match = PRINCIPAL.fullmatch(arn)
    return match and ":".join(match.groups()).lower()


POLICY = matching(
    "the ARN of a policy; write it as arn:aws:iam::ACCOUNT:policy/NAME",
    re.compile(r"arn:aws[a-z-]*:iam::(?:aws|[0-9]{12}):policy/[\w+=,.@/-]+"),
)


def policy_name(key: str | int, arn: MaybeOutput) -> str:
    """The name of a right or a policy, from which that of its grant is derived: its key in a map,
    or its last part."""
    return named(key, arn, lambda text: text.rpartition("/")[2])


def _narrow(patterns: Sequence[str], before: str = "") -> Limit:
    """A limit that refuses rights matching any of the patterns; `before` is a regular expression
    for what precedes that part of a value."""
    broad = (re.compile(before + re.escape(text).replace(r"\*", ".*")) for text in patterns)
    return Limit(lambda right: too_broad(right, patterns), {"not": pattern(*broad)})


BUCKET_NAME = matching(
    "a bucket's name; allowed: 3 to 63 lowercase letters, digits, '-', '_' and '.', a letter or "
    "digit at each end",
    names.BUCKET,
    hint=lambda name: f"give {name.split('/')[2]} only" if "://" in name else None,
)
"""The bucket names that both clouds accept."""


Right = Literal["read", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountArgs(Checked):
    """A Kubernetes service account of this stack with its own cloud permissions, without a key, and
    without permissions that other pods of the node could use."""

    namespace: Annotated[str, DNS_LABEL, Sent("ObjectMeta namespace")] = "default"
    """The namespace of the account and of its pods: one of `namespaces`, or an existing one."""
    buckets: Annotated[
        Mapping[Annotated[str, BUCKET_NAME], Right], Sent("BucketIAMMember", "RolePolicy")
    ] = field(default_factory=dict)
    """Existing buckets, and whether its pods only read the objects or also write and delete them;
    the permissions cover only these buckets. The driver is installed with the first one. A name is
    never an output, because volumes and the names of grants and claims are derived from it."""
    roles: Annotated[
        Named[Annotated[MaybeOutput, _ROLE, _narrow((*GOOGLE_ROLES, *GOOGLE_PROJECT_ROLES))]],
        UNIQUE,
        Sent("IAMMember role"),
    ] = ()
    """GKE: IAM roles in the stack's project, such as `roles/bigquery.jobUser`; outputs in a map, by
    a name of yours."""
    policies: Annotated[
        Named[Annotated[MaybeOutput, POLICY, _narrow(AWS_POLICIES, before=".*/")]],
        UNIQUE,
        Sent("RolePolicyAttachment policyArn"),
    ] = ()
    """EKS: ARNs of IAM policies, managed by AWS or by your account; outputs in a map, by a name of
    yours."""
    this_cluster_only: Annotated[bool, Sent("BucketIAMMember condition")] = False
    """GKE: whether an IAM condition limits the permissions to this cluster. By default, they apply
    to the same namespace and account in every cluster of the project."""
    bucket_keys: Annotated[
        Sequence[Annotated[MaybeOutput, KMS_ARN]],
        only(buckets=True)("is set without buckets; name the buckets, or drop the key"),
        Sent("RolePolicy policy.Statement[].Resource[]"),
    ] = ()
    """EKS: ARNs of your own KMS keys that encrypt its buckets by default."""

    @rule
    def _check_names(self) -> Iterator[Refusal]:
        for setting, rights in (("roles", self.roles), ("policies", self.policies)):
            ends = [policy_name(key, right) for key, right in keyed(rights)]
            if double := sorted({right for right in ends if ends.count(right) > 1}):
                yield refuse(setting)(
                    f"two of them are named {double[0]!r}, from which the stack derives the names "
                    "of what it grants; drop one, or create it again under another name"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDriver:
    """How pods on a platform mount a bucket."""

    driver: str
    """The CSI driver's name."""
    inline: bool
    """Whether pods name the bucket in an inline volume; otherwise through a claim."""
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations that pods mounting a bucket must have."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """The volume's attributes in addition to the bucket's name."""
    mount_options: Sequence[str] = ()
    """Options for every mount through a PersistentVolume."""
    write_options: Sequence[str] = ()
    """Additional options for mounts that write, overwrite and delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """The disks behind a stack's claims, on a platform where the stack itself creates them."""

    region: str
    """The region of the disks and of their zones."""
    zones: Sequence[str]
    """The zones of the stack's own network. A claim without a zone gets the first one. Empty in an
    existing network, whose zones only the cloud can tell."""
    pool_key: str
    """The setting that confines a pool to some zones or subnets."""
    shared: str
    """What to use if several nodes have to mount one volume."""
    other_class: str
    """How to use another StorageClass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClasses:
    """The StorageClasses of a platform, as far as claims have to be checked against them."""

    disks: Sequence[str] = ()
    """Classes whose volumes are disks, which only one node can attach at a time."""
    least_gib: Mapping[str, int] = field(default_factory=dict)
    """Class -> minimum volume size in GiB; a smaller claim fails."""
    most_gib: Mapping[str, int] = field(default_factory=dict)
    """Class -> maximum volume size in GiB."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Class -> why its volumes would not work on the platform, and which class to use instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the pods of a platform can be given access to."""

    rights: Literal["roles", "policies"] | None = None
    """The setting through which a service account gets its permissions on the platform."""
    buckets: BucketDriver | None = None
    """The bucket driver; None if the stack mounts no buckets."""
    disks: Disks | None = None
    """The stack's own disks; None if a CSI driver creates and deletes the disks of claims."""
    classes: VolumeClasses = VolumeClasses()
    """The StorageClasses that the stack's claims can use."""
    editors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Key of the cluster's block -> the namespaces in which people there may create pods."""
    viewers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Key of the cluster's block -> the namespaces that the people named there may only view."""
    groups: Sequence[str] | None = None
    """The Kubernetes groups that people can belong to; None if the stack does not control them."""
    principals: bool = False
    """Whether the stack gives IAM roles and users access, in a Kubernetes group of a team's
    name."""
    emails: bool = False
    """Whether Kubernetes identifies people and groups by their e-mail addresses."""
    groups_need: str = ""
    """The setting without which the cluster does not know who is in a group; empty if it does."""
    region: str = ""
    """The AWS region; empty on other clouds."""
    check_arns: Callable[[Iterable[tuple[Keys, MaybeOutput]]], None] = lambda _: None
    """Raises `Refusal` for an ARN, given with its key, that the region does not have."""

    @collected
    def check(self, account: ServiceAccountArgs, platform: str) -> Iterator[Refusal]:
        """Raises `Refusal` if the account names something that the platform cannot give it."""
        for key, rights in (("roles", account.roles), ("policies", account.policies)):
            if rights and key != self.rights:
                instead = f"use {self.rights}" if self.rights else "grant the permissions yourself"
                yield refuse(key)(f"is not available on platform {platform}", remedy=instead)
        if account.this_cluster_only and self.rights != "roles":
            yield refuse("thisClusterOnly")(
                f"on platform {platform} permissions apply to one cluster anyway, or are not "
                "managed by this stack; drop the key"
            )
        if account.bucket_keys and self.rights != "policies":
            yield refuse("bucketKeys")(f"platform {platform} does not need it; drop the key")
        for position, arn in enumerate(account.bucket_keys):
            if isinstance(arn, str) and f":kms:{self.region}:" not in arn:
                yield refuse(("bucketKeys", position), arn)(
                    f"is not in {self.region}; S3 needs a key in the bucket's region, and "
                    "buckets are in the region of the cluster"
                )
        for name, arns in (("policies", account.policies), ("bucketKeys", account.bucket_keys)):
            named = [((name, key), arn) for key, arn in keyed(arns)]
            yield from raised(self.check_arns, named)
        if account.buckets and self.buckets is None:
            yield refuse("buckets")(
                f"platform {platform} cannot mount buckets; use volumes with existingClaim"
            )
        if self.buckets is not None and not self.buckets.inline:
            for bucket in account.buckets:
                if reason := names.invalid_dns_subdomain(bucket):
                    yield refuse(("buckets", bucket))(
                        f"on platform {platform} a bucket's name {reason}"
                    )


def bucket_claim(account: str, bucket: str) -> str:
    """The PersistentVolumeClaim through which the account's pods mount the bucket, if its driver
    needs one. Names of accounts and of `volumeClaims` contain no dot, so there is no clash."""
    return f"{account}.{bucket}"
