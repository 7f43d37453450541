"""The pods of the DCGM exporter: their nodes, host paths and permissions.

They follow NVIDIA/dcgm-exporter 4.5.3-4.8.2, dcgm-exporter.yaml, which tolerates no taint, and for
GKE, whose nodes have no NVIDIA runtime, Google's
cloud.google.com/stackdriver/docs/managed-prometheus/exporters/nvidia-dcgm (both read 2026-11-21).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pulumi_kubernetes.apps.v1 import DaemonSetSpecArgsDict
from pulumi_kubernetes.core.v1 import (
    EnvVarArgsDict,
    SecurityContextArgsDict,
    VolumeArgsDict,
    VolumeMountArgsDict,
)

from ..catalog import images
from ..catalog import kubernetes as names
from ..cluster import GPU_RESOURCE, Cluster, GpuPool, Toleration
from ..daemon_set import affinity_to
from .monitoring_args import MonitoringArgs

NAME = "dcgm-exporter"
PORT = 9400
LABELS = {"app.kubernetes.io/name": NAME}
"""The labels of every exporter's pod, whichever DaemonSet it belongs to."""

_COUNTERS_DIR = "/etc/gpu-cluster"
_POD_RESOURCES = "/var/lib/kubelet/pod-resources"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Pools whose nodes need the same exporter, in one DaemonSet."""

    runtime_class: str | None
    driver_directory: str | None
    gke_plugin: bool
    """Whether GKE's device plugin runs, which reports `nvidia0` to the kubelet instead of the GPU's
    UUID; the exporter matches pods with GPUs by it (dcgm-exporter issues 27 and 85)."""
    shared: bool
    pools: Sequence[GpuPool]

    @property
    def name(self) -> str:
        """A fixed name, without suffix for whole GPUs with NVIDIA's plugin and runtime."""
        parts = [
            NAME,
            "gke" if self.gke_plugin else "",
            self.runtime_class or "",
            "shared" if self.shared else "",
        ]
        return "-".join(part for part in parts if part)


def groups(cluster: Cluster) -> list[Group]:
    """The pools grouped by their requirements; on most clusters, one group."""
    grouped: dict[tuple[str | None, str | None, bool, bool], list[GpuPool]] = {}
    for pool in cluster.pools.values():
        gke_plugin = not (pool.nvidia_runtime or pool.device_plugin or pool.device_class)
        shared = pool.sharing is not None and pool.sharing.replicas > 1
        key = (pool.runtime_class, pool.driver_directory, gke_plugin, shared)
        grouped.setdefault(key, []).append(pool)
    return [
        Group(
            runtime_class=runtime_class,
            driver_directory=directory,
            gke_plugin=gke_plugin,
            shared=shared,
            pools=pools,
        )
        for (runtime_class, directory, gke_plugin, shared), pools in grouped.items()
    ]


def spec(group: Group, args: MonitoringArgs, counters: str) -> DaemonSetSpecArgsDict:
    """The DaemonSet of a group; `counters` is the file that its pods read from the ConfigMap."""
    labels = {**LABELS, "app.kubernetes.io/instance": group.name}
    volumes, mounts = _volumes(group)
    return {
        "selector": {"match_labels": labels},
        "update_strategy": {"type": "RollingUpdate"},
        "template": {
            "metadata": {
                "labels": labels,
                # The exporter reads the file only once, so another file needs new pods.
                "annotations": {
                    "gpu-cluster/counters": hashlib.sha256(counters.encode()).hexdigest()
                },
            },
            "spec": {
                "runtime_class_name": group.runtime_class,
                "affinity": affinity_to(pool.node_selector for pool in group.pools),
                "tolerations": [toleration.manifest() for toleration in _tolerations(group.pools)],
                "automount_service_account_token": False,
                "containers": [
                    {
                        "name": NAME,
                        "image": images.DCGM_EXPORTER.reference,
                        "env": [
                            *_env(group, args),
                            # Otherwise, Hostname is the pod's.
                            {
                                "name": "NODE_NAME",
                                "value_from": {"field_ref": {"field_path": "spec.nodeName"}},
                            },
                        ],
                        "ports": [{"name": "metrics", "container_port": PORT}],
                        "readiness_probe": {"http_get": {"path": "/health", "port": "metrics"}},
                        "resources": {
                            "requests": {"cpu": "100m", "memory": "128Mi"},
                            "limits": {"memory": "512Mi"},
                        },
                        "security_context": _security(group),
                        "volume_mounts": mounts,
                    }
                ],
                "volumes": volumes,
            },
        },
    }


def _env(group: Group, args: MonitoringArgs) -> list[EnvVarArgsDict]:
    variables: Mapping[str, str] = {
        "DCGM_EXPORTER_LISTEN": f":{PORT}",
        "DCGM_EXPORTER_KUBERNETES": "true",
        "DCGM_EXPORTER_COLLECTORS": f"{_COUNTERS_DIR}/counters.csv",
        "DCGM_EXPORTER_INTERVAL": str(args.interval_seconds * 1000),
        **({"DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE": "device-name"} if group.gke_plugin else {}),
        **({"KUBERNETES_VIRTUAL_GPUS": "true"} if group.shared else {}),
        **({"LD_LIBRARY_PATH": names.DRIVER_SEARCH_PATH} if group.driver_directory else {}),
    }
    return [{"name": name, "value": value} for name, value in variables.items()]


def _security(group: Group) -> SecurityContextArgsDict:
    if group.driver_directory is not None:
        # These nodes have no NVIDIA runtime that would provide the devices.
        return {"privileged": True}
    return {
        "run_as_user": 0,
        "run_as_non_root": False,
        "allow_privilege_escalation": False,
        # For DCGM_FI_PROF_*, and to get the GPUs at all on Bottlerocket.
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
    }


def _volumes(group: Group) -> tuple[list[VolumeArgsDict], list[VolumeMountArgsDict]]:
    volumes: list[VolumeArgsDict] = [
        {"name": "pod-resources", "host_path": {"path": _POD_RESOURCES}},
        {"name": "counters", "config_map": {"name": NAME}},
    ]
    mounts: list[VolumeMountArgsDict] = [
        {"name": "pod-resources", "mount_path": _POD_RESOURCES, "read_only": True},
        {"name": "counters", "mount_path": _COUNTERS_DIR, "read_only": True},
    ]
    if group.driver_directory is not None:
        volumes.append({"name": "driver", "host_path": {"path": group.driver_directory}})
        mounts.append({"name": "driver", "mount_path": names.DRIVER_MOUNT, "read_only": True})
    return volumes, mounts


def _tolerations(pools: Sequence[GpuPool]) -> list[Toleration]:
    every_gpu = Toleration(key=GPU_RESOURCE)
    others = [taint for pool in pools for taint in pool.tolerations if taint.key != GPU_RESOURCE]
    return list(dict.fromkeys([every_gpu, *others]))
