"""GKE Standard in the support matrix."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.components.catalog.gke_machines import MACHINE_TYPES

_T4: Mapping[str, Any] = {"machineType": "n1-standard-4", "accelerator": "nvidia-tesla-t4"}
_IMAGES = ("COS", "Ubuntu")
_OWNERS = {
    "managed": "GKE, `driver: managed` (default)",
    "daemonset": "this stack's DaemonSet, `driver: daemonset`",
    "none": "somebody else, `driver: none`",
}

DRIVERS = (
    *(
        (image, _OWNERS[driver], {**_T4, "osImage": image.lower(), "driver": driver})
        for driver in ("managed", "daemonset")
        for image in _IMAGES
    ),
    # NVIDIA's own page for its components over Google's driver has both images:
    # docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html, 2025-09-10.
    *(
        (image, f"{_OWNERS[driver]}, with `devicePlugin: {plugin}`",
         {**_T4, "osImage": image.lower(), "driver": driver, "devicePlugin": plugin})
        for plugin in ("nvidia", "dra", "none", "gke")
        for driver in ("daemonset", "none")
        for image in _IMAGES
        if (plugin, driver) != ("gke", "daemonset") and (plugin, image) != ("dra", "Ubuntu")
    ),
)  # fmt: skip
SHARING = (("", {"machineType": "a2-highgpu-1g"}),)
PLUGIN = "GKE"
LOCATED = [name for name, row in MACHINE_TYPES.items() if row.located and not row.uncertain]
