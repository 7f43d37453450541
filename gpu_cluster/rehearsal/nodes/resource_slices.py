"""The ResourceSlices with which NVIDIA's DRA driver publishes the GPUs of a node.

As kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1 writes them: cmd/gpu-kubelet-plugin/deviceinfo.go
and partitions.go, without the feature gates that are off by default. Names and brands are NVML's.
"""

import uuid
from typing import Any

from gpu_cluster.rehearsal.control_plane.api import Api, Object
from gpu_cluster.rehearsal.control_plane.pods import DRA_DRIVER

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
UNPREPARED = "rehearsal.gpu-cluster/unprepared"
"""Finalizer of a pod on a node without the driver that prepared its devices."""
STUCK_SECONDS = 10.0
"""How long such a pod may be Terminating; the driver's pod may only be restarting."""
_GPUS = {
    # model: productName, architecture, cudaComputeCapability, memory in MiB
    "V100 16GB": ("Tesla V100-SXM2-16GB", "Volta", "7.0.0", 16384),
    "V100 32GB": ("Tesla V100-SXM2-32GB", "Volta", "7.0.0", 32768),
    "P100": ("Tesla P100-PCIE-16GB", "Pascal", "6.0.0", 16384),
    "P4": ("Tesla P4", "Pascal", "6.1.0", 7611),
    "T4": ("Tesla T4", "Turing", "7.5.0", 15360),
    "A10G": ("NVIDIA A10G", "Ampere", "8.6.0", 23028),
    "A100 40GB": ("NVIDIA A100-SXM4-40GB", "Ampere", "8.0.0", 40960),
    "A100 80GB": ("NVIDIA A100-SXM4-80GB", "Ampere", "8.0.0", 81920),
    "L4": ("NVIDIA L4", "Ada Lovelace", "8.9.0", 23034),
    "L40S": ("NVIDIA L40S", "Ada Lovelace", "8.9.0", 46068),
    "H100": ("NVIDIA H100 80GB HBM3", "Hopper", "9.0.0", 81559),
    "H200": ("NVIDIA H200", "Hopper", "9.0.0", 143771),
}
"""Memory as the driver reports it, of nodes whose labels are published; compute capabilities from
developer.nvidia.com/cuda-gpus."""
_OTHER = ("NVIDIA GPU", "Blackwell", "10.0.0", 183359)
"""Any other GPU, of which nothing published is at hand."""


def publish(api: Api, account: str, node: Object, model: str, gpus: int) -> None:
    """Creates the node's ResourceSlice with the driver's own rights: `account` is its service
    account, `namespace:name`. Raises ApiError."""
    name = node["metadata"]["name"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    api.as_pod_of(account, name).create(SLICES, {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": f"{name}-{DRA_DRIVER}", "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "driver": DRA_DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(name, model, number) for number in range(gpus)],
        },
    })  # fmt: skip


def withdraw(api: Api, node: str) -> None:
    """Deletes it, as the kubelet does once the driver is gone."""
    api.delete(f"{SLICES}/{node}-{DRA_DRIVER}")


def _device(node: str, model: str, number: int) -> dict[str, Any]:
    product, architecture, capability, mib = _GPUS.get(model, _OTHER)
    texts = {
        "type": "gpu",
        "uuid": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{node}/{number}')}",
        "productName": product,
        "brand": "Tesla" if product.startswith("Tesla") else "Nvidia",
        "architecture": architecture,
        "resource.kubernetes.io/pciBusID": f"0000:{number + 16:02x}:00.0",
        "resource.kubernetes.io/pcieRoot": f"pci0000:{number + 16:02x}",
    }
    versions = {
        "cudaComputeCapability": capability,
        "driverVersion": "580.105.8",
        "cudaDriverVersion": "13.0.0",
    }
    return {
        "name": f"gpu-{number}",
        "attributes": {
            **{name: {"string": text} for name, text in texts.items()},
            **{name: {"version": version} for name, version in versions.items()},
        },
        "capacity": {"memory": {"value": f"{mib}Mi"}},
    }
