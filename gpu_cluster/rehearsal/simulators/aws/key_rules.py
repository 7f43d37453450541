"""Rules that KMS and CloudWatch Logs enforce and moto does not."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, rule
from gpu_cluster.rehearsal.simulators.aws.clusters import log_group_of, logged
from gpu_cluster.rehearsal.simulators.aws.evaluation import statements
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal


@rule("kms", "CreateKey")
def create_key(account: Account, params: Params) -> None:
    """Refuses parameters that a rehearsal does not simulate."""
    if params.get("MultiRegion"):
        raise Refusal("UnsupportedOperationException", "a rehearsal has no multi-region keys")


@rule("kms", "DescribeKey")
def describe_key(account: Account, params: Params) -> None:
    """Marks the key that EBS creates as AWS's, which moto classifies as a customer's."""
    kms, ebs = account.backend("kms"), "alias/aws/ebs"
    if kms.alias_exists(ebs):
        kms.describe_key(ebs).key_manager = "AWS"


@rule("kms", "ScheduleKeyDeletion")
def schedule_key_deletion(account: Account, params: Params) -> None:
    """Refuses to delete a key that encrypts the secrets of a cluster."""
    identity = params["KeyId"]
    for name, cluster in account.clusters.items():
        for config in cluster.row.get("encryptionConfig") or []:
            if config["provider"]["keyArn"].endswith(identity.rpartition("/")[2]):
                raise Refusal(
                    "KMSInvalidStateException",
                    f"KMS would schedule the deletion of '{identity}', but the secrets of the "
                    f"cluster '{name}' are encrypted with it and would be lost: delete the cluster "
                    "first",
                )


@rule("logs", "CreateLogGroup", "AssociateKmsKey")
def check_key(account: Account, params: Params) -> None:
    """Refuses a key whose policy does not name CloudWatch, which checks the key first."""
    if not (key := params.get("kmsKeyId")):
        return
    service = f"logs.{account.region}.amazonaws.com"
    name = params.get("logGroupName", "")
    policy = account.client("kms").get_key_policy(KeyId=key, PolicyName="default")["Policy"]
    if not any(
        service in str(item.get("Principal", {})) for item in statements(json.loads(policy))
    ):
        raise Refusal(
            "AccessDeniedException",
            "The specified KMS key does not exist or is not allowed to be used with Arn "
            f"'{account.arn('logs', f'log-group:{name}')}': its policy must let {service} use it",
        )


@operation("logs", "AssociateKmsKey", "DisassociateKmsKey")
def change_key(account: Account, params: Params) -> Mapping[str, Any]:
    """Sets or removes the key of a log group, which moto cannot."""
    name = params["logGroupName"]
    group = account.backend("logs").groups.get(name)
    if group is None:
        raise Refusal("ResourceNotFoundException", "The specified log group does not exist.")
    group.kms_key_id = params.get("kmsKeyId")
    return {}


@rule("logs", "DeleteLogGroup")
def delete_log_group(account: Account, params: Params) -> Iterator[None]:
    """Recreates the log group while the control plane still logs; the stack does not own it."""
    yield
    name = params["logGroupName"]
    for cluster in account.clusters.values():
        if logged(cluster.row["logging"]) and name == log_group_of(cluster.row["name"]):
            account.client("logs").create_log_group(logGroupName=name)
