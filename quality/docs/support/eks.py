"""EKS in the support matrix."""

from gpu_cluster.components.catalog.eks import INSTANCE_TYPES

_T4 = {"instanceTypes": ["g4dn.xlarge"]}
_A10G = {"instanceTypes": ["g5.xlarge"]}
_BOTTLEROCKET = {"os": "bottlerocket"}
_DRIVER = "AWS: it is in the image"

DRIVERS = (
    ("AL2023 NVIDIA", _DRIVER, _T4),
    ("AL2023 NVIDIA", f"{_DRIVER}, with `devicePlugin: dra`", {**_T4, "devicePlugin": "dra"}),
    ("AL2023 NVIDIA", f"{_DRIVER}, with `devicePlugin: none`", {**_T4, "devicePlugin": "none"}),
    ("Bottlerocket NVIDIA", _DRIVER, _T4 | _BOTTLEROCKET),
)
SHARING = (("AL2023", _A10G), ("Bottlerocket", _A10G | _BOTTLEROCKET))
PLUGIN = "Bottlerocket, as a service of the host"
LOCATED = [name for name, row in INSTANCE_TYPES.items() if row.located]
