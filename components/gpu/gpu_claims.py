"""The devices of a pod: a resource in its limits, or ResourceClaims on pools with a DRA driver.

It loads no SDK of Pulumi, which users who submit jobs do not have.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..cluster import Fabric, GpuPool

GPUS, NETWORK = "gpus", "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Devices of one node, of which each pod has its own by a ResourceClaimTemplate, or which pods
    share by a ResourceClaim."""

    noun: str
    """Its name in the pod, which containers name in `resources.claims`."""
    name: str
    """The name of the object. Neither kind can be changed, so other devices have another name."""
    device_class: str | None
    count: int
    selectors: Sequence[str] = ()
    """Conditions for each device, in CEL."""
    shared: bool = False

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return "ResourceClaim" if self.shared else "ResourceClaimTemplate"

    @property
    def spec(self) -> dict[str, Any]:
        """The object's spec, as the API spells it."""
        devices: dict[str, Any] = {
            "deviceClassName": self.device_class,
            "allocationMode": "ExactCount",
            "count": self.count,
        }
        if self.selectors:
            devices["selectors"] = [{"cel": {"expression": text}} for text in self.selectors]
        spec = {"devices": {"requests": [{"name": self.noun, "exactly": devices}]}}
        return spec if self.shared else {"spec": spec}

    @property
    def entry(self) -> dict[str, str]:
        """Its entry in the `resourceClaims` of a pod."""
        key = "resourceClaimName" if self.shared else "resourceClaimTemplateName"
        return {"name": self.noun, key: self.name}


def limits(pool: GpuPool, gpus: int) -> dict[str, str]:
    """The GPUs in the limits of a container: Kubernetes copies the request from there."""
    return {pool.resource: str(gpus)} if gpus and pool.device_class is None else {}


def claims(
    name: str,
    pool: GpuPool,
    gpus: int,
    *,
    selectors: Sequence[str] = (),
    shared: bool = False,
    fabric: Fabric | None = None,
) -> Iterator[Claim]:
    """The claims of the pods of the workload `name`: for all adapters of their node, if their
    `fabric` has adapters to claim, and for their GPUs, if pods of the pool claim these."""
    if fabric and fabric.claimed:
        yield Claim(noun=NETWORK, name=name, device_class=fabric.resource, count=fabric.claimed)
    if gpus and pool.device_class:
        digest = hashlib.sha256("\n".join(selectors).encode()).hexdigest()[:6]
        yield Claim(
            noun=GPUS,
            name=f"{name}-gpus-{gpus}{f'-{digest}' if selectors else ''}",
            device_class=pool.device_class,
            count=gpus,
            selectors=selectors,
            shared=shared,
        )


def of_container(claimed: Sequence[Claim]) -> list[dict[str, str]]:
    """The `resources.claims` of a container that has all devices of its pod."""
    return [{"name": claim.noun} for claim in claimed]
