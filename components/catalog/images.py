"""Every container image that the stack runs, pinned, with the source of the pin.

Read on 2026-11-21. A digest is given only if two independent public sources agree on it; otherwise,
the version tag is the pin. Images without a registry are preloaded on GKE's nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A container image. At least one of `tag` and `digest` is set, and `tag` is never `latest`."""

    repository: str
    tag: str | None = None
    digest: str | None = None
    """`sha256:` and 64 hex digits, of the multi-platform index."""
    preloaded: bool = False
    """Whether it is preloaded on GKE's nodes and never pulled: `imagePullPolicy: Never`."""
    source: str
    read: str
    """Date of the source or of the tag."""

    @property
    def reference(self) -> str:
        """The reference for a container's `image` field."""
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"


DEVICE_PLUGIN: Final = Image(
    repository="nvcr.io/nvidia/k8s-device-plugin",
    tag="v0.20.0",
    digest="sha256:a61ba9fd8efb82f3a79f877f7580e02c1e8e7593f62473644bc9c79e315c3312",
    source="k8s-device-plugin static manifest; digest as the GPU operator 26.7.0 bundle pins it",
    read="2026-08-20",
)
"""NVIDIA's device plugin, which includes GPU feature discovery."""

DRA_DRIVER: Final = Image(
    repository="registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu",
    tag="v0.4.1",
    digest="sha256:eefe67396dedea4df74f68a94d5883f33204888b83979babd42b91501a2de1d8",
    source="registry.k8s.io/images/k8s-staging-dra-driver-nvidia/images.yaml of kubernetes/k8s.io, "
    "and a project that resolved the tag",
    read="2026-11-29",
)
"""NVIDIA's DRA driver for GPUs, of 2026-06-30."""

EFA_PLUGIN: Final = Image(
    repository="602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin",
    tag="v0.5.20",
    source="aws/eks-charts stable/aws-efa-k8s-device-plugin v0.5.30; no public source has a digest",
    read="2026-11-28",
)
"""AWS's device plugin for Elastic Fabric Adapters. Nodes of any region may pull it from there."""

GIB_INSTALLER: Final = Image(
    repository="us-docker.pkg.dev/gce-ai-infra/gpudirect-gib/nccl-plugin-gib",
    tag="v1.1.2",
    source="docs.cloud.google.com/ai-hypercomputer/docs/nccl/release-notes-x86, the only source "
    "with a digest",
    read="2026-11-29",
)
"""Google's plugin of NCCL for RDMA, gIB, with the script that copies it to a node."""

TCPXO_INSTALLER: Final = Image(
    repository="us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev",
    tag="v1.0.15",
    source="container-engine-accelerators 992db812 gpudirect-tcpxo/README.md, release of "
    "2026-01-09; no public source has a digest",
    read="2026-11-29",
)
"""Google's plugin of NCCL for GPUDirect-TCPXO. Only together with the daemon of its release."""

TCPXO_DAEMON: Final = Image(
    repository="us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev",
    tag="v1.0.21",
    source=TCPXO_INSTALLER.source,
    read="2026-11-29",
)
"""The daemon that receives into the memory of a pod's GPUs (RxDM), in each such pod."""

TCPX_INSTALLER: Final = Image(
    repository="us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpx/nccl-plugin-gpudirecttcpx-dev",
    tag="v3.1.12",
    source="container-engine-accelerators 98c85a6e gpudirect-tcpx/README.md, release of "
    "2026-06-22; no public source has a digest",
    read="2026-11-30",
)
"""Likewise, for GPUDirect-TCPX."""

TCPX_DAEMON: Final = Image(
    repository="us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpx/tcpgpudmarxd-dev",
    tag="v2.0.15",
    source=TCPX_INSTALLER.source,
    read="2026-11-30",
)

NCCL_PLUGINS: Final[Mapping[str, Image]] = MappingProxyType(
    {"rdma": GIB_INSTALLER, "tcpx": TCPX_INSTALLER, "tcpxo": TCPXO_INSTALLER}
)
"""A pool's `gpuDirect` -> its plugin of NCCL."""
TCP_DAEMONS: Final[Mapping[str, Image]] = MappingProxyType(
    {"tcpx": TCPX_DAEMON, "tcpxo": TCPXO_DAEMON}
)
"""Likewise -> its daemon."""

DEVICE_INJECTOR: Final = Image(
    repository="gcr.io/gke-release/nri-device-injector",
    digest="sha256:6e79483d52abdc28454bf186320b10a56b0f117a10e8d65d5c74dbb821a76970",
    source="container-engine-accelerators 992db812 nri_device_injector/nri-device-injector.yaml",
    read="2026-11-29",
)
"""Gives containers the devices that their pod's annotations name, without privileges."""

DCGM_EXPORTER: Final = Image(
    repository="nvcr.io/nvidia/k8s/dcgm-exporter",
    tag="4.5.3-4.8.2-distroless",
    source="dcgm-exporter repository; public sources disagree on the digest",
    read="2026-05-06",
)

COS_INSTALLER: Final = Image(
    repository="cos-nvidia-installer",
    tag="fixed",
    preloaded=True,
    source="container-engine-accelerators nvidia-driver-installer/cos/daemonset-preloaded.yaml",
    read="2026-11-21",
)
"""Installs the driver that matches the node's Container-Optimized OS."""

UBUNTU_INSTALLER: Final = Image(
    repository="gke-nvidia-installer",
    tag="fixed",
    preloaded=True,
    source="container-engine-accelerators nvidia-driver-installer/ubuntu/daemonset-preloaded.yaml",
    read="2026-11-21",
)

PARTITION_GPUS: Final = Image(
    repository="gcr.io/gke-release/nvidia-partition-gpu",
    digest="sha256:de12f85ebfb4fb6c1893cd30c23aab662a72fa0448f97ef74fccb82d7522ef17",
    source="container-engine-accelerators nvidia-driver-installer/cos/daemonset-preloaded.yaml",
    read="2026-11-21",
)
"""Creates the MIG partitions in the node's configuration; upstream gives it no tag."""

PARTITION_SIZES: Final = frozenset(
    {
        *("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
        *("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
        *("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
        *("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
    }
)
"""Sizes that `PARTITION_GPUS` supports; it fails on any other, again and again.

container-engine-accelerators partition_gpu/partition_gpu.go at 4da5c076 of 2025-04-07, which put
the digest into the DaemonSet; RTX PRO 6000's and most of GB200's are newer (read 2026-11-21).
"""

PAUSE: Final = Image(
    repository="gke.gcr.io/pause",
    tag="3.8",
    digest="sha256:880e63f94b145e46f1b1082bb71b85e21f16b99b180b9996407d61240ceb9830",
    source="container-engine-accelerators nvidia-driver-installer/cos/daemonset-preloaded.yaml",
    read="2026-11-21",
)
"""Runs in a driver installer's pod once its init containers have finished."""

CUDA_SAMPLE: Final = Image(
    repository="nvcr.io/nvidia/k8s/cuda-sample",
    tag="vectoradd-cuda12.5.0-ubuntu22.04",
    source="gpu-operator tests",
    read="2026-11-21",
)
"""Adds two vectors on the GPU and prints `Test PASSED`."""

PYTORCH: Final = Image(
    repository="docker.io/pytorch/pytorch",
    tag="2.9.1-cuda12.8-cudnn9-runtime",
    source="tags of pytorch/pytorch; the acceptance test of the documents runs in it",
    read="2026-11-21",
)
"""PyTorch, for the acceptance test of a stack that names no image of its own."""

JOBSET: Final = Image(
    repository="registry.k8s.io/jobset/jobset",
    tag="v0.12.0",
    source="tags of kubernetes-sigs/jobset; only one public project names a digest",
    read="2026-05-08",
)
"""The JobSet controller."""

KUEUE: Final = Image(
    repository="registry.k8s.io/kueue/kueue",
    tag="v0.16.9",
    source="CHANGELOG-0.16.md of kubernetes-sigs/kueue; no public source names a digest",
    read="2026-11-28",
)
"""Kueue. The definitions, RBAC and configuration in `components/batch` belong to this version,
which stores v1beta2 and still serves v1beta1: docs/contributing/upgrade-kueue.md."""

KARPENTER: Final = Image(
    repository="public.ecr.aws/karpenter/controller",
    tag="1.15.2",
    source="versions of github.com/aws/karpenter-provider-aws on the Go module proxy",
    read="2026-11-30",
)
"""Karpenter's controller for AWS, and the version of the definitions in components/crds. 1.15.0
does not try pools of a lower weight while a reservation is full (kubernetes-sigs/karpenter PR
3456)."""

CLUSTER_AUTOSCALER_VERSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "1.30": "1.30.7",
        "1.31": "1.31.5",
        "1.32": "1.32.7",
        "1.33": "1.33.6",
        "1.34": "1.34.5",
        "1.35": "1.35.2",
        "1.36": "1.36.1",
    }
)
"""Kubernetes minor -> the last Cluster Autoscaler release for it; the minors must be equal."""
_CLUSTER_AUTOSCALER_DIGESTS: Final[Mapping[str, str]] = MappingProxyType(
    {"1.35.2": "sha256:aac369dc283927a623deb1af54696efcc722ae79255aa07788422e495bab887d"}
)
"""Release -> the digest that two public projects resolved independently (read 2026-11-28): a chart
for EKS 1.35, which also names the manifest of linux/amd64 in it, and a script that asks the
registry and finds linux/amd64 and linux/arm64. The others are named by one project or none."""


def cluster_autoscaler(minor: str) -> Image | None:
    """Cluster Autoscaler for a Kubernetes minor such as `1.35`; None if no release is known."""
    version = CLUSTER_AUTOSCALER_VERSIONS.get(minor)
    if version is None:
        return None
    return Image(
        repository="registry.k8s.io/autoscaling/cluster-autoscaler",
        tag=f"v{version}",
        digest=_CLUSTER_AUTOSCALER_DIGESTS.get(version),
        source="tags of kubernetes/autoscaler",
        read="2026-07-22",
    )
