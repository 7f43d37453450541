"""Shared GPUs with NVIDIA's device plugin: its config, and the parts of MPS on the node.

From README and chart of NVIDIA/k8s-device-plugin, version `images.DEVICE_PLUGIN` (2026-11-21).
"""

import json

from pulumi_kubernetes.core.v1 import ContainerArgsDict, VolumeArgsDict, VolumeMountArgsDict

from ..catalog import images
from ..cluster import GPU_RESOURCE, Sharing

MPS_ROOT = "/run/nvidia/mps"
_CONFIG_DIR = "/etc/nvidia-device-plugin"
CONFIG_FILE = f"{_CONFIG_DIR}/config.yaml"
_BLOCKS = {"time-slicing": "timeSlicing", "mps": "mps"}


def plugin_config(sharing: Sharing | None) -> str | None:
    """The plugin's config file, in JSON as YAML; None if every pod gets a whole device."""
    if sharing is None or sharing.replicas < 2:
        return None
    # MIG's strategy does not define sharing; its partitions are then time-sliced.
    block = _BLOCKS.get(sharing.strategy, "timeSlicing")
    config = {
        "version": "v1",
        "sharing": {
            block: {
                "renameByDefault": False,
                # Two shares may be of the same GPU, so requesting two would not provide more.
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": GPU_RESOURCE, "replicas": sharing.replicas}],
            }
        },
    }
    return json.dumps(config, sort_keys=True)


def config_volume(config_map: str) -> VolumeArgsDict:
    """The volume with the plugin's config."""
    return {"name": "config", "config_map": {"name": config_map}}


CONFIG_MOUNT: VolumeMountArgsDict = {"name": "config", "mount_path": _CONFIG_DIR, "read_only": True}


def mps_volumes() -> list[VolumeArgsDict]:
    """Volumes for the control daemon's pipes and the memory that it shares with clients."""
    return [
        {"name": "mps-root", "host_path": {"path": MPS_ROOT, "type": "DirectoryOrCreate"}},
        {"name": "mps-shm", "host_path": {"path": f"{MPS_ROOT}/shm"}},
    ]


def mps_mounts() -> list[VolumeMountArgsDict]:
    """The paths at which the daemon and the plugin expect these volumes."""
    return [
        {"name": "mps-root", "mount_path": "/mps"},
        {"name": "mps-shm", "mount_path": "/dev/shm"},
    ]


def mps_shared_memory() -> ContainerArgsDict:
    """Mounts the shared memory on the node once, which requires a privileged container."""
    return {
        "name": "shared-memory",
        "image": images.DEVICE_PLUGIN.reference,
        "command": ["mps-control-daemon", "mount-shm"],
        "security_context": {"privileged": True},
        "volume_mounts": [
            {"name": "mps-root", "mount_path": "/mps", "mount_propagation": "Bidirectional"}
        ],
    }


def mps_control_daemon() -> ContainerArgsDict:
    """The daemon that all clients of a GPU go through."""
    return {
        "name": "mps-control-daemon",
        "image": images.DEVICE_PLUGIN.reference,
        "command": ["mps-control-daemon"],
        "env": [
            {"name": "NODE_NAME", "value_from": {"field_ref": {"field_path": "spec.nodeName"}}},
            {"name": "CONFIG_FILE", "value": CONFIG_FILE},
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
        ],
        "security_context": {"privileged": True},
        "volume_mounts": [*mps_mounts(), CONFIG_MOUNT],
    }
