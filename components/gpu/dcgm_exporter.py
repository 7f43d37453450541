"""NVIDIA's DCGM exporter on every GPU node, and what makes a Prometheus read it.

The manifest follows NVIDIA/dcgm-exporter 4.5.3-4.8.2, dcgm-exporter.yaml, which tolerates no taint,
and for GKE, whose nodes have no NVIDIA runtime, Google's cloud.google.com/stackdriver/docs/
managed-prometheus/exporters/nvidia-dcgm (both read 2026-11-21).
"""

import hashlib
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

from components.catalog import gpu_views, images, metrics
from components.cluster import GPU_RESOURCE, Cluster, GpuPool, Platform, Toleration
from components.gpu.monitoring_args import MonitoringArgs

NAMESPACE = "gpu-monitoring-system"
_NAME = "dcgm-exporter"
_PORT = 9400
_COUNTERS_DIR = "/etc/gpu-cluster"
_POD_RESOURCES = "/var/lib/kubelet/pod-resources"
_GKE_DRIVER_DIR = "/home/kubernetes/bin/nvidia"


class DcgmExporter(pulumi.ComponentResource):
    """One DaemonSet for all pools, or one for each way in which their nodes differ."""

    namespace: kubernetes.core.v1.Namespace
    daemon_sets: list[kubernetes.apps.v1.DaemonSet]

    def __init__(
        self,
        name: str,
        args: MonitoringArgs,
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gpu:DcgmExporter", name, None, opts)
        self.namespace = kubernetes.core.v1.Namespace(
            NAMESPACE,
            metadata={
                "name": NAMESPACE,
                # Paths of the host, and more rights than a restricted namespace allows: whoever
                # reads the hardware's counters needs both.
                "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
            },
            opts=cluster.options(self),
        )
        file = metrics.counters(gpu_views.used_metrics())
        counters = kubernetes.core.v1.ConfigMap(
            _NAME,
            metadata={"name": _NAME, "namespace": NAMESPACE},
            data={"counters.csv": file},
            opts=cluster.options(self, delete_before_replace=True, depends_on=[self.namespace]),
        )
        self.daemon_sets = [
            kubernetes.apps.v1.DaemonSet(
                group.name,
                metadata={
                    "name": group.name,
                    "namespace": NAMESPACE,
                    "labels": _LABELS,
                    # Ready at once on a pool at zero; on new nodes, driver and image come first.
                    "annotations": {"pulumi.com/timeoutSeconds": "1800"},
                },
                spec=_spec(group, args, cluster.platform, file),
                # Two exporters on a node report every GPU twice.
                opts=cluster.options(self, delete_before_replace=True, depends_on=[counters]),
            )
            for group in _groups(cluster)
        ]
        if cluster.platform == "gke":
            self._for_google(args, cluster)
        else:
            self._for_prometheus(args, cluster)
        self.register_outputs({})

    def _for_google(self, args: MonitoringArgs, cluster: Cluster) -> None:
        kubernetes.apiextensions.CustomResource(
            _NAME,
            api_version="monitoring.googleapis.com/v1",
            # Not PodMonitoring, which says of every series that its namespace is the exporter's.
            kind="ClusterPodMonitoring",
            metadata={"name": _NAME},
            spec={
                "selector": {"matchLabels": _LABELS},
                "endpoints": [{"port": "metrics", "interval": f"{args.interval_seconds}s"}],
                # None of the exporter's own: namespace, pod and container are the GPU holder's, as
                # in GKE's managed DCGM.
                "targetLabels": {"metadata": []},
            },
            opts=cluster.options(self, depends_on=self.daemon_sets),
        )

    def _for_prometheus(self, args: MonitoringArgs, cluster: Cluster) -> None:
        service = kubernetes.core.v1.Service(
            _NAME,
            metadata={
                "name": _NAME,
                "namespace": NAMESPACE,
                "labels": _LABELS,
                # While all pools are at zero there is no pod to wait for.
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec={
                "cluster_ip": "None",
                "selector": _LABELS,
                "ports": [{"name": "metrics", "port": _PORT, "target_port": "metrics"}],
            },
            opts=cluster.options(self, delete_before_replace=True, depends_on=[self.namespace]),
        )
        if args.prometheus_operator:
            kubernetes.apiextensions.CustomResource(
                _NAME,
                api_version="monitoring.coreos.com/v1",
                kind="ServiceMonitor",
                metadata={
                    "name": _NAME,
                    "namespace": NAMESPACE,
                    "labels": dict(args.prometheus_labels),
                },
                spec={
                    "selector": {"matchLabels": _LABELS},
                    "endpoints": [
                        {
                            "port": "metrics",
                            "interval": f"{args.interval_seconds}s",
                            # namespace, pod and container are the GPU holder's.
                            "honorLabels": True,
                        }
                    ],
                },
                opts=cluster.options(self, depends_on=[service]),
            )


_LABELS = {"app.kubernetes.io/name": _NAME}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Pools that one DaemonSet serves: their nodes need the same exporter."""

    runtime_class: str | None
    gke_plugin: bool
    """GKE's device plugin tells the kubelet `nvidia0` where NVIDIA's tells the GPU's UUID; a pod is
    matched with its GPU by it (dcgm-exporter issues 27 and 85)."""
    shared: bool
    pools: Sequence[GpuPool]

    @property
    def name(self) -> str:
        """Fixed, and the plain one for whole GPUs beside NVIDIA's plugin and runtime."""
        parts = [
            _NAME,
            "gke" if self.gke_plugin else "",
            self.runtime_class or "",
            "shared" if self.shared else "",
        ]
        return "-".join(part for part in parts if part)


def _groups(cluster: Cluster) -> list[_Group]:
    grouped: dict[tuple[str | None, bool, bool], list[GpuPool]] = {}
    for pool in cluster.pools.values():
        gke_plugin = cluster.platform == "gke" and not pool.device_plugin
        shared = pool.sharing is not None and pool.sharing.replicas > 1
        grouped.setdefault((pool.runtime_class, gke_plugin, shared), []).append(pool)
    return [
        _Group(runtime_class=runtime_class, gke_plugin=gke_plugin, shared=shared, pools=pools)
        for (runtime_class, gke_plugin, shared), pools in grouped.items()
    ]


def _spec(
    group: _Group, args: MonitoringArgs, platform: Platform, counters: str
) -> DaemonSetSpecArgsDict:
    labels = {**_LABELS, "app.kubernetes.io/instance": group.name}
    volumes, mounts = _volumes(platform)
    return {
        "selector": {"match_labels": labels},
        "update_strategy": {"type": "RollingUpdate"},
        "template": {
            "metadata": {
                "labels": labels,
                # The exporter reads the file once: another one needs another pod.
                "annotations": {
                    "gpu-cluster/counters": hashlib.sha256(counters.encode()).hexdigest()
                },
            },
            "spec": {
                "runtime_class_name": group.runtime_class,
                "affinity": _on_nodes_of(group.pools),
                "tolerations": [toleration.manifest() for toleration in _tolerations(group.pools)],
                "automount_service_account_token": False,
                "containers": [
                    {
                        "name": _NAME,
                        "image": images.DCGM_EXPORTER.reference,
                        "env": [
                            *_env(group, args, platform),
                            # Else Hostname is the pod's.
                            {
                                "name": "NODE_NAME",
                                "value_from": {"field_ref": {"field_path": "spec.nodeName"}},
                            },
                        ],
                        "ports": [{"name": "metrics", "container_port": _PORT}],
                        "readiness_probe": {"http_get": {"path": "/health", "port": "metrics"}},
                        "resources": {
                            "requests": {"cpu": "100m", "memory": "128Mi"},
                            "limits": {"memory": "512Mi"},
                        },
                        "security_context": _security(platform),
                        "volume_mounts": mounts,
                    }
                ],
                "volumes": volumes,
            },
        },
    }


def _env(group: _Group, args: MonitoringArgs, platform: Platform) -> list[EnvVarArgsDict]:
    variables: Mapping[str, str] = {
        "DCGM_EXPORTER_LISTEN": f":{_PORT}",
        "DCGM_EXPORTER_KUBERNETES": "true",
        "DCGM_EXPORTER_COLLECTORS": f"{_COUNTERS_DIR}/counters.csv",
        "DCGM_EXPORTER_INTERVAL": str(args.interval_seconds * 1000),
        **({"DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE": "device-name"} if group.gke_plugin else {}),
        **({"KUBERNETES_VIRTUAL_GPUS": "true"} if group.shared else {}),
        **({"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"} if platform == "gke" else {}),
    }
    return [{"name": name, "value": value} for name, value in variables.items()]


def _security(platform: Platform) -> SecurityContextArgsDict:
    if platform == "gke":
        # No NVIDIA runtime there that would give the exporter the devices.
        return {"privileged": True}
    return {
        "run_as_user": 0,
        "run_as_non_root": False,
        "allow_privilege_escalation": False,
        # For DCGM_FI_PROF_*, and on Bottlerocket to be given the GPUs at all.
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
    }


def _volumes(platform: Platform) -> tuple[list[VolumeArgsDict], list[VolumeMountArgsDict]]:
    volumes: list[VolumeArgsDict] = [
        {"name": "pod-resources", "host_path": {"path": _POD_RESOURCES}},
        {"name": "counters", "config_map": {"name": _NAME}},
    ]
    mounts: list[VolumeMountArgsDict] = [
        {"name": "pod-resources", "mount_path": _POD_RESOURCES, "read_only": True},
        {"name": "counters", "mount_path": _COUNTERS_DIR, "read_only": True},
    ]
    if platform == "gke":
        volumes.append({"name": "driver", "host_path": {"path": _GKE_DRIVER_DIR}})
        mounts.append({"name": "driver", "mount_path": "/usr/local/nvidia", "read_only": True})
    return volumes, mounts


def _tolerations(pools: Sequence[GpuPool]) -> list[Toleration]:
    every_gpu = Toleration(key=GPU_RESOURCE)
    others = [one for pool in pools for one in pool.tolerations if one.key != GPU_RESOURCE]
    return list(dict.fromkeys([every_gpu, *others]))


def _on_nodes_of(pools: Sequence[GpuPool]) -> AffinityArgsDict:
    return {
        "node_affinity": {
            "required_during_scheduling_ignored_during_execution": {
                # Terms are alternatives: a node of any of the pools will do.
                "node_selector_terms": [
                    {
                        "match_expressions": [
                            {"key": key, "operator": "In", "values": [value]}
                            for key, value in pool.node_selector.items()
                        ]
                    }
                    for pool in pools
                ]
            }
        }
    }
