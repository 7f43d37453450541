"""NVIDIA's DRA driver on the real node: its rights, DeviceClass and pod, as in its chart.

dra-driver-nvidia-gpu v0.4.1 (2026-06-30), deployments/helm, without compute domains and the rights
that only they need, and without the init container that waits for the machine's driver.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_cluster.rehearsal.gpu_node.machine import NAME, Machine

IMAGE = "localhost/dra-driver-nvidia-gpu:rehearsal"
DRIVER = DEVICE_CLASS = "gpu.nvidia.com"
POD = "dra-driver-nvidia-gpu-kubelet-plugin"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PODS = "/api/v1/namespaces/kube-system/pods"
TIME_SLICING = "TimeSlicingSettings"
"""The feature gate without which the driver refuses claims that configure time-slicing."""
_ACCOUNT = "dra-driver-nvidia-gpu-service-account-kubeletplugin"
_PLUGINS, _REGISTRY = "/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry"
_CDI = "/var/run/cdi"
_HEALTH_PORT = 51516
_ROOT = "/driver-root"
"""Where the driver's container sees the machine's driver."""
_RIGHTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "resource.k8s.io": {
        "resourceclaims": ["get", "list", "watch"],
        "resourceslices": ["get", "list", "watch", "create", "update", "delete"],
    },
    "": {"nodes": ["get"]},
}


def objects() -> list[tuple[str, dict[str, Any]]]:
    """(Path of its list, manifest) of what the driver's pod needs in the cluster."""
    rbac = "rbac.authorization.k8s.io"
    role = {"name": "dra-driver-nvidia-gpu-clusterrole-kubeletplugin"}
    account = {"name": _ACCOUNT, "namespace": "kube-system"}
    return [
        (
            "/api/v1/namespaces/kube-system/serviceaccounts",
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        ),
        (
            f"/apis/{rbac}/v1/clusterroles",
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRole",
                "metadata": role,
                "rules": [
                    {"apiGroups": [group], "resources": [resource], "verbs": [*verbs]}
                    for group, resources in _RIGHTS.items()
                    for resource, verbs in resources.items()
                ],
            },
        ),
        (
            f"/apis/{rbac}/v1/clusterrolebindings",
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": role,
                "subjects": [{"kind": "ServiceAccount", **account}],
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", **role},
            },
        ),
        (
            "/apis/resource.k8s.io/v1/deviceclasses",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": DEVICE_CLASS},
                "spec": {
                    "selectors": [
                        {
                            "cel": {
                                "expression": f"device.driver == '{DRIVER}' && "
                                f"device.attributes['{DRIVER}'].type == 'gpu'"
                            }
                        }
                    ],
                    "extendedResourceName": "nvidia.com/gpu",
                },
            },
        ),
    ]


def pod(machine: Machine, gates: Sequence[str] = ()) -> dict[str, Any]:
    """The driver's pod with these feature gates. `nvidia-smi` is a program that changes no setting
    of the GPU."""
    root = str(machine.driver_root)
    folders = {"plugins-registry": _REGISTRY, "plugins": _PLUGINS, "cdi": _CDI, "driver-root": root}
    smi = machine.nvidia_smi.resolve().relative_to(root)
    shim = str(Path(__file__).with_name("driver-program.sh"))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD},
        "spec": {
            "nodeName": NAME,
            "priorityClassName": "system-node-critical",
            "serviceAccountName": _ACCOUNT,
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 5,
            "containers": [
                {
                    "name": "gpus",
                    "image": IMAGE,
                    "imagePullPolicy": "Never",
                    "securityContext": {"privileged": True},
                    "command": ["sh", "-c"],
                    "args": ["exec gpu-kubelet-plugin -v $(LOG_VERBOSITY)"],
                    "startupProbe": {
                        "grpc": {"port": _HEALTH_PORT, "service": "liveness"},
                        "failureThreshold": 600,
                        "periodSeconds": 1,
                        "timeoutSeconds": 10,
                    },
                    "env": [
                        *(
                            {"name": name, "value": value}
                            for name, value in _environment(root, gates).items()
                        ),
                        *(
                            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                            for name, path in {
                                "NODE_NAME": "spec.nodeName",
                                "NAMESPACE": "metadata.namespace",
                                "SERVICE_ACCOUNT_NAME": "spec.serviceAccountName",
                            }.items()
                        ),
                    ],
                    "volumeMounts": [
                        {"name": "plugins-registry", "mountPath": _REGISTRY},
                        {
                            "name": "plugins",
                            "mountPath": _PLUGINS,
                            "mountPropagation": "Bidirectional",
                        },
                        {"name": "cdi", "mountPath": _CDI},
                        {
                            "name": "driver-root",
                            "mountPath": _ROOT,
                            "mountPropagation": "HostToContainer",
                        },
                        {"name": "nvidia-smi", "mountPath": f"{_ROOT}/{smi}"},
                    ],
                }
            ],
            "volumes": [
                *({"name": name, "hostPath": {"path": path}} for name, path in folders.items()),
                {"name": "nvidia-smi", "hostPath": {"path": shim, "type": "File"}},
            ],
        },
    }


def _environment(root: str, gates: Sequence[str]) -> Mapping[str, str]:
    return {
        "LOG_VERBOSITY": "4",
        "HTTP_ENDPOINT": ":8080",
        "METRICS_PATH": "/metrics",
        "MASK_NVIDIA_DRIVER_PARAMS": "",
        "NVIDIA_DRIVER_ROOT": root,
        "NVIDIA_VISIBLE_DEVICES": "void",
        "CDI_ROOT": _CDI,
        "NVIDIA_MIG_CONFIG_DEVICES": "all",
        "IMAGE_NAME": IMAGE,
        "KUBELET_REGISTRAR_DIRECTORY_PATH": _REGISTRY,
        "KUBELET_PLUGINS_DIRECTORY_PATH": _PLUGINS,
        "HEALTHCHECK_PORT": str(_HEALTH_PORT),
        **({"FEATURE_GATES": ",".join(f"{gate}=true" for gate in gates)} if gates else {}),
    }
