"""Config keys that had another name in 0.1.0, or have another one on another platform.

The old name is refused with the new one. What a state of 0.1.0 remembers of a setting is compared
under the new name.
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
"""Old key -> new key, wherever the old one is no key any more."""


COUNTERPARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "accelerator": ("instanceTypes", "machineType"),
    "amiType": ("osImage",),
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
    "region": ("location",),
    "securityGroupIds": ("networkTags",),
    "spot": ("capacityType",),
    "subnetIds": ("subnetwork",),
    "subnetwork": ("subnetIds",),
    "tags": ("labels",),
    "upgrade": ("maxUnavailable",),
}
"""Key of one platform, or of a cloud's own API -> what others call it, the best first."""


def present(path: str) -> str:
    """A setting's path, such as `cluster.secretsKey`, by the name that its key has now."""
    head, dot, key = path.rpartition(".")
    return f"{head}{dot}{RENAMED.get(key, key)}"
