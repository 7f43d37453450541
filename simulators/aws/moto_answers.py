"""What moto answers otherwise than AWS: EC2's vCPU quotas, which it lacks, and who calls."""

from collections.abc import Callable
from typing import Any

from components.catalog.eks import QUOTA_CODES, QUOTA_SERVICE
from plugins.faults import Faults
from simulators.aws.account import Account
from simulators.aws.instances import DEFAULT_VCPUS
from simulators.aws.roles import role_name

_NAMES = {
    code: f"{group} spot" if spot else group
    for group, codes in QUOTA_CODES.items()
    for spot, code in enumerate(codes)
}
"""Quota code -> key of `Faults.quota`."""


def answer_quotas(faults: Faults) -> Callable[[], None]:
    """moto's `GetServiceQuota` knows EC2's quotas, until what this returns is called."""
    from moto.servicequotas.models import ServiceQuotasBackend

    original = ServiceQuotasBackend.get_service_quota

    def get_service_quota(
        backend: ServiceQuotasBackend, service_code: str, quota_code: str
    ) -> dict[str, Any]:
        name = _NAMES.get(quota_code) if service_code == QUOTA_SERVICE else None
        if name is None:
            return original(backend, service_code, quota_code)
        return {
            "ServiceCode": service_code,
            "QuotaCode": quota_code,
            "QuotaName": name,
            "Value": float(faults.quota.get(name, DEFAULT_VCPUS)),
            "Adjustable": True,
            "GlobalQuota": False,
        }

    return _replace(ServiceQuotasBackend, get_service_quota)


def answer_caller(account: Account) -> Callable[[], None]:
    """STS names the cluster's first administrator as the caller, until what this returns is called.

    A rehearsal has no credentials of its own, and takes the person who rehearses for that one.
    """
    from moto.sts.models import STSBackend

    original = STSBackend.get_caller_identity

    def get_caller_identity(
        backend: STSBackend, access_key_id: str, region: str
    ) -> tuple[str, str, str]:
        found = original(backend, access_key_id, region)
        admins = _admins(account) if found[1].endswith(":user/moto") else []
        if not admins:
            return found
        arn = admins[0]
        number = arn.split(":")[4]
        if ":role/" in arn:
            arn = f"arn:aws:sts::{number}:assumed-role/{role_name(arn)}/rehearsal"
        return "AIDAREHEARSAL", arn, number

    return _replace(STSBackend, get_caller_identity)


def _replace(backend: type, method: Callable[..., object]) -> Callable[[], None]:
    """Puts a method in place of the class's own; returns what puts that back."""
    name, original = method.__name__, getattr(backend, method.__name__)
    setattr(backend, name, method)
    return lambda: setattr(backend, name, original)


def _admins(account: Account) -> list[str]:
    with account.lock:
        return [
            principal
            for parts in account.clusters.values()
            for principal, entry in parts.entries.items()
            if entry["type"] == "STANDARD"
        ]
