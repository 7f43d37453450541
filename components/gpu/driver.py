"""The NVIDIA driver installer for GKE nodes on which GKE does not install the driver.

The manifests follow GoogleCloudPlatform/container-engine-accelerators,
nvidia-driver-installer/{cos,ubuntu}/daemonset-preloaded.yaml (read 2026-11-21), restricted to the
pools that need them. The preloaded images exist only on GKE nodes.
"""

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.core.v1 import (
    ContainerArgsDict,
    EnvVarArgsDict,
    NodeSelectorRequirementArgsDict,
    PodSpecArgsDict,
    VolumeArgsDict,
)

from ..catalog import images
from ..catalog import kubernetes as names
from ..cluster import Cluster, GpuPool, Installer
from ..daemon_set import affinity_to, daemon_set
from ..lifecycle.prefix import unique

_COS_DRIVER_DIR = names.GKE_DRIVER_DIRECTORY
_WITHOUT_GKES: Sequence[NodeSelectorRequirementArgsDict] = (
    {"key": names.GKE_ACCELERATOR, "operator": "Exists"},
    {"key": names.GKE_GPU_DRIVER_VERSION, "operator": "DoesNotExist"},
)
"""Selects nodes on which GKE does not install the driver itself."""


class DriverInstaller(pulumi.ComponentResource):
    """One installer DaemonSet for each operating system and image of the pools' nodes."""

    daemon_sets: list[kubernetes.apps.v1.DaemonSet]

    def __init__(
        self, name: str, *, cluster: Cluster, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-cluster:gpu:DriverInstaller", name, None, opts)
        self.daemon_sets = [
            # A new installer running next to the old one would install twice.
            daemon_set(name, _pod(pools), cluster.options(self, delete_before_replace=True))
            for name, pools in _by_daemon_set(cluster.pools).items()
        ]
        self.register_outputs({})


def _by_daemon_set(pools: Mapping[str, GpuPool]) -> dict[str, list[GpuPool]]:
    grouped: dict[str, list[GpuPool]] = {}
    for pool in pools.values():
        if pool.installer:
            suffix = f"-{pool.name}" if pool.installer_image or pool.installer_version else ""
            name = unique(f"nvidia-driver-installer-{pool.installer}{suffix}")
            grouped.setdefault(name, []).append(pool)
    return grouped


def _pod(pools: Sequence[GpuPool]) -> PodSpecArgsDict:
    image, version = pools[0].installer_image, pools[0].installer_version
    pod = _cos_pod(image) if _installer(pools) == "cos" else _ubuntu_pod(image, version)
    affinity = affinity_to((pool.node_selector for pool in pools), _WITHOUT_GKES)
    return {**pod, "affinity": affinity}


def _installer(pools: Sequence[GpuPool]) -> Installer:
    (installer,) = {pool.installer for pool in pools if pool.installer}
    return installer


def _cos_pod(image: str | None) -> PodSpecArgsDict:
    return {
        "host_network": True,
        "host_pid": True,
        "volumes": [
            _host_path("dev", "/dev"),
            _host_path("vulkan-icd-mount", f"{_COS_DRIVER_DIR}/vulkan/icd.d"),
            _host_path("nvidia-install-dir-host", _COS_DRIVER_DIR),
            _host_path("root-mount", "/"),
            _host_path("cos-tools", "/var/lib/cos-tools"),
            _host_path("nvidia-config", "/etc/nvidia"),
        ],
        "init_containers": [
            {
                **_installer_container(image, images.COS_INSTALLER),
                "env": _env(
                    NVIDIA_INSTALL_DIR_HOST=_COS_DRIVER_DIR,
                    NVIDIA_INSTALL_DIR_CONTAINER="/usr/local/nvidia",
                    VULKAN_ICD_DIR_HOST=f"{_COS_DRIVER_DIR}/vulkan/icd.d",
                    VULKAN_ICD_DIR_CONTAINER="/etc/vulkan/icd.d",
                    ROOT_MOUNT_DIR="/root",
                    COS_TOOLS_DIR_HOST="/var/lib/cos-tools",
                    COS_TOOLS_DIR_CONTAINER="/build/cos-tools",
                ),
                "volume_mounts": [
                    {"name": "nvidia-install-dir-host", "mount_path": "/usr/local/nvidia"},
                    {"name": "vulkan-icd-mount", "mount_path": "/etc/vulkan/icd.d"},
                    {"name": "dev", "mount_path": "/dev"},
                    {"name": "root-mount", "mount_path": "/root"},
                    {"name": "cos-tools", "mount_path": "/build/cos-tools"},
                ],
                "command": ["bash", "-c"],
                # After a restart of the pod, the module is already loaded.
                "args": ["grep -q '^nvidia ' /proc/modules || /cos-gpu-installer install"],
            },
            {
                "name": "partition-gpus",
                "image": images.PARTITION_GPUS.reference,
                "env": _env(LD_LIBRARY_PATH="/usr/local/nvidia/lib64"),
                "resources": {"requests": {"cpu": "150m"}},
                "security_context": {"privileged": True},
                "volume_mounts": [
                    {"name": "nvidia-install-dir-host", "mount_path": "/usr/local/nvidia"},
                    {"name": "dev", "mount_path": "/dev"},
                    {"name": "nvidia-config", "mount_path": "/etc/nvidia"},
                ],
            },
        ],
        "containers": [_pause()],
    }


def _ubuntu_pod(image: str | None, version: str | None) -> PodSpecArgsDict:
    installer: ContainerArgsDict = {
        **_installer_container(image, images.UBUNTU_INSTALLER),
        "volume_mounts": [
            {"name": "boot", "mount_path": "/boot"},
            {"name": "dev", "mount_path": "/dev"},
            {"name": "root-mount", "mount_path": "/root"},
        ],
    }
    if version:
        installer["env"] = _env(NVIDIA_DRIVER_VERSION=version)
    return {
        "volumes": [
            _host_path("dev", "/dev"),
            _host_path("boot", "/boot"),
            _host_path("root-mount", "/"),
        ],
        "init_containers": [installer],
        "containers": [_pause()],
    }


def _installer_container(own: str | None, preloaded: images.Image) -> ContainerArgsDict:
    return {
        "name": "nvidia-driver-installer",
        "image": own or preloaded.reference,
        # GKE preloads its own image on the node; no registry has it.
        "image_pull_policy": "IfNotPresent" if own else "Never",
        "resources": {"requests": {"cpu": "150m"}},
        "security_context": {"privileged": True},
    }


def _pause() -> ContainerArgsDict:
    return {"name": "pause", "image": images.PAUSE.reference}


def _env(**variables: str) -> list[EnvVarArgsDict]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def _host_path(name: str, path: str) -> VolumeArgsDict:
    return {"name": name, "host_path": {"path": path}}
