"""Problems of an AWS account that would fail an EKS environment's first update; read-only."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import botocore.exceptions

from gpu_cluster.components.access.service_accounts import ServiceAccountArgs
from gpu_cluster.components.eks.cluster_args import EksClusterArgs
from gpu_cluster.components.eks.existing_args import controller
from gpu_cluster.components.eks.settings import EksSettings
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.schema.outputs import text, texts
from gpu_cluster.stacks.capacity.offers import Offer, Wanted
from gpu_cluster.stacks.capacity.verdict import Finding, Unknown

_NO_CREDENTIALS = (
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.PartialCredentialsError,
    botocore.exceptions.CredentialRetrievalError,
    botocore.exceptions.SSOError,
)
_BAD_CREDENTIALS = ("ExpiredToken", "RequestExpired", "UnrecognizedClient", "AuthFailure",
                    "InvalidClientTokenId", "SignatureDoesNotMatch")  # fmt: skip
_SIGN_IN = "; sign in: aws sso login, or aws configure sso, and name the profile in AWS_PROFILE"


CLUSTER_TAGS = ("eks:cluster-name", "eks:eks-cluster-name")
"""Tags of the nodes of a cluster, with its name: managed node groups set the first, Karpenter
(1.15.0, pkg/apis/v1/labels.go and pkg/utils/utils.go) and Auto Mode the second."""


def nodes_of(ec2: Any, cluster: str) -> list[Any]:
    """The instances that are nodes of a cluster, as EC2 describes them."""
    instances = {
        instance["InstanceId"]: instance
        for tag in CLUSTER_TAGS
        for machine in listed(
            ec2, "describe_instances", "Reservations", Filters=[filter_of(f"tag:{tag}", cluster)]
        )
        for instance in machine["Instances"]
    }
    return list(instances.values())


def wanted(settings: EksSettings) -> list[Wanted]:
    """Every instance type of a pool, with the zones that must offer it.

    EKS refuses a node group with a type that a zone does not offer, at any size, after the control
    plane was created and billed. In an existing VPC, the IDs of subnets stand for their zones.
    """
    cluster, region, system = settings.cluster, settings.region, settings.cluster.system_nodes
    pools = [("system", system.instance_types, cluster.network.places)] if system else []
    pools += [
        (name, choice.args.instance_types, tuple(choice.places))
        for name, pool in settings.pools.items()
        for choice in pool.choices
        # Reserved machines are checked with their reservation.
        if choice.args.reservation is None
    ]
    pools += [
        (name, pool.instance_types, pool.places(name) or cluster.network.places)
        for name, pool in cluster.cpu_pools.items()
    ]
    offers = (
        Wanted(pool=name, types=(kind,), region=region, zones=places)
        for name, kinds, places in pools
        for kind in kinds
    )
    return [*dict.fromkeys(offers)]


def offer(ec2: Any, wanted: Wanted) -> Offer:
    """The zones that offer it. Zone names differ by account, and so does the answer."""
    (kind,) = wanted.types
    try:
        wanted = replace(wanted, zones=zones_of(ec2, wanted.zones))
        by_id = "-az" in wanted.zones[0]
        rows = listed(
            ec2, "describe_instance_type_offerings", "InstanceTypeOfferings",
            LocationType="availability-zone-id" if by_id else "availability-zone",
            Filters=[filter_of("instance-type", kind)],
        )  # fmt: skip
        has = sorted(row["Location"] for row in rows)
    except Exception as error:
        return Offer(wanted=wanted, zones=unknown(error), regional=True)
    return Offer(wanted=wanted, zones=tuple(has), regional=True)


def listed(client: Any, call: str, rows: str, **request: Any) -> list[Any]:
    """The results of a call, from all pages."""
    pages = client.get_paginator(call).paginate(**request)
    return [item for page in pages for item in page[rows]]


def filter_of(name: str, *values: str) -> dict[str, Any]:
    """A filter of EC2's."""
    return {"Name": name, "Values": list(values)}


def zones_of(ec2: Any, places: tuple[str, ...]) -> tuple[str, ...]:
    """The zones, with subnets replaced by their zones."""
    if not places[0].startswith("subnet-"):
        return places
    rows = ec2.describe_subnets(SubnetIds=list(places))["Subnets"]
    return tuple(sorted({subnet["AvailabilityZone"] for subnet in rows}))


def signed_in(sts: Any, settings: EksSettings) -> Iterator[Finding]:
    """A finding if the identity that runs Pulumi is not in `admins`, because the creator has no
    access. None for an existing cluster, whose access entries decide who may use it.

    The identity is the role that the provider assumes, or the one that runs this check.
    """
    who = settings.provider.role
    if not settings.cluster.admins:
        return
    if who is None:
        try:
            who = str(sts.get_caller_identity()["Arn"])
        except Exception as error:
            reason = f"the identity that signs in is unknown: {unknown(error).reason}"
            yield Finding.unknown("cluster.admins", reason)
            return
    if not any(_is(who, admin) for admin in texts(settings.cluster.admins)):
        yield Finding.wrong(
            "cluster.admins",
            f"{who} signs in but is not listed, so the update would fail at the first "
            "Kubernetes object; add its role, or run Pulumi as one of the admins",
        )


def spot_pools(settings: EksSettings) -> list[str]:
    """The settings of the pools for which Karpenter is to buy Spot."""
    paths = [f"gpuPools.{name}" for name, pool in settings.pools.items() if pool.pool.spot]
    cpu_pools = settings.cluster.cpu_pools.items()
    paths += [f"cluster.cpuPools.{name}.spot" for name, pool in cpu_pools if pool.spot]
    return paths if SCALERS[settings.cluster.scaler].launches else []


def spot_role(iam: Any, settings: EksSettings) -> Iterator[Finding]:
    """A finding if Karpenter is to buy Spot and the account lacks the role for it: its controller
    may not create it, as EKS does for node groups and for Auto Mode.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html
    (read 2026-11-24)
    """
    paths = spot_pools(settings)
    if not paths:
        return
    try:
        iam.get_role(RoleName="AWSServiceRoleForEC2Spot")
    except Exception as error:
        if code_of(error) != "NoSuchEntity":
            yield Finding.unknown(paths[0], unknown(error).reason)
            return
        yield Finding.wrong(
            paths[0],
            "the account lacks the role AWSServiceRoleForEC2Spot, without which Karpenter "
            "starts no Spot instance; create it: aws iam create-service-linked-role "
            "--aws-service-name spot.amazonaws.com",
        )


def disks_key(ec2: Any, kms: Any, settings: EksSettings, eks: Any = None) -> Iterator[Finding]:
    """A finding if the identity that starts nodes may not use the key of their disks, so that none
    starts (AsgInstanceLaunchFailures, Client.InternalError); or if the driver may not use it.

    https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html
    and https://docs.aws.amazon.com/eks/latest/userguide/auto-kms.html, read 2026-11-24.
    """
    given, about = settings.cluster.disks_encryption_key, "cluster.disksEncryptionKey"
    key = None if given is None else text(given)
    try:
        if key is None:
            # The alias or the ARN, also for AWS's own key.
            default = str(ec2.get_ebs_default_kms_key_id()["KmsKeyId"])
            if not default.endswith("alias/aws/ebs") and not _is_awss(kms, default):
                yield Finding.wrong(
                    about,
                    f"the account encrypts disks with {default} by default, which the EBS "
                    "CSI driver and perhaps who starts nodes may not use; set it to that ARN",
                )
            return
        roles = _launchers(eks, settings)
    except Exception as error:
        yield Finding.unknown(about, unknown(error).reason)
        return
    for word, reason in _use_of_key(kms, key, roles):
        yield Finding(about=about, word=word, reason=reason)


def _use_of_key(
    kms: Any, key: str, roles: Sequence[str]
) -> Iterator[tuple[Literal["wrong", "unknown"], str]]:
    """A verdict and its reason for each of the roles, parts of ARNs, that may not use the key."""
    try:
        policy = json.loads(kms.get_key_policy(KeyId=key, PolicyName="default")["Policy"])
        granted = [str(statement.get("Principal")) for statement in policy["Statement"]
                   if statement.get("Effect") == "Allow"]  # fmt: skip
        if not all(any(role in principal for principal in granted) for role in roles):
            # A grant gives the permission just like the policy.
            grants = listed(kms, "list_grants", "Grants", KeyId=key)
            granted += [str(grant.get("GranteePrincipal")) for grant in grants]
    except Exception as error:
        yield "unknown", unknown(error).reason
        return
    partition, account = key.split(":")[1], key.split(":")[4]
    arns = {
        _AUTO_SCALING: f"arn:{partition}:iam::{account}:role/aws-service-role/{_AUTO_SCALING_PATH}",
        _IAM: f"arn:{partition}:iam::{account}{_IAM}",
    }
    for role in roles:
        if any(role in principal for principal in granted):
            continue
        who = "IAM of the account" if role == _IAM else role
        # IAM can let a role use the key if the policy names the account.
        by_iam = role not in arns and any(arns[_IAM] in name for name in granted)
        if by_iam or any("*" in word for word in granted):
            what = "IAM lets" if by_iam else "the conditions of its policy let"
            yield "unknown", f"it is not known whether {what} {who} use it"
            continue
        principal = {"AWS": arns.get(role, role)}
        statements = json.dumps([
            {"Effect": "Allow", "Principal": principal, "Action": _USE, "Resource": "*"},
            {"Effect": "Allow", "Principal": principal, "Action": "kms:CreateGrant",
             "Resource": "*", "Condition": {"Bool": {"kms:GrantIsForAWSResource": True}}},
        ])  # fmt: skip
        yield (
            "wrong",
            f"neither its policy nor a grant lets {who} use it, so no node could start; add these "
            f"statements to its policy: {statements}",
        )


def snapshots(ec2: Any, kms: Any, settings: EksSettings) -> Iterator[Finding]:
    """A finding for each pool whose disks cannot be created from its snapshot: EKS refuses the node
    group (cilium/cilium, pull request 43051), and Karpenter starts no node of its NodePool
    (karpenter-provider-aws issue 7928). Both read 2026-11-29. Also if the identity that starts the
    nodes may not use the snapshot's key, as `disks_key` does."""
    for name, pool in settings.pools.items():
        if pool.args.disk_snapshot_id is None:
            continue
        about, snapshot = f"gpuPools.{name}.diskSnapshotId", text(pool.args.disk_snapshot_id)
        size, reason = pool.args.disk_size_gb, ""
        try:
            (row,) = ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"]
        except Exception as error:
            if not code_of(error).startswith("InvalidSnapshot"):
                yield Finding.unknown(about, unknown(error).reason)
                continue
            reason = f"{snapshot} does not exist in {settings.region}, or is not shared with you"
        else:
            if row["State"] != "completed":
                reason = f"{snapshot} is {row['State']}, not completed"
            elif row["VolumeSize"] > size:
                reason = (
                    f"{snapshot} is of a volume of {row['VolumeSize']} GiB, and diskSizeGb is "
                    f"{size}, so that no disk can be created from it; raise that"
                )
            elif row.get("Encrypted"):
                key = row["KmsKeyId"]
                for word, why in _use_of_snapshots_key(kms, key, settings):
                    yield Finding(
                        about=about, word=word, reason=f"the key of {snapshot}, {key}: {why}"
                    )
        if reason:
            yield Finding.wrong(about, reason)


def _use_of_snapshots_key(
    kms: Any, key: str, settings: EksSettings
) -> Iterator[tuple[Literal["wrong", "unknown"], str]]:
    """As `_use_of_key`; nothing for AWS's own key, and for that of the disks, which has a check."""
    cluster = settings.cluster
    if cluster.disks_encryption_key is not None and text(cluster.disks_encryption_key) == key:
        return
    try:
        if _is_awss(kms, key):
            return
    except Exception as error:
        yield "unknown", unknown(error).reason
        return
    if SCALERS[cluster.scaler].node_groups:
        yield from _use_of_key(kms, key, [_AUTO_SCALING])
    elif controller(cluster) is None:
        yield from _use_of_key(kms, key, [_IAM])
    else:
        # As components/eks/karpenter.py names it; that module is slow to import.
        role = f"{cluster.name[:46]}-karpenter"
        for _ in _use_of_key(kms, key, [f":role/{role}-"]):
            yield (
                "unknown",
                f"it is not known whether its policy or a grant lets the role {role} use it, which "
                "by IAM may use only cluster.disksEncryptionKey; encrypt the snapshot with that",
            )


def _launchers(eks: Any, settings: EksSettings) -> list[str]:
    """Parts of the ARNs of the principals that start nodes and need the key of their disks. The
    stack's own roles have the permission in IAM, which decides if the key's policy names the
    account; so does IAM for an existing Karpenter, whose role no setting names."""
    cluster = settings.cluster
    if SCALERS[cluster.scaler].node_groups:
        return [_AUTO_SCALING]
    if SCALERS[cluster.scaler].serves_system and not isinstance(cluster, EksClusterArgs):
        return [str(eks.describe_cluster(name=cluster.name)["cluster"]["roleArn"])]
    return [*([_AUTO_SCALING] if cluster.system_nodes else []), _IAM]


def _is_awss(kms: Any, key: str) -> bool:
    return bool(kms.describe_key(KeyId=key)["KeyMetadata"]["KeyManager"] == "AWS")


_AUTO_SCALING = "AWSServiceRoleForAutoScaling"
_IAM = ":root"
"""The end of the principal's ARN with which a key's policy delegates access to IAM."""
_AUTO_SCALING_PATH = f"autoscaling.amazonaws.com/{_AUTO_SCALING}"
_USE = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"]


def buckets(s3: Any, accounts: Mapping[str, ServiceAccountArgs], region: str) -> Iterator[Finding]:
    """A finding for each bucket of a service account that the cluster's pods could not mount."""
    for bucket in sorted({name for account in accounts.values() for name in account.buckets}):
        about = f"bucket {bucket}"
        try:
            answer = s3.head_bucket(Bucket=bucket)["ResponseMetadata"]
        except botocore.exceptions.ClientError as error:
            answer = error.response["ResponseMetadata"]
            reason = unknown(error).reason
        except Exception as error:
            yield Finding.unknown(about, unknown(error).reason)
            continue
        # S3 returns the region even if it refuses everything else.
        location = answer.get("HTTPHeaders", {}).get("x-amz-bucket-region", region)
        if answer["HTTPStatusCode"] == 404:
            yield Finding.wrong(
                about, f"does not exist; create it in {region}, or correct serviceAccounts"
            )
        elif location != region:
            yield Finding.wrong(
                about, f"is in {location}, and pods mount buckets of the cluster's region {region}"
            )
        elif answer["HTTPStatusCode"] != 200:
            yield Finding.unknown(about, reason)


def _is(who: str, admin: str) -> bool:
    """Whether an admin's ARN matches this identity. A session names its role without the path."""
    service, account, name = who.split(":", 5)[2:3] + who.split(":", 5)[4:]
    kind, _, rest = name.partition("/")
    if service != "sts" or kind != "assumed-role":
        return who == admin
    *_, admins_account, admins_name = admin.split(":", 5)
    role = rest.partition("/")[0]
    return (
        account == admins_account
        and admins_name.startswith("role/")
        and (admins_name.rpartition("/")[2] == role)
    )


def code_of(error: Exception) -> str:
    """The code of a refusal of AWS; empty for any other error."""
    # Errors of the connection have a response too: none.
    if isinstance(error, botocore.exceptions.ClientError):
        return str(error.response["Error"].get("Code", ""))
    return ""


def unknown(error: Exception, service: str = "") -> Unknown:
    """A refusal or failure of AWS in one line; raises any other error. `service`: the prefix of its
    IAM actions, if they have the names of its calls."""
    if isinstance(error, botocore.exceptions.ClientError):
        code, message = (error.response["Error"].get(key, "") for key in ("Code", "Message"))
        denied = "AccessDenied" in code or "Unauthorized" in code
        # The message of SignatureDoesNotMatch has many lines.
        reason = " ".join(f"{code} {message}".split())
        if code == "InvalidSubnetID.NotFound":
            return Unknown(reason=f"no answer: {reason}", explained=True)
        fix = _SIGN_IN if code.startswith(_BAD_CREDENTIALS) else ""
        if denied and service:
            fix = f"; allow {service}:{error.operation_name}"
        return Unknown(reason=f"{'not allowed to look' if denied else 'no answer'}: {reason}{fix}")
    if isinstance(error, botocore.exceptions.BotoCoreError):
        message = " ".join(str(error).split())
        fix = _SIGN_IN if isinstance(error, _NO_CREDENTIALS) else ""
        return Unknown(reason=f"AWS could not be queried: {message}{fix}")
    raise error
