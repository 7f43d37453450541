"""The GPUs of a pod: a resource in its limits, or a ResourceClaim on pools with a DRA driver.

It loads no SDK of Pulumi, which users who submit jobs do not have.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from ..cluster import GpuPool

CLAIM = "gpus"


def limits(pool: GpuPool, gpus: int) -> dict[str, str]:
    """The GPUs in the limits of a container: Kubernetes copies the request from there."""
    return {pool.resource: str(gpus)} if gpus and pool.device_class is None else {}


def template_name(name: str, pool: GpuPool, gpus: int, selectors: Sequence[str] = ()) -> str | None:
    """The name of the ResourceClaimTemplate of a workload's pods; None if they claim no GPUs. A
    template cannot be changed, so other GPUs have another name. `selectors`: conditions in CEL."""
    if not gpus or pool.device_class is None:
        return None
    digest = hashlib.sha256("\n".join(selectors).encode()).hexdigest()[:6]
    return f"{name}-gpus-{gpus}" + (f"-{digest}" if selectors else "")


def template(pool: GpuPool, gpus: int, selectors: Sequence[str] = ()) -> dict[str, Any]:
    """The spec of the template: all GPUs of a claim are of one node."""
    devices: dict[str, Any] = {
        "deviceClassName": pool.device_class,
        "allocationMode": "ExactCount",
        "count": gpus,
    }
    if selectors:
        devices["selectors"] = [{"cel": {"expression": text}} for text in selectors]
    return {"spec": {"devices": {"requests": [{"name": CLAIM, "exactly": devices}]}}}


def claims(template: str) -> list[dict[str, str]]:
    """The `resourceClaims` of a pod; containers name them in `resources.claims`."""
    return [{"name": CLAIM, "resourceClaimTemplateName": template}]
