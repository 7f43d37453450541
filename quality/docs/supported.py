"""What of each platform the support matrix shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_cluster.components.catalog.eks import INSTANCE_TYPES
from gpu_cluster.components.catalog.gke_machines import MACHINE_TYPES

_OWNERS = {
    "managed": "GKE, `driver: managed` (default)",
    "daemonset": "this stack's DaemonSet, `driver: daemonset`",
    "none": "somebody else, `driver: none`",
}
_T4: Mapping[str, Any] = {"machineType": "n1-standard-4", "accelerator": "nvidia-tesla-t4"}
_G4DN, _G5 = {"instanceTypes": ["g4dn.xlarge"]}, {"instanceTypes": ["g5.xlarge"]}
_BOTTLEROCKET = {"os": "bottlerocket"}
_IN_IMAGE = "AWS: it is in the image"
_OWN = {"nodeSelector": {"gpus": "true"}, "gpusPerNode": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Supported:
    """A platform's rows on the page."""

    drivers: Sequence[tuple[str, str, Mapping[str, Any]]]
    """Node image, who installs the driver, and the settings of such a pool."""
    sharing: Sequence[tuple[str, Mapping[str, Any]]]
    """Kind of nodes, if there are several, and the settings of a pool whose GPUs can be shared."""
    plugin: str = ""
    """Who runs the device plugin if neither this stack nor somebody else does."""
    located: Sequence[str] = ()
    """The machine types whose zones the catalog has."""


SUPPORTED: Mapping[str, Supported] = {
    "gke": Supported(
        drivers=(
            *(
                (image, _OWNERS[driver], {**_T4, "osImage": image.lower(), "driver": driver})
                for driver in ("managed", "daemonset")
                for image in ("COS", "Ubuntu")
            ),
            # NVIDIA's own page for its components over Google's driver has both images:
            # docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html,
            # 2025-09-10.
            *(
                (image, f"{_OWNERS[driver]}, with `devicePlugin: {plugin}`",
                 {**_T4, "osImage": image.lower(), "driver": driver, "devicePlugin": plugin})
                for plugin in ("nvidia", "dra", "none", "gke")
                for driver in ("daemonset", "none")
                for image in ("COS", "Ubuntu")
                if (plugin, driver) != ("gke", "daemonset") and (plugin, image) != ("dra", "Ubuntu")
            ),
        ),
        sharing=(("", {"machineType": "a2-highgpu-1g"}),),
        plugin="GKE",
        located=[n for n, row in MACHINE_TYPES.items() if row.located and not row.uncertain],
    ),
    "gke-autopilot": Supported(
        drivers=(("GKE's choice", "GKE", {"accelerator": "nvidia-tesla-t4"}),),
        sharing=(("", {"accelerator": "nvidia-tesla-a100"}),),
        plugin="GKE",
    ),
    "eks": Supported(
        drivers=(
            ("AL2023 NVIDIA", _IN_IMAGE, _G4DN),
            *(
                ("AL2023 NVIDIA", f"{_IN_IMAGE}, with `devicePlugin: {plugin}`",
                 {**_G4DN, "devicePlugin": plugin})
                for plugin in ("dra", "none")
            ),
            ("Bottlerocket NVIDIA", _IN_IMAGE, _G4DN | _BOTTLEROCKET),
        ),
        sharing=(("AL2023", _G5), ("Bottlerocket", _G5 | _BOTTLEROCKET)),
        plugin="Bottlerocket, as a service of the host",
        located=[name for name, row in INSTANCE_TYPES.items() if row.located],
    ),
    "existing": Supported(
        drivers=(
            ("any", "you, on the host", _OWN),
            *(
                ("any", f"you, on the host, with `devicePlugin: {plugin}`",
                 {**_OWN, "devicePlugin": plugin})
                for plugin in ("dra", "none")
            ),
        ),
        sharing=(("", _OWN),),
    ),
}  # fmt: skip
"""Platform -> its rows; a platform without any has those of another one."""
