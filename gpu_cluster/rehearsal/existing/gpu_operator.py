"""NVIDIA's GPU Operator in a rehearsal: it provides what pools leave to another owner.

The DaemonSets follow assets/state-driver and assets/state-device-plugin of NVIDIA/gpu-operator
v26.7.0, their tolerations its chart, the labels controllers/state_manager.go (read 2026-11-24). Not
simulated: the controller, the toolkit, the validator, MIG manager and feature discovery.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gpu_cluster.components.catalog import images
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup

NAMESPACE = "gpu-operator"
_DEPLOY = "nvidia.com/gpu.deploy"
_PARTS: Mapping[str, Mapping[str, Any]] = {
    "driver": {
        "hostPID": True,
        "containers": [
            {
                "name": "nvidia-driver-ctr",
                "image": "nvcr.io/nvidia/driver:595.91.07-ubuntu22.04",
                "securityContext": {"privileged": True},
            }
        ],
    },
    "device-plugin": {
        "containers": [
            {
                "name": "nvidia-device-plugin",
                "image": images.DEVICE_PLUGIN.reference,
                "securityContext": {"privileged": True},
                # With the chart's default of cdi.enabled, true since 25.10.
                "env": [{"name": "DEVICE_LIST_STRATEGY", "value": "cdi-annotations,cdi-cri"}],
                "volumeMounts": [
                    {"name": "device-plugin", "mountPath": "/var/lib/kubelet/device-plugins"}
                ],
            }
        ],
        "volumes": [
            {"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
        ],
    },
}


class GpuOperator:
    """The Operator, once `install` was called. Its values match the stack: `driver.enabled` is true
    only if a pool leaves the driver to others."""

    def __init__(self, api: Callable[[], Api], settings: Settings[Any] | None) -> None:
        self._api = api
        pools = settings.pools.values() if settings else ()
        drivers = any("driver" in (pool.pool.left_to_others or ()) for pool in pools)
        self._parts = [part for part in _PARTS if part != "driver" or drivers]
        self._installed = False

    def install(self) -> str:
        """Creates the DaemonSets and returns a line that names them."""
        api = self._api()
        labels = {"pod-security.kubernetes.io/enforce": "privileged"}
        namespace = {"metadata": {"name": NAMESPACE, "labels": labels}}
        api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **namespace})
        for part in self._parts:
            api.create(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets", daemon_set(part))
        self._installed = True
        return f"DaemonSets in {NAMESPACE}: {', '.join(self._parts)}"

    def labels(self, group: NodeGroup) -> dict[str, str]:
        """The labels that the Operator sets on the group's nodes, and its DaemonSets select."""
        kept_off = group.node.labels.get(f"{_DEPLOY}.operands") == "false"
        if not self._installed or not group.gpus or kept_off:
            return {}
        driver = "true" if group.driver == "pod" else "pre-installed"
        return {
            "feature.node.kubernetes.io/pci-10de.present": "true",
            f"{_DEPLOY}.driver": driver,
            f"{_DEPLOY}.device-plugin": "true",
        }


def daemon_set(part: str) -> dict[str, Any]:
    """The DaemonSet of the `driver` or the `device-plugin`."""
    name = f"nvidia-{part}-daemonset"
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    **_PARTS[part],
                    "nodeSelector": {f"{_DEPLOY}.{part}": "true"},
                    "priorityClassName": "system-node-critical",
                    "tolerations": [
                        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
                    ],
                },
            },
        },
    }
