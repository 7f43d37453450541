"""Config keys that had another name in 0.1.0, or have another one on another platform.

An old name is refused with the new one. A state of 0.1.0 is compared under the new names.
"""

from collections.abc import Mapping
from typing import Final

RENAMED: Final[Mapping[str, str]] = {
    "capacity": "capacityType",
    "gpuCheck": "gpuTest",
    "gpus": "nominalQuota",
    "host": "pcie",
    "matrix": "matmul",
    "replaceOrder": "deleteBeforeReplace",
    "round": "generation",
    "secretsKey": "secretsEncryptionKey",
}
"""Old key -> new key, unless the old key is still valid."""


COUNTERPARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "accelerator": ("instanceTypes", "machineType"),
    "amiType": ("osImage",),
    "capacityType": ("spot",),
    "cidr": ("nodesCidr",),
    "desiredNodes": ("minNodes",),
    "gpus": ("gpusPerNode",),
    "instanceType": ("instanceTypes", "machineType", "accelerator"),
    "instanceTypes": ("machineType", "accelerator"),
    "labels": ("tags",),
    "machineType": ("instanceTypes", "accelerator"),
    "maxUnavailable": ("upgrade",),
    "networkTags": ("securityGroupIds",),
    "nodesCidr": ("cidr",),
    "os": ("osImage",),
    "osImage": ("os",),
    "queuedProvisioning": ("queued",),
    "region": ("location",),
    "securityGroupIds": ("networkTags",),
    "spot": ("capacityType",),
    "subnetIds": ("subnetwork",),
    "subnetwork": ("subnetIds",),
    "tags": ("labels",),
    "upgrade": ("maxUnavailable",),
}
"""Key of one platform, or of a cloud's own API -> its names on others, the best match first."""


def present(path: str) -> str:
    """A setting's path, such as `cluster.secretsKey`, with its key's current name."""
    head, dot, key = path.rpartition(".")
    return f"{head}{dot}{RENAMED.get(key, key)}"
