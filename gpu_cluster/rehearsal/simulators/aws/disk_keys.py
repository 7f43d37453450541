"""Whether EC2 can encrypt node disks: the state of their KMS key, and who may use it.

A key that the simulated account does not have is assumed to exist and to be usable.
https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.evaluation import allowed, statements

_AUTO_SCALING = "aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
_USE = ("kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext")
_ENDED = (
    "Instance became unhealthy while waiting for instance to be in InService state. Termination "
    "Reason: "
)


def why_no_disks(account: Account, template: Mapping[str, Any]) -> str:
    """Why EC2 ends nodes with this launch template's data as soon as they start, with Auto
    Scaling's message (hashicorp/terraform-provider-aws issue 39904, kubernetes/kops issue 11545);
    empty if it does not."""
    for key in own_keys(account, template):
        try:
            row = account.client("kms").describe_key(KeyId=key)["KeyMetadata"]
        except ClientError:
            continue
        if row["KeyState"] != "Enabled":
            return (
                f"{_ENDED}Client.InvalidKMSKey.InvalidState: The KMS key provided is in an "
                "incorrect state"
            )
        if not _may_use(account, row["Arn"]):
            return f"{_ENDED}Client.InternalError: Client error on launch"
    return ""


def own_keys(account: Account, template: Mapping[str, Any]) -> list[str]:
    """The keys of the template's volumes that AWS does not manage itself."""
    return [key for key in dict.fromkeys(_keys(account, template)) if not _aws_own(account, key)]


def _keys(account: Account, template: Mapping[str, Any]) -> Iterator[str]:
    """The keys of the template's encrypted volumes: their own, or else the account's default."""
    default = account.backend("ec2").default_kms_key_id
    for mapping in template.get("BlockDeviceMappings") or []:
        volume = mapping.get("Ebs") or {}
        encrypted = str(volume.get("Encrypted")).lower() == "true"
        if key := volume.get("KmsKeyId") or (default if encrypted else ""):
            yield key


def _aws_own(account: Account, key: str) -> bool:
    """Whether AWS manages the key, in which case one of AWS's aliases names it. moto classifies
    EBS's key, which is created with the first disk that it encrypts, as a customer's."""
    kms = account.client("kms")
    try:
        identity = kms.describe_key(KeyId=key)["KeyMetadata"]["KeyId"]
    except ClientError:
        return key.startswith("alias/aws/")
    aliases = kms.list_aliases(KeyId=identity)["Aliases"]
    return any(alias["AliasName"].startswith("alias/aws/") for alias in aliases)


def _may_use(account: Account, key: str) -> bool:
    """Whether the key's policy or a grant lets Auto Scaling's role use it. A statement for the
    account's root only delegates to IAM, where this role has no permissions for keys."""
    kms = account.client("kms")
    policy = json.loads(kms.get_key_policy(KeyId=key, PolicyName="default")["Policy"])
    own = [statement for statement in statements(policy) if _names_role(statement.get("Principal"))]
    context = {
        "kms:GrantIsForAWSResource": "true",
        "kms:CallerAccount": key.split(":")[4],
        "kms:ViaService": f"ec2.{account.region}.amazonaws.com",
    }
    if all(allowed([{"Statement": own}], action, key, context) for action in _USE):
        return True
    return any(_names_role(row["GranteePrincipal"]) for row in kms.list_grants(KeyId=key)["Grants"])


def _names_role(principal: Any) -> bool:
    principals = principal.get("AWS", []) if isinstance(principal, Mapping) else principal
    listed = principals if isinstance(principals, list) else [principals]
    return any(name == "*" or str(name).endswith(_AUTO_SCALING) for name in listed)
