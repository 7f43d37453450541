"""DaemonSets that others ship, as far as a detector looks at them: who gives a node its GPUs?

Read on 2026-11-21 in aws-ebs-csi-driver's and secrets-store-csi-driver's charts, eks-charts
(aws-efa-k8s-device-plugin), k8s-rdma-shared-dev-plugin, k8s-dra-driver-gpu, gpu-operator
(assets/state-driver, state-operator-validation), container-engine-accelerators.
"""

from typing import Any

SOCKETS = "/var/lib/kubelet/device-plugins"


def spec(name: str, image: str, *paths: str, privileged: bool = True, init: bool = False) -> Any:
    """A pod's spec with one container that matters."""
    container: dict[str, Any] = {"name": name, "image": image}
    if privileged:
        container["securityContext"] = {"privileged": True}
    rest = {"name": "pause", "image": "gke.gcr.io/pause:3.8"}
    return {
        "volumes": [{"name": f"v{i}", "hostPath": {"path": path}} for i, path in enumerate(paths)],
        **(
            {"initContainers": [container], "containers": [rest]}
            if init
            else {"containers": [container]}
        ),
    }


EBS_CSI = spec(
    "ebs-plugin",
    "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.53.0",
    "/var/lib/kubelet",
    "/var/lib/kubelet/plugins/ebs.csi.aws.com/",
    "/dev",
)
SECRETS_STORE = spec(
    "secrets-store",
    "registry.k8s.io/csi-secrets-store/driver:v1.5.4",
    "/var/lib/kubelet/pods",
    "/var/lib/kubelet/plugins/csi-secrets-store/",
)
FUSE_CSI = spec("gcs-fuse-csi-driver", "gke.gcr.io/gcs-fuse-csi-driver:v1.20.0", "/var/lib/kubelet")
EFA = spec(
    "aws-efa-k8s-device-plugin",
    "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.14",
    SOCKETS,
    "/dev/infiniband",
    privileged=False,
)
TPU = spec("tpu-device-plugin", "gke.gcr.io/tpu-device-plugin@sha256:0", SOCKETS, "/dev")
RDMA = spec(
    "rdma-shared-dp",
    "nvcr.io/nvidia/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3",
    f"{SOCKETS}/",
    "/dev/infiniband",
)
OFED = spec("mofed-container", "nvcr.io/nvidia/mellanox/doca-driver:25.07", "/lib/modules", "/run")
DRA = spec("gpus", "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0", "/var/lib/kubelet/plugins")
VALIDATOR = spec(
    "driver-validation", "nvcr.io/nvidia/gpu-operator:v26.7.0", "/run/nvidia/driver", init=True
)

NEITHER = {
    "EBS CSI": EBS_CSI, "Secrets Store CSI": SECRETS_STORE, "GCS FUSE CSI": FUSE_CSI, "EFA": EFA,
    "TPU": TPU, "RDMA": RDMA, "network driver": OFED, "DRA": DRA, "validator": VALIDATOR,
}  # fmt: skip
"""Privileged, called a driver, or with the sockets of device plugins: not NVIDIA's GPU driver nor
its device plugin."""

COS = spec(
    "nvidia-driver-installer", "cos-nvidia-installer:fixed",
    "/dev", "/home/kubernetes/bin/nvidia", "/", init=True,
)  # fmt: skip
UBUNTU = spec(
    "nvidia-driver-installer", "gke-nvidia-installer:fixed", "/dev", "/boot", "/", init=True
)
OPERATOR = spec("nvidia-driver-ctr", "nvcr.io/nvidia/driver:580.95.05-ubuntu24.04", "/run/nvidia")
MIRRORED = spec("install", "registry.example:5000/nvidia/driver@sha256:0", "/")
INSTALLERS = {
    "COS": (COS, "cos"),
    "Ubuntu": (UBUNTU, "ubuntu"),
    "GPU operator": (OPERATOR, "ubuntu"),
    "mirrored": (MIRRORED, "other"),
}
"""Installers of NVIDIA's driver, and the node image that each is made for."""

PLUGINS = {
    "NVIDIA's": spec(
        "nvidia-device-plugin-ctr", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        f"{SOCKETS}/", privileged=False,
    ),
    "GKE's": spec("nvidia-gpu-device-plugin", "gke.gcr.io/nvidia-gpu-device-plugin@sha256:0",
                  SOCKETS, "/dev", "/home/kubernetes/bin/nvidia"),
    "mirrored": spec("plugin", "registry.example:5000/nvidia/k8s-device-plugin", SOCKETS),
}  # fmt: skip
