"""What EKS allows: GPU instance types and their images, labels, versions, quotas, names and tags.

Read on 2026-11-21 in botocore 1.44.5, unless a line names another source. The instance types are in
`eks_instances`; facts about Cluster Autoscaler are from kubernetes/autoscaler cloudprovider/aws.
"""

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType
from typing import Final, Literal

from .eks_instances import CPU_INSTANCE_TYPE as CPU_INSTANCE_TYPE
from .eks_instances import CPU_INSTANCE_TYPES as CPU_INSTANCE_TYPES
from .eks_instances import INSTANCE_TYPES as INSTANCE_TYPES
from .eks_instances import LOCATED_FAMILIES as LOCATED_FAMILIES
from .eks_instances import Arch as Arch
from .eks_instances import InstanceType as InstanceType
from .images import CLUSTER_AUTOSCALER_VERSIONS as CLUSTER_AUTOSCALER_VERSIONS
from .kubernetes import al2023_day, minor_of
from .spelling import nearest

CLUSTER_NAME: Final = re.compile(r"[0-9A-Za-z][A-Za-z0-9\-_]*")
"""To be used with `fullmatch`."""
CLUSTER_NAME_MAX: Final = 100
NODE_GROUP_NAME: Final = re.compile(r"[0-9A-Za-z][A-Za-z0-9\-_]*")
"""To be used with `fullmatch` (EKS user guide, 2024-12)."""
NODE_GROUP_NAME_MAX: Final = 63

LABEL_KEY_MAX: Final = 63
"""Applies to the whole key with its prefix; the user guide says 253 for a key with a prefix."""
LABEL_VALUE_MIN: Final = 1
"""EKS refuses an empty label value, which Kubernetes accepts."""
LABEL_VALUE_MAX: Final = 63
TAINT_KEY_MAX: Final = 63
TAINT_VALUE_MAX: Final = 63
MAX_TAGS: Final = 44
"""Tags that users can give an instance: EC2 allows 50 (AWSEC2/latest/UserGuide/Using_Tags.html),
without those that begin with `aws:`. The others are Name and five of EKS and the scaler, in a node
group as in a NodePool."""
MAX_INSTANCE_TYPES: Final = 20
MIN_SUBNETS: Final = 2
_INTERFACE_ENDPOINTS: Final = (
    *("ec2", "ecr.api", "ecr.dkr", "sts", "eks", "eks-auth", "autoscaling", "logs"),
)
"""Services that nodes, the stack's own pods and log shippers call (EKS user guide private-clusters,
2026-11-24), without those that only some pods call: elasticloadbalancing, ssm, xray."""
_WITHOUT_ENDPOINT: Final[Mapping[str, Collection[str]]] = {
    "ap-southeast-5": ("eks",),
    **dict.fromkeys(("ap-southeast-7", "mx-central-1", "ap-east-2"), ("eks", "eks-auth")),
    # No source lists the endpoint there.
    **dict.fromkeys(("cn-north-1", "cn-northwest-1"), ("eks",)),
}
"""Region -> the endpoints that it lacks (EKS user guide vpc-interface-endpoints, 2026-11-24)."""
DEFAULT_DISK_GIB: Final = 20
"""Too small for CUDA images."""
MAX_DISK_GIB: Final = 65536
"""Limit of a gp3 volume (EBS user guide, 64 TiB)."""
MAX_POOL_NODES: Final = 100_000
"""Limit of the largest EKS cluster. A node group has a quota of 450, which AWS can raise."""
AUTO_MODE_FAMILIES: Final = frozenset(
    (
        "c8id", "c8i", "c8i-flex", "c8gd", "c8gn", "c8g", "c8a", "c8gb", "c7a", "c7g", "c7gn",
        "c7gd", "c7i", "c7i-flex", "c6a", "c6g", "c6i", "c6gn", "c6id", "c6in", "c6gd", "c5", "c5a",
        "c5d", "c5ad", "c5n", "c4", "m8id", "m8i", "m8i-flex", "m8a", "m8azn", "m8gn", "m8gb",
        "m8gd", "m8g", "m7i", "m7a", "m7g", "m7gd", "m7i-flex", "m6a", "m6i", "m6in", "m6g",
        "m6idn", "m6id", "m6gd", "m5", "m5a", "m5ad", "m5n", "m5dn", "m5d", "m5zn", "m4", "r8id",
        "r8i", "r8i-flex", "r8gn", "r8gb", "r8gd", "r8g", "r8a", "r7a", "r7iz", "r7gd", "r7i",
        "r7g", "r6a", "r6i", "r6id", "r6in", "r6idn", "r6g", "r6gd", "r5", "r5n", "r5a", "r5dn",
        "r5b", "r5ad", "r5d", "r4", "t4g", "t3", "t3a", "t2", "z1d", "x8aedz", "x8g", "x8i", "x2gd",
        "i8ge", "i7i", "i8g", "i7ie", "i4g", "i4i", "i3", "i3en", "is4gen", "d3", "d3en", "im4gn",
        "p6-b200", "p6-b300", "p5", "p5e", "p5en", "p4d", "p4de", "p3dn", "g7e", "g6", "gr6", "g6e",
        "g5g", "g5", "g4dn", "g4ad", "inf2", "inf1", "trn1", "trn1n", "trn2", "hpc8a", "x2iezn",
        "x2iedn", "x2idn",
    )
)  # fmt: skip
"""Instance families that EKS Auto Mode launches, except the sizes nano, micro and small
(awsdocs/amazon-eks-user-guide 06faff1, automode-learn-instances.adoc, read 2026-11-24)."""
KARPENTER_CLAIM_FAMILIES: Final = frozenset(
    (
        "g4dn", "g5", "g5g", "g6", "gr6", "g6e", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en",
        "p6-b200", "p6-b300",
    )
)  # fmt: skip
"""Families of whose types `images.KARPENTER` knows the GPUs before a node has started, so that it
starts one for a claim (aws/karpenter-provider-aws 1.15.0, pkg/providers/drametadata, read
2026-11-30). g6f and gr6f are there too, and were removed in 1.15.2, which adds g7 and g7e."""
REGIONS: Final = (
    "af-south-1", "ap-east-1", "ap-east-2", "ap-northeast-1", "ap-northeast-2",
    "ap-northeast-3", "ap-south-1", "ap-south-2", "ap-southeast-1", "ap-southeast-2",
    "ap-southeast-3", "ap-southeast-4", "ap-southeast-5", "ap-southeast-6", "ap-southeast-7",
    "ca-central-1", "ca-west-1", "eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1",
    "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3", "il-central-1", "me-central-1",
    "me-south-1", "mx-central-1", "sa-east-1", "us-east-1", "us-east-2", "us-west-1",
    "us-west-2", "cn-north-1", "cn-northwest-1", "us-gov-east-1", "us-gov-west-1",
)  # fmt: skip
"""Regions with EKS, without the isolated and sovereign ones, from botocore's endpoints. New regions
open: use it only for suggestions."""
LOCATED_REGIONS: Final = (
    "us-east-1", "us-east-2", "us-west-1", "us-west-2", "af-south-1", "ap-southeast-3", "ap-east-1",
    "ap-south-2", "ap-southeast-4", "ap-south-1", "ap-northeast-3", "ap-northeast-2",
    "ap-southeast-1", "ap-southeast-2", "ap-northeast-1", "ca-central-1", "eu-central-1",
    "eu-west-1", "eu-west-2", "eu-west-3", "eu-south-2", "eu-north-1", "eu-central-2",
    "il-central-1", "me-south-1", "me-central-1", "sa-east-1", "us-gov-west-1",
)  # fmt: skip
"""Regions, with their Local Zones, in which EC2 says where in the network an instance is, in the
order of docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-topology-prerequisites, and
DescribeInstanceTopology in the API reference for Local Zones; both read on 2026-11-24. Elsewhere
the call is an UnsupportedOperation, and nodes get no labels (kubernetes/cloud-provider-aws,
pkg/providers/v1/topology.go)."""
GP3_THROUGHPUT: Final = (125, 2000)
"""Throughput of a gp3 volume in MiB/s; every volume has at least the first value."""
GP3_IOPS: Final = (3000, 80000)
"""IOPS of a gp3 volume; every volume has at least the first value."""
GP3_IOPS_PER_THROUGHPUT: Final = 4
"""Minimum IOPS for each MiB/s (EBS user guide: at most 0.25 MiB/s per IOPS)."""
GP3_IOPS_PER_GIB: Final = 500
"""Maximum IOPS for each GiB (EBS user guide)."""
CAPACITY_TYPES: Final = ("ON_DEMAND", "SPOT", "CAPACITY_BLOCK")

CONTROL_PLANE_EXCLUDED_ZONES: Final[Mapping[str, str]] = MappingProxyType(
    {"us-east-1": "use1-az3", "us-west-1": "usw1-az2", "ca-central-1": "cac1-az3"}
)
"""Region -> the zone ID in which EKS places no control plane, for `excludeZoneIds`. The zone name
for it differs by account (often us-east-1e). Several modules quote EKS's network requirements for
it; the page itself was not read."""

AMI_RELEASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "1.30": "1.30.14-20260714",
        "1.31": "1.31.14-20260714",
        "1.32": "1.32.13-20260714",
        "1.33": "1.33.13-20260714",
        "1.34": "1.34.9-20260714",
        "1.35": "1.35.6-20260714",
        "1.36": "1.36.2-20260714",
    }
)
"""Kubernetes minor -> the `releaseVersion` of its AL2023 images in the newest release with a public
changelog (amazon-eks-ami CHANGELOG, v20260714, read again on 2026-11-23). Newer ones exist, such as
1.35.7-20260903; used only as an example in messages, never as a default."""
BOTH_DRIVERS_SINCE: Final = "20260917"
"""From this release on, AL2023 images contain two driver branches and choose by instance type at
boot (amazon-eks-ami pull request 2819 and issue 2768, 2026-09-21)."""
TOOLKIT_SINCE: Final = "20251023"
"""From this release on, AL2023 images contain NVIDIA's toolkit 1.18 or later; before, 1.17.9 or
older, whose `nvidia-ctk` ends with an error for the hook disable-device-node-modification in the
CDI files of `images.DEVICE_PLUGIN`, so that no GPU container starts. Bottlerocket has a plugin of
its own. (amazon-eks-ami CHANGELOG, read 2026-11-28; dra-driver-nvidia-gpu issue 568.)"""
DRIVERS: Final = (580, 595)
"""The branches in AL2023 images since then; older ones have the first."""
_FIRST_580: Final = {
    "1.30": "20251120", "1.31": "20251108", "1.32": "20251108", "1.33": "20251029",
}  # fmt: skip
"""Kubernetes minor -> the release from which its AL2023 images have branch 580; of the others, all
since `TOOLKIT_SINCE` do. Before, back to 20250807, it is 570 (amazon-eks-ami CHANGELOG, rows of
kmod-nvidia-latest-dkms, read 2026-11-29)."""

SECURITY_GROUPS: Final = 5
"""Security groups of a network interface, unless AWS has raised the quota L-2AFB9258."""
MAX_SECURITY_GROUPS: Final = 16
"""The most that AWS raises it to (vpc/latest/userguide/amazon-vpc-limits.html)."""
INITIALIZATION: Final = 5000
"""MiB/s at which EBS copies snapshots to volumes at the same time, in a region, unless AWS has
raised the quota (ebs/latest/userguide/initalize-volume.html, "Quotas", read 2026-11-29)."""

EFA_ENV: Final[Mapping[str, str]] = MappingProxyType(
    {"FI_PROVIDER": "efa", "NCCL_BUFFSIZE": "8388608", "NCCL_P2P_NET_CHUNKSIZE": "524288"}
)
"""Variables of NCCL with Elastic Fabric Adapters: the first as in awslabs/awsome-distributed-ai
micro-benchmarks/nccl-tests, the others as in docs.aws.amazon.com/eks/latest/userguide/
node-efa.html (2026-08)."""
_EFA_HUGE_PAGES_MIB: Final = 2 * 5128
"""What the EFA driver of AL2023's images takes of a node's memory (the same page, read
2026-11-28)."""
_EFA_HUGE_PAGES_MIB_PER_CPU: Final = 2 * 110
"""The same for Bottlerocket's images, of each CPU, unless the user sets vm.nr_hugepages
(bottlerocket-core-kit sources/api/corndog, compute_hugepages_for_efa, read 2026-11-29)."""


def efa_huge_pages_mib(os: str, vcpu: int) -> int:
    """The memory, in MiB, that a node with EFA has as huge pages. Pods request none: libfabric
    takes ordinary memory then (ofi_bufpool_grow in prov/util/src/util_buf.c, read 2026-11-29)."""
    return _EFA_HUGE_PAGES_MIB_PER_CPU * vcpu if os == "bottlerocket" else _EFA_HUGE_PAGES_MIB


_AMI_TYPES: Final[Mapping[tuple[str, str, bool], str]] = MappingProxyType(
    {
        ("al2023", "amd64", True): "AL2023_x86_64_NVIDIA",
        ("al2023", "arm64", True): "AL2023_ARM_64_NVIDIA",
        ("al2023", "amd64", False): "AL2023_x86_64_STANDARD",
        ("al2023", "arm64", False): "AL2023_ARM_64_STANDARD",
        ("bottlerocket", "amd64", True): "BOTTLEROCKET_x86_64_NVIDIA",
        ("bottlerocket", "arm64", True): "BOTTLEROCKET_ARM_64_NVIDIA",
        ("bottlerocket", "amd64", False): "BOTTLEROCKET_x86_64",
        ("bottlerocket", "arm64", False): "BOTTLEROCKET_ARM_64",
    }
)

REMOVED_AMI_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AL2_x86_64": "AL2023_x86_64_STANDARD",
        "AL2_x86_64_GPU": "AL2023_x86_64_NVIDIA",
        "AL2_ARM_64": "AL2023_ARM_64_STANDARD",
    }
)
"""amiType -> its replacement: EKS stopped publishing Amazon Linux 2 images on 2025-11-26, and has
none for Kubernetes 1.33 and later (amazon-eks-ami README)."""

_BOTTLEROCKET_ARM: Final = ("g5g",)
"""The only family with NVIDIA GPUs and Arm CPUs that Bottlerocket supports (EKS user guide,
ml-eks-optimized-ami)."""

_LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "K80": "nvidia-tesla-k80",
        "P100": "nvidia-tesla-p100",
        "V100": "nvidia-tesla-v100",
        "T4": "nvidia-tesla-t4",
        "A100": "nvidia-tesla-a100",
        "A10G": "nvidia-a10g",
        "L4": "nvidia-l4",
        "L40S": "nvidia-l40s",
    }
)
"""`k8s.amazonaws.com/accelerator` as Cluster Autoscaler lists it (aws_cloud_provider.go)."""

QUOTA_SERVICE: Final = "ec2"
QUOTA_CODES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "G_VT": ("L-DB2E81BA", "L-3819A6DF"),
        "P": ("L-417A185B", "L-7212CCBC"),
        "P5": ("L-417A185B", "L-C4BD4855"),
        "standard": ("L-1216C47A", "L-34B43A08"),
    }
)
"""Instance family group -> quota codes for on-demand and Spot, in vCPUs, often 0 in a new account
(four repositories agree, among them skypilot's table). The Spot quotas are named "All P4, P3 and
P2" and "All P5" (EC2's page of quotas, read 2026-11-23); which of them covers P6 is uncertain."""
MAX_PUBLIC_NETWORKS: Final = 40
"""Quota L-93A74D60, which is not adjustable: CIDRs that may reach a public endpoint (public copies
of docs.aws.amazon.com/general/latest/gr/eks.html and of Service Quotas' list, 2026-11-28)."""
VPC_QUOTA, ADDRESS_QUOTA = "L-F678F1CE VPCs per Region", "L-0263D0A3 EC2-VPC Elastic IPs"
"""Quotas of a VPC of the stack's own, each 5 by default. The first is of the service `vpc`.
https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html (read 2026-11-28)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesVersion:
    """A Kubernetes minor on EKS: 14 months of standard support, then 12 of extended support."""

    minor: str
    standard_until: date | None
    """The day on which extended support begins, at 00:00 UTC; None if it is not known."""
    extended_until: date | None
    """The day from which EKS creates no cluster with this version and upgrades existing ones.
    During extended support, the control plane costs six times as much."""


NOTICE: Final = timedelta(days=60)
"""How long before a date of this catalog a stack that it concerns gets a warning: EKS announces the
end of support 60 days before (docs, "Kubernetes version lifecycle", read 2026-11-28)."""


KUBERNETES_VERSIONS: Final[Mapping[str, KubernetesVersion]] = MappingProxyType(
    {
        minor: KubernetesVersion(minor=minor, standard_until=standard, extended_until=extended)
        for minor, standard, extended in (
            ("1.30", date(2025, 7, 23), date(2026, 7, 23)),
            ("1.31", date(2025, 11, 26), date(2026, 11, 26)),
            ("1.32", date(2026, 3, 23), date(2027, 3, 23)),
            ("1.33", date(2026, 7, 29), date(2027, 7, 29)),
            ("1.34", date(2026, 12, 2), date(2027, 12, 2)),
            ("1.35", date(2027, 3, 27), date(2028, 3, 27)),
            ("1.36", date(2027, 8, 2), date(2028, 8, 2)),
            ("1.37", date(2027, 12, 1), date(2028, 12, 1)),
        )
    }
)
"""Secondary source of 2026-04-24; the dates of standard support for 1.30 to 1.32 and of extended
support for 1.34 and 1.35 are derived from the twelve months. 1.36:
aws-samples/sample-aws-genai-ops-demos pull request 86 (2026-08-03), and the twelve months. 1.37:
aws.amazon.com/about-aws/whats-new/2026/10/amazon-eks-distro-kubernetes-version-1-37 (2026-10-02); a
public project has the end of standard support from the API of us-west-2."""


def interface_endpoints(region: str) -> Sequence[str]:
    """The services for which the nodes of a cluster in the region can use an interface endpoint."""
    lacks = _WITHOUT_ENDPOINT.get(region, ())
    return [service for service in _INTERFACE_ENDPOINTS if service not in lacks]


def support(minor: str, on: date) -> Literal["standard", "extended", "ended"] | None:
    """The support that a Kubernetes minor has on EKS on a given day; None if it is not known.

    "Billing for extended support starts at the beginning of the day that the version reaches end of
    standard support, in the UTC+0 timezone."
    https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html
    """
    version = KUBERNETES_VERSIONS.get(minor)
    if version is None or version.standard_until is None or version.extended_until is None:
        return None
    if on < version.standard_until:
        return "standard"
    return "extended" if on < version.extended_until else "ended"


def instance_type(name: str) -> InstanceType | None:
    """The instance type with this name, with or without GPUs; None if it is not listed."""
    return INSTANCE_TYPES.get(name) or CPU_INSTANCE_TYPES.get(name)


def arch_of(name: str) -> Arch:
    """The architecture of an instance type; amd64 if the type is not listed."""
    instance = instance_type(name)
    return "amd64" if instance is None else instance.arch


_SUCCESSORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "V100 16GB": "g4dn.xlarge (one T4), or p3dn.24xlarge if you need a V100",
        "M60": "g4dn.xlarge (one T4)",
    }
)
"""GPU of a retired instance type -> its replacement."""


def refusal(name: str) -> str | None:
    """Why this instance type is refused for node groups with NVIDIA GPUs, and what to use instead.

    The reason completes "`<instance type>` ...". None if the instance type can be used.
    """
    kind = instance_type(name)
    if kind is None:
        family = [
            other for other in INSTANCE_TYPES if other.partition(".")[0] == name.partition(".")[0]
        ]
        reasons = {other: refusal(other) for other in family}
        if usable := [other for other, reason in reasons.items() if reason is None]:
            return f"does not exist: use one of {', '.join(usable)}"
        if family:
            return reasons[family[0]]
        near = nearest(name[:100], [other for other in INSTANCE_TYPES if not refusal(other)], 0.8)
        hint = f"did you mean {near!r}?" if near else "use, for example, g4dn.xlarge (one T4)"
        return f"is not a known GPU instance type: {hint}"
    if kind.vendor is None:
        return "has no GPU: use, for example, g4dn.xlarge (one T4) or g6.xlarge (one L4)"
    if kind.vendor == "AMD":
        return "has AMD GPUs, for which EKS has no image: use, for example, g4dn.xlarge (one T4)"
    if kind.retired:
        return (
            f"is retired: EC2 has not launched it since {kind.retired}; use, for example, "
            f"{_SUCCESSORS[kind.gpu_model or '']}"
        )
    if kind.fractional:
        return (
            f"has {kind.gpus:g} of a GPU, and a pool needs whole GPUs; driver {DRIVERS[-1]} does "
            f"not support it either: use a g6 such as g6.xlarge (one {kind.gpu_model})"
        )
    if kind.gpu_model == "K80":
        return (
            "has K80 GPUs, whose last driver is 470, which no EKS image has: use, for example, "
            "g4dn.xlarge (one T4)"
        )
    return None


def accelerator_label(gpu_model: str) -> str:
    """The value of `k8s.amazonaws.com/accelerator` for a key of `accelerators.GPUS`.

    Cluster Autoscaler's own value if it has one; otherwise `nvidia-` and the model: `nvidia-h100`.
    The memory size is ignored: both A100 are `nvidia-tesla-a100`.
    """
    model = re.sub(r" [0-9]+GB$", "", gpu_model)
    return _LABELS.get(model) or f"nvidia-{model.lower().replace(' ', '-')}"


def ami_type(os: str, arch: str, *, gpu: bool = True) -> str:
    """The `amiType` for `al2023` or `bottlerocket` on `amd64` or `arm64`.

    Raises ValueError for any other combination.
    """
    try:
        return _AMI_TYPES[os, arch, gpu]
    except KeyError:
        raise ValueError(
            f"no EKS image for '{os}' on '{arch}': al2023 and bottlerocket exist, "
            "each for amd64 and arm64"
        ) from None


def image_refusal(row: InstanceType, os: str, release: str | None) -> tuple[str, str] | None:
    """Why no image of this operating system and `releaseVersion` supports the instance type's GPUs.

    Returns the setting that is wrong and a reason that follows it; None if an image supports them.
    Without a release, EKS uses the newest. Which drivers Bottlerocket has depends on the cluster:
    `bottlerocket_with_drivers`.
    """
    if os == "bottlerocket" and row.arch == "arm64" and not row.name.startswith(_BOTTLEROCKET_ARM):
        return "os", f"bottlerocket has no image for {row.name}; use al2023"
    if row.first_driver is None or row.first_driver <= DRIVERS[0]:
        return None
    if os == "al2023" and "" < al2023_day(release) < BOTH_DRIVERS_SINCE:
        return "releaseVersion", (
            f"{release!r} has only driver {DRIVERS[0]}, and {row.name} needs driver "
            f"{row.first_driver}; give one from {BOTH_DRIVERS_SINCE} or later, or drop the key for "
            "the newest"
        )
    return None


def al2023_driver(release: str | None) -> int | None:
    """The newest branch of NVIDIA's driver in this release of AL2023's images, or in the newest one
    if there is none; None if it is not known."""
    day = al2023_day(release) if release else BOTH_DRIVERS_SINCE
    if day >= BOTH_DRIVERS_SINCE:
        return DRIVERS[-1]
    minor = ".".join(release.split(".")[:2]) if release else ""
    if day >= _FIRST_580.get(minor, TOOLKIT_SINCE):
        return DRIVERS[0]
    return 570 if day >= "20250807" else None


def bottlerocket_with_drivers(version: str) -> tuple[int, int] | None:
    """The first release of Bottlerocket, as major and minor, whose images for this Kubernetes minor
    contain both of `DRIVERS` and choose by the GPU at boot, the first if it supports the GPU; None
    if none of them does.

    From the notes of 1.66.0 for 1.37, and of 1.68.0 for the kernels 6.1 and 6.12, which 1.31 to
    1.35 have; the image of 1.36 has 6.18. bottlerocket.dev/en/os/1.68.x/version-information/
    gpu-drivers lists the second driver for 1.37 only (read 2026-11-28, when 1.69 was the newest).
    """
    _, minor = minor_of(version)
    return None if minor == 36 else (1, 68 if minor < 36 else 66)


def warm_instances(nodes: int, prepared: int, least: int) -> int:
    """How many instances a warm pool holds while its group has so many nodes; `prepared`: the most
    that there are of both, `least`: `minSize` (botocore 1.44.5, autoscaling PutWarmPool)."""
    return max(least, prepared - nodes)


def quota_code(name: str, *, spot: bool = False) -> str | None:
    """The EC2 quota code that nodes of this instance type count against; None if unknown."""
    group = quota_group(name, spot=spot)
    if instance_type(name) is None or group is None:
        return None
    return QUOTA_CODES[group][1 if spot else 0]


_STANDARD: Final = ("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z")
_GROUPS: Final[Mapping[str, str]] = {"g": "G_VT", "gr": "G_VT", "vt": "G_VT", "p": "P"}


def quota_group(name: str, *, spot: bool = False) -> str | None:
    """The key of `QUOTA_CODES` that an instance type counts against; None if unknown.

    EC2 groups types by the letters before the generation, and P's Spot instances also by
    generation.
    """
    family = name.partition(".")[0]
    letters = "".join(itertools.takewhile(str.isalpha, family))
    if spot and letters == "p":
        return {"5": "P5", "6": None}.get(family[1:2], "P")
    return "standard" if letters in _STANDARD else _GROUPS.get(letters)
