"""EC2's vCPU quotas as Service Quotas shows them, which moto does not have."""

from collections.abc import Callable
from typing import Any

from components.catalog.eks import QUOTA_CODES, QUOTA_SERVICE
from plugins.faults import Faults
from simulators.aws.instances import DEFAULT_VCPUS

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

    def forget() -> None:
        ServiceQuotasBackend.get_service_quota = original  # type: ignore[method-assign]

    ServiceQuotasBackend.get_service_quota = get_service_quota  # type: ignore[method-assign, assignment]
    return forget
