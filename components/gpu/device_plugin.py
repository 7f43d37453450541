"""NVIDIA's device plugin, on the pools where nobody else runs one.

The manifest follows NVIDIA/k8s-device-plugin 0.20.0, deployments/static/nvidia-device-plugin.yml,
and for MIG and sharing its chart and README (read 2026-11-21), narrowed to the pools that asked.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.apps.v1 import DaemonSetSpecArgsDict
from pulumi_kubernetes.core.v1 import (
    AffinityArgsDict,
    EnvVarArgsDict,
    SecurityContextArgsDict,
    VolumeArgsDict,
    VolumeMountArgsDict,
)

from components.catalog import images
from components.catalog import kubernetes as names
from components.cluster import Cluster, GpuPool, Platform, Toleration

NAMESPACE = "kube-system"
_NAME = "nvidia-device-plugin"
_SOCKETS = "/var/lib/kubelet/device-plugins"
_CONFIG_DIR = "/etc/nvidia-device-plugin"
_GKE_DRIVER_DIR = "/home/kubernetes/bin/nvidia"
_CRITICAL_ADDON = Toleration(key="CriticalAddonsOnly")


class DevicePlugin(pulumi.ComponentResource):
    """One DaemonSet for the pools with whole GPUs, and one for each pool that shares its GPUs.

    The names are fixed, and a pool's sharing is its own DaemonSet's config: changing the number of
    replicas replaces a pod on its node, and never puts a second plugin beside it.
    """

    daemon_sets: list[kubernetes.apps.v1.DaemonSet]

    def __init__(
        self, name: str, *, cluster: Cluster, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-cluster:gpu:DevicePlugin", name, None, opts)
        self.daemon_sets = []
        for group in _groups(cluster.pools):
            config = self._config(group, cluster)
            self.daemon_sets.append(
                kubernetes.apps.v1.DaemonSet(
                    group.name,
                    metadata={
                        "name": group.name,
                        "namespace": NAMESPACE,
                        "labels": {"app.kubernetes.io/name": group.name},
                        # On a pool at zero it is ready at once; on nodes that are coming up it
                        # waits for their driver, which takes longer than 10 minutes.
                        "annotations": {"pulumi.com/timeoutSeconds": "1800"},
                    },
                    spec=_spec(group, cluster.platform),
                    opts=cluster.options(
                        self,
                        # Two plugins for one resource on a node disagree about who has which GPU.
                        delete_before_replace=True,
                        # A pool that begins to share leaves the common DaemonSet first.
                        depends_on=[*config, *self.daemon_sets[:1]],
                    ),
                )
            )
        self.register_outputs({})

    def _config(self, group: "_Group", cluster: Cluster) -> list[pulumi.Resource]:
        if group.config is None:
            return []
        return [
            kubernetes.core.v1.ConfigMap(
                group.name,
                metadata={"name": group.name, "namespace": NAMESPACE},
                data={"config.yaml": group.config},
                opts=cluster.options(self, delete_before_replace=True),
            )
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Pools that one DaemonSet serves: they need the same plugin, and the same of their nodes."""

    name: str
    pools: Sequence[GpuPool]

    @property
    def runtime_class(self) -> str | None:
        return self.pools[0].runtime_class

    @property
    def mig(self) -> bool:
        sharing = self.pools[0].sharing
        return sharing is not None and sharing.partition is not None

    @property
    def config(self) -> str | None:
        """The plugin's config file; JSON is YAML."""
        sharing = self.pools[0].sharing
        if sharing is None or sharing.replicas < 2:
            return None
        if sharing.strategy == "mps":
            raise ValueError(
                f"pool {self.pools[0].name}: MPS needs a control daemon on the node, which this "
                "stack does not run"
            )
        return json.dumps(
            {
                "version": "v1",
                "sharing": {
                    "timeSlicing": {
                        "renameByDefault": False,
                        # Two shares may be of one GPU: whoever asks for two would not get more.
                        "failRequestsGreaterThanOne": True,
                        "resources": [{"name": names.GPU_RESOURCE, "replicas": sharing.replicas}],
                    }
                },
            },
            sort_keys=True,
        )


def _groups(pools: Mapping[str, GpuPool]) -> list[_Group]:
    """Those with whole GPUs first, by runtime class; then each pool that shares its GPUs."""
    served = [pool for pool in pools.values() if pool.device_plugin]
    whole: dict[str, list[GpuPool]] = {}
    for pool in served:
        if pool.sharing is None:
            suffix = f"-{pool.runtime_class}" if pool.runtime_class else ""
            whole.setdefault(f"{_NAME}{suffix}", []).append(pool)
    return [_Group(name=name, pools=group) for name, group in whole.items()] + [
        _Group(name=f"{_NAME}-on-{pool.name}", pools=[pool]) for pool in served if pool.sharing
    ]


def _spec(group: _Group, platform: Platform) -> DaemonSetSpecArgsDict:
    labels = {"name": group.name}
    volumes, mounts = _volumes(group, platform)
    return {
        "selector": {"match_labels": labels},
        "update_strategy": {"type": "RollingUpdate"},
        "template": {
            # The plugin reads its config once: another one needs another pod.
            "metadata": {"labels": labels, "annotations": _checksum(group)},
            "spec": {
                "priority_class_name": "system-node-critical",
                "runtime_class_name": group.runtime_class,
                "affinity": _on_nodes_of(group.pools),
                "tolerations": [toleration.manifest() for toleration in _tolerations(group.pools)],
                "automount_service_account_token": False,
                "containers": [
                    {
                        "name": _NAME,
                        "image": images.DEVICE_PLUGIN.reference,
                        "env": _env(group, platform),
                        "security_context": _security(group, platform),
                        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
                        "volume_mounts": mounts,
                    }
                ],
                "volumes": volumes,
            },
        },
    }


def _checksum(group: _Group) -> dict[str, str]:
    if group.config is None:
        return {}
    return {"gpu-cluster/config": hashlib.sha256(group.config.encode()).hexdigest()}


def _env(group: _Group, platform: Platform) -> list[EnvVarArgsDict]:
    variables: dict[str, str] = {}
    if group.config is not None:
        variables["CONFIG_FILE"] = f"{_CONFIG_DIR}/config.yaml"
    if group.mig:
        # All partitions of a node are alike, so that they are plain `nvidia.com/gpu` to pods.
        variables |= {"MIG_STRATEGY": "single", "NVIDIA_MIG_MONITOR_DEVICES": "all"}
    if platform == "gke":
        variables |= {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64", "PASS_DEVICE_SPECS": "true"}
    return [{"name": name, "value": value} for name, value in variables.items()]


def _security(group: _Group, platform: Platform) -> SecurityContextArgsDict:
    if platform == "gke":
        # GKE's nodes have no NVIDIA runtime that would give the plugin its devices.
        return {"privileged": True}
    if group.mig:
        return {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}
    return {"allow_privilege_escalation": False, "capabilities": {"drop": ["ALL"]}}


def _volumes(
    group: _Group, platform: Platform
) -> tuple[list[VolumeArgsDict], list[VolumeMountArgsDict]]:
    volumes: list[VolumeArgsDict] = [
        {"name": "kubelet-device-plugins", "host_path": {"path": _SOCKETS, "type": "Directory"}}
    ]
    mounts: list[VolumeMountArgsDict] = [{"name": "kubelet-device-plugins", "mount_path": _SOCKETS}]
    if platform == "gke":
        volumes.append({"name": "driver", "host_path": {"path": _GKE_DRIVER_DIR}})
        mounts.append({"name": "driver", "mount_path": "/usr/local/nvidia", "read_only": True})
    if group.config is not None:
        volumes.append({"name": "config", "config_map": {"name": group.name}})
        mounts.append({"name": "config", "mount_path": _CONFIG_DIR, "read_only": True})
    return volumes, mounts


def _tolerations(pools: Sequence[GpuPool]) -> list[Toleration]:
    wanted = [_CRITICAL_ADDON, *(one for pool in pools for one in pool.tolerations)]
    return list(dict.fromkeys(wanted))


def _on_nodes_of(pools: Sequence[GpuPool]) -> AffinityArgsDict:
    """Only where there are GPUs: elsewhere the plugin finds no driver, and crashes for ever."""
    return {
        "node_affinity": {
            "required_during_scheduling_ignored_during_execution": {
                # Terms are alternatives: a node of any of the pools will do.
                "node_selector_terms": [
                    {
                        "match_expressions": [
                            {"key": key, "operator": "In", "values": [value]}
                            for key, value in _labels(pool).items()
                        ]
                    }
                    for pool in pools
                ]
            }
        }
    }


def _labels(pool: GpuPool) -> dict[str, str]:
    # Nodes that somebody else made may do without the label; there, the selector has to do.
    ours = names.GPU_PRESENT in pool.labels
    return {**pool.node_selector, **({names.GPU_PRESENT: "true"} if ours else {})}
