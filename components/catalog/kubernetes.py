"""Kubernetes names and syntax, as apimachinery 1.36 and the GPU stack define them.

Read on 2026-11-21: syntax in k8s.io/apimachinery validation; GKE's labels in the GKE autoscaler
source (2026) and GoogleCloudPlatform/container-engine-accelerators; NVIDIA's in the
k8s-device-plugin of `images.DEVICE_PLUGIN`; AWS's in kubernetes/autoscaler cloudprovider/aws. The
validators return None for a valid name, else the reason, which completes "`<the name>` ...".
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

# resources
GPU_RESOURCE: Final = "nvidia.com/gpu"
SHARED_GPU_RESOURCE: Final = "nvidia.com/gpu.shared"
"""The resource that the device plugin advertises for shared GPUs with `renameByDefault`."""
MIG_RESOURCE_PREFIX: Final = "nvidia.com/mig-"
"""Used with the MIG strategy `mixed`, followed by the profile: `nvidia.com/mig-1g.5gb`."""

# node labels: any cluster
HOSTNAME: Final = "kubernetes.io/hostname"
ARCH: Final = "kubernetes.io/arch"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"

# node labels: NVIDIA
GPU_PRESENT: Final = "nvidia.com/gpu.present"
NFD_NVIDIA_PCI: Final = "feature.node.kubernetes.io/pci-10de.present"

# node labels: GKE
GKE_ACCELERATOR: Final = "cloud.google.com/gke-accelerator"
GKE_ACCELERATOR_COUNT: Final = "cloud.google.com/gke-accelerator-count"
GKE_GPU_DRIVER_VERSION: Final = "cloud.google.com/gke-gpu-driver-version"
"""Only set when GKE manages the driver; the installer DaemonSets avoid nodes that have it."""
GKE_GPU_SHARING_STRATEGY: Final = "cloud.google.com/gke-gpu-sharing-strategy"
"""`time-sharing` or `mps`, unlike the API's `TIME_SHARING` and `MPS`."""
GKE_MAX_SHARED_CLIENTS: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"
BATCH_DEFINITIONS: Final = {
    "jobset": "jobsets.jobset.x-k8s.io",
    "kueue": "workloads.kueue.x-k8s.io",
}
"""Job controller -> a custom resource definition that every version of it has."""
GKE_GPU_PARTITION_SIZE: Final = "cloud.google.com/gke-gpu-partition-size"
GKE_SPOT: Final = "cloud.google.com/gke-spot"
GKE_FLEX_START: Final = "cloud.google.com/gke-flex-start"
GKE_NODEPOOL: Final = "cloud.google.com/gke-nodepool"
GKE_COMPUTE_CLASS: Final = "cloud.google.com/compute-class"
"""Label and taint of the nodes that GKE creates for a ComputeClass, with the class's name."""
GKE_TOPOLOGY: Final = (
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
)
"""Where a node is in the network, the broadest level first: docs.cloud.google.com/ai-hypercomputer/
docs/workloads/schedule-gke-workloads-tas and docs/nccl/test-gke-custom-a3-mega-high, 2026-11-24."""
GKE_RESERVATION_NAME: Final = "cloud.google.com/reservation-name"
GKE_RESERVATION_PROJECT: Final = "cloud.google.com/reservation-project"
GKE_RESERVATION_AFFINITY: Final = "cloud.google.com/reservation-affinity"
GKE_RESERVATION_BLOCKS: Final = "cloud.google.com/reservation-blocks"
GKE_RESERVATION_SUB_BLOCKS: Final = "cloud.google.com/reservation-subblocks"
GKE_NO_DEFAULT_PLUGIN: Final = "gke-no-default-nvidia-gpu-device-plugin"
"""With value `true`, GKE does not run its own device plugin on the node. It has no domain."""

GKE_DRA_DRIVER: Final = "cloud.google.com/gke-nvidia-gpu-dra-driver"
"""The node label by which GKE's autoscaler expects NVIDIA's DRA driver on a node
(docs.cloud.google.com/kubernetes-engine/docs/how-to/set-up-dra, read 2026-11-29)."""

# NVIDIA's driver in containers, for nodes without an NVIDIA runtime that mounts it
GKE_DRIVER_DIRECTORY: Final = "/home/kubernetes/bin/nvidia"
"""On the nodes, COS and Ubuntu alike; GKE's device plugin mounts it, NVIDIA's does not."""
DRIVER_MOUNT: Final = "/usr/local/nvidia"
DRIVER_SEARCH_PATH: Final = f"{DRIVER_MOUNT}/lib64"
"""NVIDIA's images and those built on them have it in their LD_LIBRARY_PATH."""
GIB_DIRECTORY: Final = "/home/kubernetes/bin/gib"
"""On GKE's nodes: Google's plugin of NCCL for RDMA, after its installer has run."""
GIB_MOUNT: Final = "/usr/local/gib"
"""Where Google's plugin of NCCL expects itself in a container."""
TCPX_DIRECTORY: Final = "/home/kubernetes/bin/tcpx"
TCPXO_DIRECTORY: Final = "/home/kubernetes/bin/tcpxo"
"""Likewise: its plugins for GPUDirect-TCPX and -TCPXO. Not /var/lib, from which nodes with COS run
nothing."""
GIB_SETUP: Final = "scripts/set_nccl_env.sh"
TCPXO_SETUP: Final = "lib64/nccl-env-profile.sh"
"""In a plugin's directory: Google's script that sets NCCL's variables."""
TCPX_LIBRARY: Final = "lib64/libnccl-net.so"
"""In TCPX's, which has no such script: what NCCL loads."""
APERTURE_DEVICES: Final = "/dev/aperture_devices"
"""On these nodes: the memory of interfaces for GPUDirect-TCPXO, after the installer has run."""
PLUGIN_INSTALLED: Final = "installed"
"""The file that the installer of NCCL's plugin writes last, in the plugin's directory."""

GPU_CLASS: Final = "gpu.nvidia.com"
"""The DeviceClass of whole GPUs, and the name of the DRA driver that offers them
(kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1, templates/deviceclass-gpu.yaml of its chart)."""

MIG_CLASS: Final = "mig.nvidia.com"
"""Likewise, of the partitions of GPUs that are in MIG mode."""
CLAIMS_SINCE: Final = "1.34"
"""The first Kubernetes version with resource.k8s.io/v1."""
KUBELETS_LOSING_DRIVERS: Final = ("1.34.0", "1.34.1")
"""Kubelets that do not reach a DRA driver after 30 idle minutes until they are restarted:
kubernetes issue 133920, repaired in 1.34.2 (pull request 133934, read 2026-11-30)."""
_MAPPED_SINCE: Final = (1, 36)
"""Kubernetes' feature gate DRAExtendedResource is beta and on from then on: v1.36.3,
pkg/features/kube_features.go. Before, the API server drops the field of a DeviceClass."""

QUOTA_OF_CLASS_SUFFIX: Final = ".deviceclass.resource.k8s.io/devices"
"""After the name of a DeviceClass: how many of its devices the claims of a namespace may have
together, in a ResourceQuota (kubernetes v1.34, core/v1/types.go, ResourceClaimsPerClass)."""

EFA: Final = "vpc.amazonaws.com/efa"
"""The extended resource that AWS's EFA device plugin advertises."""

RDMA: Final = "mrdma.google.com"
"""The DeviceClass of RDMA interfaces, which GKE creates (container-engine-accelerators,
gpudirect-rdma/nccl-test-managed-rdma.yaml, 2026-08)."""
GKE_NETWORK_DRIVER: Final = "cloud.google.com/gke-networking-dra-driver"
"""With value `true`, GKE's DRANET offers the node's interfaces to pods."""
GKE_NETWORK_PROFILE: Final = "gke.networks.io/accelerator-network-profile"
"""GKE's label of nodes whose networks it sets up. Both: GoogleCloudPlatform/cluster-autoscaler
7d250507, pkg/cloudprovider/gke/labels/system_labels.go."""

GPU_DIRECT: Final = "gpu-cluster/gpu-direct"
"""This program's label of nodes with GPUDirect over TCP, with value `tcpx` or `tcpxo`."""
GKE_NETWORKS: Final = "networking.gke.io.networks"
"""The prefix of GKE's resources for networks, of which its webhook adds one to pods for each
network that their annotation names (cloud-provider-gcp 4e245312, apis/network/v1)."""
GKE_INTERFACES: Final = "networking.gke.io/interfaces"
GKE_DEFAULT_INTERFACE: Final = "networking.gke.io/default-interface"
GKE_NETWORKING_GROUP: Final = "networking.gke.io"
GKE_NETWORKING_VERSION: Final = "v1"

# node labels: EKS
EKS_ACCELERATOR: Final = "k8s.amazonaws.com/accelerator"
"""Cluster Autoscaler waits for the device plugin on nodes with this label."""
EKS_NODEGROUP: Final = "eks.amazonaws.com/nodegroup"
EKS_TOPOLOGY: Final = tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3))
"""Where a node is in the network, the broadest level first; P6 has a fourth, narrower one:
docs.aws.amazon.com/eks/latest/userguide/ml-workload-topology, 2026-11-24."""

OWN_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Namespaces that every cluster has."""

RESERVED_NAMESPACE: Final = re.compile(r"default|(?:kube|gke|gmp|amazon)-.*|.*-system")
"""Namespaces of Kubernetes, of GKE (`gmp-public`, `gke-managed-cim`), of EKS addons
(`amazon-cloudwatch`, `amazon-guardduty`), and those that controllers create."""

RESERVED_DOMAINS: Final = ("kubernetes.io", "k8s.io", "cloud.google.com")
"""Domains with subdomains whose labels are set by the cloud or the kubelet."""
KUBELET_DOMAINS: Final = re.compile(r"(?:[^/]+[.])?(?:kubelet|node)[.]kubernetes[.]io")
"""Of these, the domains of which a kubelet accepts any label."""
KUBELET_LABELS: Final = (
    "kubernetes.io/hostname",
    *(f"{prefix}kubernetes.io/{key}" for prefix in ("", "beta.") for key in ("os", "arch")),
    *(f"{prefix}.kubernetes.io/instance-type" for prefix in ("node", "beta")),
    *(
        f"{prefix}.kubernetes.io/{key}"
        for prefix in ("topology", "failure-domain.beta")
        for key in ("zone", "region")
    ),
)
"""The labels that kubelets and clouds set (kubernetes pkg/kubelet/apis/well_known_labels.go, read
2026-11-28)."""

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

REMOVED_RESOURCES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"alpha.kubernetes.io/nvidia-gpu": (GPU_RESOURCE, "1.11")}
)
"""Resource name -> what to request instead, and the Kubernetes minor that removed it."""

REMOVED_API_VERSIONS: Final[Mapping[tuple[str, str], tuple[str, str]]] = MappingProxyType(
    {
        ("extensions/v1beta1", "DaemonSet"): ("apps/v1", "1.16"),
        ("extensions/v1beta1", "Deployment"): ("apps/v1", "1.16"),
        ("apps/v1beta1", "Deployment"): ("apps/v1", "1.16"),
        ("apps/v1beta2", "DaemonSet"): ("apps/v1", "1.16"),
        ("apps/v1beta2", "Deployment"): ("apps/v1", "1.16"),
    }
)
"""(apiVersion, kind) -> what to use instead, and the Kubernetes minor that stopped serving it."""

KUEUE_GROUP: Final = "kueue.x-k8s.io"
KUEUE_VERSION: Final = "v1beta2"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
"""Kueue's label on a Job or a JobSet: the LocalQueue of its namespace in which it waits."""

PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"
"""Kueue's label on a Job or a JobSet: the WorkloadPriorityClass that orders it in its queue."""

REQUEST_PARAMETER_PREFIX: Final = "provreq.kueue.x-k8s.io/"
"""Prefix of a job's annotations that Kueue copies into the parameters of its ProvisioningRequests
(kubernetes-sigs/kueue v0.16.2, pkg/controller/constants)."""
JOB_SET_GROUP: Final = "jobset.x-k8s.io"
JOB_SET_VERSION: Final = "v1alpha2"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""The number of a pod of an indexed Job, as label (from Kubernetes 1.28 on) and as annotation."""
JOB_SET_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"
"""JobSet's label on the pods of a JobSet: its name."""

SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""A pod's annotation; `false`: Cluster Autoscaler (also GKE's) does not remove the pod's node."""
NODE_POOL: Final = "karpenter.sh/nodepool"
"""The label with the NodePool for which Karpenter (also Auto Mode's) launched a node."""
EKS_COMPUTE_TYPE: Final = "eks.amazonaws.com/compute-type"
"""A node's label; `auto` for nodes of EKS Auto Mode."""
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
"""A pod's annotation; with `true`, Karpenter neither removes the pod's node nor evicts the pod."""
DISRUPTION_TARGET: Final = "DisruptionTarget"
"""The condition of a pod that was evicted, preempted or drained, or whose node is gone."""

LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
"""A key of a ConfigMap or Secret; `.` and `..` cannot be files."""
BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
"""The name of a Cloud Storage or S3 bucket; S3 allows no underscore."""
_HOST: Final = r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?)"
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
IMAGE: Final = re.compile(
    rf"(?:(?:{_HOST}(?:\.{_HOST})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
"""An image reference as in github.com/distribution/reference, with common digest algorithms."""


REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
"""Annotations of the pods of a job that Kueue places by its Topology; a job has one of them."""


def queue_labels(queue: str | None, priority: str | None) -> dict[str, str]:
    """The labels that tell Kueue a job's queue and priority."""
    given = {QUEUE_LABEL: queue, PRIORITY_LABEL: priority}
    return {label: value for label, value in given.items() if value is not None}


def maps_requests(versions: Sequence[str | None]) -> bool:
    """Whether nodes of all these versions, such as `1.36` or `1.36.4-gke.1391000`, serve pods that
    request `nvidia.com/gpu` with GPUs that others claim; False if there are none, or one is not
    known."""
    return bool(versions) and all(
        version and minor_of(version) >= _MAPPED_SINCE for version in versions
    )


def minor_of(version: str) -> tuple[int, ...]:
    """The minor of a version such as `1.36` or `1.36.4-gke.1391000`, as numbers."""
    return tuple(map(int, version.split(".")[:2]))


def minor_number(version: str | None) -> int:
    """35 of `1.35`, `v1.35.4` or `1.35.8-gke.1225000`; 0 without a version of this form."""
    found = re.match(r"v?1\.([0-9]+)", version or "")
    return int(found[1]) if found else 0


def al2023_day(release: str | None) -> str:
    """The day at the end of a release of EKS's AL2023 images, such as `1.36.2-20260714`; empty for
    others."""
    match = re.search(r"(?:^|[-v])([0-9]{8})$", release or "")
    return match[1] if match else ""


def invalid_dns_label(name: str) -> str | None:
    """Why this is not a valid DNS-1123 label (name of a service, namespace, container), or None."""
    if len(name) > 63:
        return f"has {len(name)} characters, at most 63 are allowed"
    if not DNS_LABEL.fullmatch(name):
        return "must be lowercase letters, digits and hyphens, with a letter or digit at each end"
    return None


def invalid_dns_subdomain(name: str) -> str | None:
    """Why this is not a valid DNS-1123 subdomain (name of most objects, label prefix), or None."""
    if len(name) > 253:
        return f"has {len(name)} characters, at most 253 are allowed"
    if not all(DNS_LABEL.fullmatch(part) for part in name.split(".")):
        return (
            "must be lowercase letters, digits, hyphens and dots, "
            "with a letter or digit at both ends of each part"
        )
    return None


def invalid_label_key(key: str) -> str | None:
    """Why this is not a valid key of a label, taint or annotation, or None."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or (reason := invalid_dns_subdomain(prefix))):
        return f"has a prefix that {reason}" if prefix else "has an empty prefix before its slash"
    if not name:
        return "has no name after its slash" if slash else "is empty; give one such as team"
    if len(name) > 63:
        return f"has a name of {len(name)} characters, at most 63 are allowed"
    if not LABEL_NAME.fullmatch(name):
        return "must be letters, digits, '-', '_' and '.', with a letter or digit at each end"
    return None


def invalid_label_value(value: str) -> str | None:
    """Why this is not a valid value of a label or taint, or None. The empty value is valid."""
    if len(value) > 63:
        return f"has a value of {len(value)} characters, at most 63 are allowed"
    if value and not LABEL_NAME.fullmatch(value):
        return (
            f"has the value {value!r}; allowed: letters, digits, '-', '_' and '.', "
            "with a letter or digit at each end"
        )
    return None


def invalid_image(image: str) -> str | None:
    """Why a node could not pull this image, with what to do, or None."""
    if not image.strip():
        return "is empty; give an image with a tag or digest"
    shown = repr(image if len(image) <= 60 else f"{image[:57]}...")
    if any(letter.isspace() for letter in image):
        return f"{shown} contains a space; remove it"
    if not IMAGE.fullmatch(image):
        return (
            f"{shown} is not an image; allowed: [registry/]repository[:tag][@sha256:digest], the "
            "repository in lower case"
        )
    return None


def is_registry(host: str) -> bool:
    """Whether the first part of an image's name is a registry: it contains a dot or a port."""
    return "." in host or ":" in host or host == "localhost"


def unpinned(image: str) -> bool:
    """Whether the reference can later mean another image: no digest, and no tag except `latest`."""
    reference, at, _ = image.partition("@")
    tag = reference.rpartition("/")[2].partition(":")[2]
    return not at and tag in ("", "latest")
