"""The settings of the image, the kubelet, the user data and the network of nodes on EKS."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import yaml
from annotated_types import Interval, MaxLen

from ..catalog import eks as catalog
from ..kube import quantity
from ..schema.decode import camel
from ..schema.effect import Sent
from ..schema.limits import (
    QUANTITY,
    QUANTITY_OR_ZERO,
    UNIQUE,
    Limit,
    matching,
    one_of,
    sysctl_for_pods,
)
from ..schema.on_change import Loss, OnChange
from ..schema.outputs import MaybeOutput
from ..schema.refusal import Refusal, refuse
from ..schema.rules import Checked, rule

_USER_DATA = 12 * 1024
"""EC2 accepts 16 KiB (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html, read
2026-11-24); the rest is left for the parts of EKS and of this stack."""
SCRIPTS = ("#!", "#cloud-config")
"""How parts of user data begin that cloud-init runs."""
_TEMPLATE = "LaunchTemplate userData"


def _ssm(value: str) -> str | None:
    """Why the value cannot be an SSM parameter:
    https://github.com/aws/containers-roadmap/issues/1951, open on 2026-11-24."""
    if not value.startswith(("resolve:ssm:", "/", "arn:")):
        return None
    return (
        "EKS resolves no SSM parameter for a managed node group; give what this command prints: "
        f"aws ssm get-parameter --region REGION --name {value.removeprefix('resolve:ssm:')} "
        "--query Parameter.Value"
    )


def _own_image(old: str, new: str) -> Loss | None:
    """EKS cannot switch a node group between its own images and a custom one; another custom image
    recycles the nodes. https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"""
    return "GPU pool" if "null" in (old, new) else None


AMI_ID = Annotated[
    Annotated[
        MaybeOutput,
        matching(
            "the ID of an image such as ami-0123456789abcdef0",
            re.compile(r"ami-[0-9a-f]{8}(?:[0-9a-f]{9})?"),
            hint=_ssm,
        ),
    ]
    | None,
    OnChange(_own_image),
    Sent(
        "LaunchTemplate imageId",
        "NodeGroup nodeGroupNamePrefix",
        "NodeGroup version",
        "EC2NodeClass spec.amiSelectorTerms",
    ),
]
SecurityGroupId = Annotated[
    MaybeOutput,
    matching(
        "the ID of a security group such as sg-0123456789abcdef0",
        re.compile(r"sg-[0-9a-f]{8}(?:[0-9a-f]{9})?"),
    ),
]
SECURITY_GROUPS = Annotated[
    Sequence[SecurityGroupId],
    UNIQUE,
    # One is the cluster's own.
    MaxLen(catalog.MAX_SECURITY_GROUPS - 1),
    Sent("LaunchTemplate vpcSecurityGroupIds[]"),
]
HOP_LIMIT = Annotated[
    int, Interval(ge=1, le=64), Sent("LaunchTemplate metadataOptions.httpPutResponseHopLimit")
]
USER_DATA = Annotated[Sequence[str], Sent(_TEMPLATE)]

_RESERVED = Mapping[
    Annotated[str, one_of("cpu", "memory", "ephemeral-storage", "pid")],
    Annotated[str, QUANTITY_OR_ZERO],
]
_SIGNAL = one_of(
    "memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available",
    "imagefs.inodesFree", "pid.available",
)  # fmt: skip


def _threshold(text: str) -> str | None:
    """The kubelet exits on an amount of 0 (parseThresholdStatement in kubernetes
    pkg/kubelet/eviction/helpers.go, a public copy, read 2026-11-28). It takes a share above 100%,
    with which the node would always be under pressure and evict every pod."""
    share = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?)%", text)
    refused = float(share[1]) > 100 if share else QUANTITY.refusal(text)
    words = f"{text!r} is neither a quantity above 0 nor a share of at most 100%, such as 5%"
    return words if refused else None


_THRESHOLD = Limit(_threshold)
_THRESHOLDS = Mapping[Annotated[str, _SIGNAL], Annotated[str, _THRESHOLD]]
_GRACE = matching("a duration such as 90s or 2m", re.compile(r"(?:[0-9]+(?:h|m|s))+"))


@dataclass(frozen=True, slots=True, kw_only=True)
class EksKubeletArgs(Checked):
    """Settings of the kubelet; the image's defaults apply to those that are omitted. Reserved
    resources are not available to pods, and Cluster Autoscaler takes them into account."""

    max_pods: Annotated[int | None, Interval(ge=16, le=1000)] = None
    """The maximum number of pods on a node, including those of DaemonSets; at most the number of
    addresses that its network interfaces have."""
    kube_reserved: _RESERVED = field(default_factory=dict)
    """Resources reserved for the kubelet and the container runtime: `cpu`, `memory`,
    `ephemeral-storage`, `pid`. Resources that are not listed keep the image's value."""
    system_reserved: _RESERVED = field(default_factory=dict)
    """Resources reserved for the rest of the system, with the same names; by default, none."""
    eviction_hard: _THRESHOLDS = field(default_factory=dict)
    """Thresholds below which pods are evicted immediately: signal -> amount or percentage, such as
    `memory.available: 500Mi` or `nodefs.available: 5%`."""
    eviction_soft: _THRESHOLDS = field(default_factory=dict)
    """Thresholds below which pods are evicted after evictionSoftGracePeriod."""
    eviction_soft_grace_period: Mapping[Annotated[str, _SIGNAL], Annotated[str, _GRACE]] = field(
        default_factory=dict
    )
    """How long a threshold of evictionSoft may be exceeded: signal -> duration."""
    cpu_manager_policy: Literal["none", "static"] | None = None
    """Whether pods that request whole CPUs get exclusive cores (`static`)."""
    topology_manager_policy: (
        Literal["none", "best-effort", "restricted", "single-numa-node"] | None
    ) = None
    """How strictly the CPUs and GPUs of a pod must belong to the same NUMA node."""
    topology_manager_scope: Literal["container", "pod"] | None = None
    """The unit that is aligned: a container, or the whole pod."""
    pod_pids_limit: Annotated[int | None, Interval(ge=1024, le=4194303)] = None
    """The maximum number of processes in a pod."""
    container_log_max_size: Annotated[str | None, QUANTITY_OR_ZERO] = None
    """The maximum size of a container's log file."""
    container_log_max_files: Annotated[int | None, Interval(ge=2, le=100)] = None
    """How many log files are kept per container."""
    allowed_unsafe_sysctls: Sequence[Annotated[str, Limit(sysctl_for_pods)]] = ()
    """Kernel parameters that pods may set although Kubernetes classifies them as unsafe."""

    @rule
    def _check_soft(self) -> Iterator[Refusal]:
        soft, grace = self.eviction_soft, self.eviction_soft_grace_period
        for key, values, partner, other in (
            ("evictionSoft", soft, "evictionSoftGracePeriod", grace),
            ("evictionSoftGracePeriod", grace, "evictionSoft", soft),
        ):
            for signal in values.keys() - other:
                reason = f"the kubelet also needs it in {partner}"
                yield refuse((key, signal))(reason, remedy="add it there")

    @rule
    def _check_reserved(self) -> None:
        cpus = [reserved.get("cpu") for reserved in (self.kube_reserved, self.system_reserved)]
        none = cpus[0] is not None and not any(float(quantity.parse(cpu)) for cpu in cpus if cpu)
        if self.cpu_manager_policy == "static" and none:
            raise refuse(("kubeReserved", "cpu"))(
                "is 0, and with cpuManagerPolicy static the kubelet does not start",
                remedy="reserve some, such as 500m",
            )

    @property
    def settings(self) -> dict[str, Any]:
        """The fields that are set, with the names of `KubeletConfiguration` in snake_case."""
        return {key: value for key, value in asdict(self).items() if value or value == 0}

    @property
    def config(self) -> dict[str, Any]:
        """The settings as fields of `KubeletConfiguration`."""
        return {camel(key): value for key, value in self.settings.items()}

    def reserved(self, memory_gib: float) -> dict[str, Any]:
        """The reserved amounts to pass to `room.eks`, as far as they are set."""
        threshold = self.eviction_hard.get("memory.available")
        of_node = memory_gib * 1024
        return {
            "cpu": _of(self.kube_reserved, "cpu", 1000),
            "mib": _of(self.kube_reserved, "memory", 2**-20),
            "more_cpu": _of(self.system_reserved, "cpu", 1000) or 0,
            "more_mib": _of(self.system_reserved, "memory", 2**-20) or 0,
            "eviction_mib": None if threshold is None else _share(threshold, of_node, 2**-20),
        }

    def disk_gib(self, size: int) -> int:
        """GiB of a node's disk for pods: by default, a tenth is kept free and 1 GiB is reserved."""
        free = _share(self.eviction_hard.get("nodefs.available", "10%"), size, 2**-30)
        kube = _of(self.kube_reserved, "ephemeral-storage", 2**-30)
        system = _of(self.system_reserved, "ephemeral-storage", 2**-30) or 0
        return size - free - (1 if kube is None else kube) - system - 1


def _of(given: Mapping[str, str], key: str, unit: float) -> int | None:
    return -int(-float(quantity.parse(given[key])) * unit // 1) if key in given else None


def _share(threshold: str, whole: float, unit: float) -> int:
    if threshold.endswith("%"):
        return -int(-whole * float(threshold[:-1]) / 100 // 1)
    return -int(-float(quantity.parse(threshold)) * unit // 1)


def check_user_data(parts: Sequence[str], os: str) -> None:
    """Raises `Refusal` for a part that the image's first boot, or EKS, does not accept."""
    if os == "bottlerocket":
        for position, part in enumerate(parts):
            if match := re.search(r"^\s*\[[^\]\n]*[\"'].*\]|\\\"", part, re.MULTILINE):
                # awsdocs/amazon-eks-user-guide latest/ug/nodes/launch-templates.adoc, 2026-11-24.
                raise refuse(("userData", position))(
                    f"EKS cannot merge {match.group().strip()!r}",
                    remedy="write headers without quotes, and values without escaped ones",
                )
    for position, part in enumerate(parts):
        if os == "al2023" and not part.startswith(SCRIPTS) and not _is_node_config(part):
            raise refuse(("userData", position))(
                "begins with neither #! nor #cloud-config, and is no NodeConfig of "
                "node.eks.aws/v1alpha1",
                remedy="write a script, a cloud-config or a NodeConfig",
            )
    if (size := sum(len(part.encode()) for part in parts)) > _USER_DATA:
        raise refuse("userData")(
            f"has {size} bytes; allowed: {_USER_DATA} together; load the rest from S3"
        )


def _is_node_config(part: str) -> bool:
    """Whether nodeadm reads the text, which may be JSON or begin with a comment."""
    try:
        config = yaml.safe_load(part)
    except yaml.YAMLError:
        return False
    kind = (config.get("apiVersion"), config.get("kind")) if isinstance(config, dict) else None
    return kind == ("node.eks.aws/v1alpha1", "NodeConfig")
