"""Operations whose responses differ between moto and AWS: quotas, which moto lacks, the caller's
identity, and Capacity Block offerings."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from gpu_cluster.components.catalog.eks import QUOTA_CODES
from gpu_cluster.rehearsal.simulators.aws.account import CALLER, Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, page
from gpu_cluster.rehearsal.simulators.aws.eks import access_admins
from gpu_cluster.rehearsal.simulators.aws.instances import instance, vcpu_limit
from gpu_cluster.rehearsal.simulators.aws.network_rules import NETWORK
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.aws.roles import role_name

_NAMES = {
    code: f"{group} spot" if spot else group
    # On demand, P5 counts as P.
    for group, codes in reversed(tuple(QUOTA_CODES.items()))
    for spot, code in enumerate(codes)
}
"""Quota code -> key in `ApiFaults.quota`."""


def _quota(account: Account, code: str) -> dict[str, Any]:
    return {
        "ServiceCode": "vpc" if code == "L-F678F1CE" else "ec2",
        "QuotaCode": code,
        "QuotaName": _NAMES.get(code, code),
        "Value": float(vcpu_limit(account, _NAMES[code]) if code in _NAMES else NETWORK[code]),
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _quotas(account: Account, service: str) -> list[dict[str, Any]]:
    rows = [_quota(account, code) for code in (*_NAMES, *NETWORK)]
    return [row for row in rows if row["ServiceCode"] == service]


@operation("service-quotas", "GetServiceQuota")
def get_service_quota(account: Account, params: Params) -> dict[str, Any]:
    """Returns one of EC2's vCPU quotas or of a network's quotas; no others exist here."""
    for quota in _quotas(account, params["ServiceCode"]):
        if quota["QuotaCode"] == params["QuotaCode"]:
            return {"Quota": quota}
    raise Refusal("NoSuchResourceException", "The specified resource does not exist.")


@operation("service-quotas", "ListServiceQuotas")
def list_service_quotas(account: Account, params: Params) -> dict[str, Any]:
    """Lists the quotas of a service."""
    rows = _quotas(account, params["ServiceCode"])
    return page(params, "Quotas", rows, after="NextToken", most="MaxResults")


@operation("sts", "GetCallerIdentity")
def get_caller_identity(account: Account, params: Params) -> dict[str, Any]:
    """A caller with keys from IAM or STS is their owner. A rehearsal has no credentials of its own:
    its engine is the user `rehearsal`, and any other caller is the cluster's first admin. Without
    a rehearsal, every caller is that user, whatever the account contains.

    The account number is always that of the account's resources, whatever the admin's ARN contains.
    """
    key = account.asking.response.get_access_key()
    identity, arn, number = account.backend("sts").get_caller_identity(key, account.region)
    if arn.endswith(":user/moto"):
        found = [who for cluster in account.clusters.values() for who, _ in access_admins(cluster)]
        admins = found if account.rehearsed and key != "rehearsal" else []
        identity, arn = "AIDAREHEARSAL", (admins or [CALLER])[0]
        if ":role/" in arn:
            arn = f"arn:aws:sts::{arn.split(':')[4]}:assumed-role/{role_name(arn)}/rehearsal"
    return {"UserId": identity, "Account": number, "Arn": arn}


@operation("ec2", "GetEbsDefaultKmsKeyId")
def get_ebs_default_kms_key_id(account: Account, params: Params) -> dict[str, Any]:
    """AWS's own key, unless another was chosen."""
    return {"KmsKeyId": account.backend("ec2").default_kms_key_id or "alias/aws/ebs"}


@operation("ec2", "DescribeCapacityBlockOfferings")
def describe_capacity_block_offerings(account: Account, params: Params) -> dict[str, Any]:
    """One offering in each zone that has the instance type, starting tomorrow; only P instances
    (and Trainium) have Capacity Blocks. The fee is the on-demand price."""
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

    name, hours = params.get("InstanceType", ""), params["CapacityDurationHours"]
    if not name.startswith(("p4", "p5", "p6", "trn")):
        raise Refusal(
            "InvalidParameterValue",
            f"The instance type '{name}' is not supported for Capacity Blocks.",
        )
    row, count = instance(account, name), params.get("InstanceCount", 1)
    weeks = hours > 14 * 24  # botocore, DescribeCapacityBlockOfferingsRequest
    if not 24 <= hours <= 182 * 24 or hours % (7 * 24 if weeks else 24) or not 1 <= count <= 64:
        raise Refusal(
            "InvalidParameterValue",
            "CapacityDurationHours must be whole days, above 14 whole weeks, up to 182, and "
            f"InstanceCount 1 to 64, got {hours} and {count}",
        )
    start = datetime.now(UTC).replace(hour=11, minute=30, second=0, microsecond=0)
    start = max(start + timedelta(days=1), _aware(params.get("StartDateRange")) or start)
    end = start + timedelta(hours=hours)
    until = _aware(params.get("EndDateRange"))
    zones = [
        offering["Location"]
        for offering in INSTANCE_TYPE_OFFERINGS["availability-zone"].get(account.region, [])
        if offering["InstanceType"] == name and (until is None or end <= until)
    ]
    rows = [
        {
            "CapacityBlockOfferingId": "cb-0"
            + hashlib.sha256(f"{zone}{name}{count}{hours}{start}".encode()).hexdigest()[:16],
            "InstanceType": name,
            "AvailabilityZone": zone,
            "InstanceCount": count,
            "StartDate": start,
            "EndDate": end,
            "CapacityBlockDurationHours": hours,
            "UpfrontFee": f"{(row.on_demand or 0) * hours * count:.2f}",
            "CurrencyCode": "USD",
            "Tenancy": "default",
        }
        for zone in sorted(zones)
    ]
    return {"CapacityBlockOfferings": rows}


def _aware(when: datetime | None) -> datetime | None:
    """Adds the time zone that moto drops."""
    return when.replace(tzinfo=UTC) if when else None
