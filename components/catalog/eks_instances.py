"""EC2 instance types with GPUs, and the common families without.

Read on 2026-11-21. `source` of a row: karp is karpenter-provider-aws v1.14.1 instance-types.md
(2026-08-21), caec2 kubernetes/autoscaler ec2_instance_types.go (2026-01-22), boto botocore 1.44.5.
Prices are Linux on demand in us-east-1, US dollars per hour, from karpenter's pricing table of
2026-07-20; those of instance types without GPUs from the table of 2026-01-19. eks-charts is
aws/eks-charts' list of instance types that EC2 may not describe, and EKS's page on GPU images.

Retired: EC2 stopped describing P3 (except P3dn) in May 2026 (karpenter-provider-aws a1ea5f8f7;
dstackai/gpuhunt pull request 233; skypilot pull request 10113), and no account can launch G3 or G3s
since 2025-10-31 (AWS's notice, SummitRoute/aws_breaking_changes issue 114). Drivers: 595 is the
first to support G7, and supports neither P3dn nor G6f (amazon-eks-ami doc/usage/g7-ami.md,
2026-07).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

Arch = Literal["amd64", "arm64"]
Quota = Literal["G_VT", "P", "standard"]
Blocks = Literal["none", "also", "only"]
_Size = tuple[str, float, int, float, int, int | None, float | None]
"""Size, GPUs, vCPUs, GiB, EFA interfaces, NVMe GB, dollars per hour."""


LOCATED_FAMILIES: Final = (
    *("g6e", "g7e", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "p6e-gb200"),
)
"""Families of `InstanceType.located`, all sizes but p5.4xlarge."""

_EFA_CARDS: Final[Mapping[str, Sequence[int]]] = {
    "p6-b300": range(1, 17),
    # Of the cards that share a GPU and a physical one, one has the bandwidth of all.
    "p6e-gb200": range(1, 16, 4),
    "p6e-gb300": range(1, 16, 4),
}
"""Family -> `InstanceType.efa_cards`, if they are not the first ones (AWS's recommendation in
docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html, read 2026-11-28)."""

_INTERFACES: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        name: row
        for row, names in {
            (2, 4): "g4ad.xlarge g4ad.2xlarge",
            (2, 10): "g6f.large",
            (2, 50): "p5.48xlarge p5e.48xlarge",
            (3, 6): "t3.medium t3a.medium t4g.medium",
            (3, 10): "g4ad.4xlarge g4dn.xlarge g4dn.2xlarge g4dn.4xlarge",
            (3, 12): "t3.large t3a.large t4g.large",
            (4, 15): (
                "g4ad.8xlarge g4dn.8xlarge g4dn.16xlarge g5.xlarge g5.2xlarge g5g.xlarge "
                "g5g.2xlarge g6.xlarge g6.2xlarge g6e.xlarge g6e.2xlarge g6f.xlarge g6f.2xlarge"
            ),
            (4, 30): "p5.4xlarge",
            (4, 50): "p5en.48xlarge p6-b200.48xlarge p6-b300.48xlarge",
            (4, 64): "g7.2xlarge g7e.2xlarge",
            (7, 50): "g5.48xlarge",
            (8, 30): (
                "g4ad.16xlarge g4dn.12xlarge g5.4xlarge g5.8xlarge g5.16xlarge g5g.4xlarge "
                "g5g.8xlarge g6.4xlarge g6.8xlarge g6.12xlarge g6e.4xlarge g6e.8xlarge "
                "g6f.4xlarge gr6.4xlarge gr6.8xlarge gr6f.4xlarge"
            ),
            (8, 64): "g7.4xlarge g7e.4xlarge g7e.8xlarge",
            (10, 30): "g6e.12xlarge",
            (10, 50): "g6e.24xlarge g6e.48xlarge",
            (10, 64): "g7.8xlarge g7e.12xlarge g7e.24xlarge g7e.48xlarge",
            (12, 64): "g7.12xlarge g7.48xlarge",
            (15, 50): (
                "g4dn.metal g5.12xlarge g5.24xlarge g5g.16xlarge g5g.metal g6.16xlarge "
                "g6.24xlarge g6.48xlarge g6e.16xlarge p3dn.24xlarge p4d.24xlarge p4de.24xlarge"
            ),
            (15, 30): "i4i.24xlarge",
            (24, 64): "g7.24xlarge",
        }.items()
        for name in names.split()
    }
)
"""Instance type -> network interfaces of its first card, and IPv4 addresses of each: amazon-eks-ami
nodeadm/internal/kubelet/instance-info.jsonl (2026-07-01), which matches EC2's own answers."""

_NETWORK_GBPS: Final[Mapping[str, int]] = MappingProxyType(
    {
        name: gbps
        for gbps, names in {
            400: "p4d.24xlarge p4de.24xlarge",
            3200: "p5.48xlarge p5e.48xlarge p5en.48xlarge p6-b200.48xlarge",
            6400: "p6-b300.48xlarge",
        }.items()
        for name in names.split()
    }
)
"""Instance type -> Gbit/s of all its network cards together, for those whose GPUs have NVLink and
that EFA makes faster than one card (karpenter-provider-aws v1.14.1 instance-types.md, network
bandwidth). Without NVLink, as on g6e and g7e, an all-reduce is limited by PCIe: 28 GB/s of eight
GPUs (NVIDIA/nccl issue 1639), where g7e.48xlarge has a network of 200."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """An EC2 instance type."""

    name: str
    gpus: float
    """A number below 1 is a share of one GPU; EC2 then reports none."""
    gpu_model: str | None
    """Key of `accelerators.GPUS`, or AMD's name; None without GPUs."""
    gpu_memory_mib: int | None
    """Memory of each GPU; None if unknown."""
    vendor: Literal["NVIDIA", "AMD"] | None = "NVIDIA"
    vcpu: int
    """vCPUs, which the quotas count."""
    memory_gib: float
    arch: Arch = "amd64"
    interfaces: tuple[int, int] | None = None
    """Network interfaces of the first card, and IPv4 addresses of each; None if unknown."""
    efa_interfaces: int = 0
    """The most that EC2 attaches."""
    local_nvme_gb: int | None = None
    """None if it has no local NVMe, or the source does not say."""
    on_demand: float | None
    """None if the source has no price for us-east-1."""
    quota: Quota
    source: str = "karp"
    retired: str | None = None
    """The month in which EC2 stopped describing it, `2026-05`; None while it can be launched."""
    first_driver: int | None = None
    """The first driver branch that supports it; None if the drivers of all images do."""
    blocks: Blocks = "none"
    """Whether EC2 sells it in Capacity Blocks: `also`, in addition to on demand and Spot, or `only`
    (`SupportedUsageClasses` of DescribeInstanceTypes, in moto 5.2.5)."""
    uncertain: bool = False
    """The shape comes from no primary source: only warn about it, never refuse."""
    notes: str = ""

    @property
    def efa_cards(self) -> Sequence[int]:
        """The network cards with an EFA interface each, as AWS recommends; empty without EFA."""
        cards = _EFA_CARDS.get(self.name.partition(".")[0])
        return range(self.efa_interfaces) if cards is None else cards

    @property
    def network_gbps(self) -> int | None:
        """Gbit/s of all its network cards together; None if NVLink is not faster, or unknown."""
        return _NETWORK_GBPS.get(self.name)

    @property
    def located(self) -> bool:
        """Whether EC2 says where in the network an instance is: docs.aws.amazon.com/AWSEC2/latest/
        UserGuide/ec2-instance-topology-prerequisites, read 2026-11-24."""
        family = self.name.partition(".")[0]
        return family in LOCATED_FAMILIES and self.name != "p5.4xlarge"

    @property
    def max_pods(self) -> int | None:
        """The maximum number of pods on a node, derived from its number of addresses:
        amazon-eks-ami nodeadm/internal/kubelet/eni_max_pods.go. None if unknown."""
        return self.pods(efa=False) if self.interfaces else None

    def pods(self, efa: bool) -> int:
        """`max_pods`, less those of the interface whose place EFA takes on the first card, which
        nodeadm does not subtract: ENILimitedPods of karpenter-provider-aws (pull request 9027)."""
        count, addresses = self.interfaces or (0, 0)
        return (count - (efa and 0 in self.efa_cards)) * (addresses - 1) + 2

    def addresses(self, pods: int) -> int:
        """VPC addresses that a node uses for this many pod addresses: each interface needs one more
        for itself. Counts one interface if their number is unknown."""
        of_each = self.interfaces[1] - 1 if self.interfaces else pods
        return pods + -(-pods // of_each)

    @property
    def fractional(self) -> bool:
        """Whether the instance has only a share of a GPU."""
        return 0 < self.gpus < 1


def _family(
    family: str, gpu_model: str, gpu_memory_mib: int | None, *rows: _Size, **details: Any
) -> Iterator[InstanceType]:
    for size, gpus, vcpu, memory_gib, efa, nvme, price in rows:
        yield InstanceType(
            name=f"{family}.{size}",
            gpus=gpus,
            gpu_model=gpu_model,
            gpu_memory_mib=gpu_memory_mib and int(gpu_memory_mib * min(gpus, 1)),
            vcpu=vcpu,
            memory_gib=memory_gib,
            interfaces=_INTERFACES.get(f"{family}.{size}"),
            efa_interfaces=efa,
            local_nvme_gb=nvme,
            on_demand=price,
            quota="P" if family.startswith("p") else "G_VT",
            **details,
        )


def _cpu(family: str, sizes: str, large: float) -> Iterator[InstanceType]:
    """Price and memory of a family are in proportion to vCPUs, except for the smallest burstable
    size."""
    kind = family.partition("-")[0]
    ends = next((end for end in _CPU_INTERFACES if kind.endswith(end)), "")
    for size in sizes.split():
        factor = size.removesuffix("xlarge")
        vcpu = 2 if size in ("medium", "large") else 4 * int(factor or 1)
        share = 0.5 if size == "medium" else vcpu / 2
        name = f"{family}.{size}"
        yield InstanceType(
            name=name,
            gpus=0,
            gpu_model=None,
            gpu_memory_mib=None,
            vendor=None,
            vcpu=vcpu,
            memory_gib=share * 2 * _GIB_PER_VCPU[family[0]],
            interfaces=_INTERFACES.get(name)
            or next(rate for most, rate in _CPU_INTERFACES[ends].items() if vcpu <= most),
            arch="arm64" if family[2:3] == "g" else "amd64",
            on_demand=round(large * share, 5),
            quota="standard",
            notes="burstable" if family[0] == "t" else "",
        )


_ROWS: Final = (
    *_family(
        "g4ad", "Radeon Pro V520", 8192,
        ("xlarge", 1, 4, 16, 0, 150, 0.37853),
        ("2xlarge", 1, 8, 32, 0, 300, 0.54117),
        ("4xlarge", 1, 16, 64, 0, 600, 0.867),
        ("8xlarge", 2, 32, 128, 0, 1200, 1.734),
        ("16xlarge", 4, 64, 256, 0, 2400, 3.468),
        vendor="AMD",
    ),
    *_family(
        "g4dn", "T4", 16384,
        ("xlarge", 1, 4, 16, 0, 125, 0.526),
        ("2xlarge", 1, 8, 32, 0, 225, 0.752),
        ("4xlarge", 1, 16, 64, 0, 225, 1.204),
        ("8xlarge", 1, 32, 128, 1, 900, 2.176),
        ("12xlarge", 4, 48, 192, 1, 900, 3.912),
        ("16xlarge", 1, 64, 256, 1, 900, 4.352),
        ("metal", 8, 96, 384, 1, 1800, 7.824),
    ),
    *_family(
        "g5", "A10G", 22888,
        ("xlarge", 1, 4, 16, 0, 250, 1.006),
        ("2xlarge", 1, 8, 32, 0, 450, 1.212),
        ("4xlarge", 1, 16, 64, 0, 600, 1.624),
        ("8xlarge", 1, 32, 128, 1, 900, 2.448),
        ("12xlarge", 4, 48, 192, 1, 3800, 5.672),
        ("16xlarge", 1, 64, 256, 1, 1900, 4.096),
        ("24xlarge", 4, 96, 384, 1, 3800, 8.144),
        ("48xlarge", 8, 192, 768, 1, 7600, 16.288),
    ),
    *_family(
        "g5g", "T4G", 16384,
        ("xlarge", 1, 4, 8, 0, None, 0.42),
        ("2xlarge", 1, 8, 16, 0, None, 0.556),
        ("4xlarge", 1, 16, 32, 0, None, 0.828),
        ("8xlarge", 1, 32, 64, 0, None, 1.372),
        ("16xlarge", 2, 64, 128, 0, None, 2.744),
        ("metal", 2, 64, 128, 0, None, 2.744),
        arch="arm64",
    ),
    *_family(
        "g6", "L4", 22888,
        ("xlarge", 1, 4, 16, 0, 250, 0.8048),
        ("2xlarge", 1, 8, 32, 0, 450, 0.9776),
        ("4xlarge", 1, 16, 64, 0, 600, 1.3232),
        ("8xlarge", 1, 32, 128, 1, 900, 2.0144),
        ("12xlarge", 4, 48, 192, 1, 3760, 4.6016),
        ("16xlarge", 1, 64, 256, 1, 1880, 3.3968),
        ("24xlarge", 4, 96, 384, 1, 3760, 6.6752),
        ("48xlarge", 8, 192, 768, 1, 7520, 13.3504),
    ),
    *_family(
        "g6e", "L40S", 45776,
        ("xlarge", 1, 4, 32, 0, 250, 1.861),
        ("2xlarge", 1, 8, 64, 0, 450, 2.24208),
        ("4xlarge", 1, 16, 128, 0, 600, 3.00424),
        ("8xlarge", 1, 32, 256, 1, 900, 4.52856),
        ("12xlarge", 4, 48, 384, 1, 3800, 10.49264),
        ("16xlarge", 1, 64, 512, 1, 1900, 7.57719),
        ("24xlarge", 4, 96, 768, 2, 3800, 15.06559),
        ("48xlarge", 8, 192, 1536, 4, 7600, 30.13118),
    ),
    *_family(
        "g6f", "L4", 22888,
        ("large", 0.125, 2, 8, 0, 100, 0.202),
        ("xlarge", 0.125, 4, 16, 0, 100, 0.2375),
        ("2xlarge", 0.25, 8, 32, 0, 200, 0.475),
        ("4xlarge", 0.5, 16, 64, 0, 450, 0.95),
    ),
    *_family(
        "g7", "RTX PRO 4500", 32768,
        ("2xlarge", 1, 8, 32, 0, 440, 2.52),
        ("4xlarge", 1, 16, 64, 0, 875, 3.04208),
        ("8xlarge", 1, 32, 128, 1, 930, 4.08624),
        ("12xlarge", 2, 48, 192, 1, 1900, 7.12832),
        ("24xlarge", 4, 96, 384, 1, 3800, 14.25664),
        ("48xlarge", 8, 192, 768, 2, 7600, 28.51328),
        first_driver=595,
    ),
    *_family(
        "g7e", "RTX PRO 6000", 98304,
        ("2xlarge", 1, 8, 64, 0, 1900, 3.36312),
        ("4xlarge", 1, 16, 128, 0, 1900, 3.99816),
        ("8xlarge", 1, 32, 256, 1, 1900, 5.26824),
        ("12xlarge", 2, 48, 512, 1, 3800, 8.28608),
        ("24xlarge", 4, 96, 1024, 2, 7600, 16.57216),
        ("48xlarge", 8, 192, 2048, 4, 15200, 33.14432),
    ),
    *_family(
        "gr6", "L4", 22888,
        ("4xlarge", 1, 16, 128, 0, 600, 1.5392),
        ("8xlarge", 1, 32, 256, 1, 900, 2.4464),
    ),
    *_family("gr6f", "L4", 22888, ("4xlarge", 0.5, 16, 128, 0, 450, 1.066)),
    *_family("p3dn", "V100 32GB", 32768, ("24xlarge", 8, 96, 768, 1, 1800, 31.212)),
    *_family(
        "p4d", "A100 40GB", 40960,
        ("24xlarge", 8, 96, 1152, 4, 8000, 21.957642),
        blocks="also",
    ),
    *_family(
        "p4de", "A100 80GB", 81920,
        ("24xlarge", 8, 96, 1152, 4, 8000, 27.44705),
        blocks="also",
    ),
    *_family(
        "p5", "H100", 81920,
        ("4xlarge", 1, 16, 256, 1, 3800, 6.88),
        ("48xlarge", 8, 192, 2048, 32, 30400, 55.04),
        blocks="also",
    ),
    *_family(
        "p5e", "H200", 144384, ("48xlarge", 8, 192, 2048, 32, 30400, None), blocks="also"
    ),
    *_family(
        "p5en", "H200", 144384,
        ("48xlarge", 8, 192, 2048, 16, 30400, 63.296),
        blocks="also",
    ),
    *_family(
        "p6-b200", "B200", 183359,
        ("48xlarge", 8, 192, 2048, 8, 30400, 113.9328),
        blocks="also",
    ),
    *_family(
        "p6-b300", "B300", 275040,
        ("48xlarge", 8, 192, 4096, 16, 30400, 142.416),
        blocks="also",
    ),
    *_family(
        "p3", "V100 16GB", 16384,
        ("2xlarge", 1, 8, 61, 0, None, 3.06),
        ("8xlarge", 4, 32, 244, 0, None, 12.24),
        ("16xlarge", 8, 64, 488, 0, None, 24.48),
        source="caec2",
        retired="2026-05",
    ),
    *_family(
        "p2", "K80", 12288,
        ("xlarge", 1, 4, 61, 0, None, 0.9),
        ("8xlarge", 8, 32, 488, 0, None, 7.2),
        ("16xlarge", 16, 64, 732, 0, None, 14.4),
        source="boto+karpprice",
        uncertain=True,
    ),
    *_family(
        "g3s", "M60", 8192,
        ("xlarge", 1, 4, 30.5, 0, None, 0.75),
        source="boto+karpprice",
        uncertain=True,
        retired="2025-10",
    ),
    *_family(
        "g3", "M60", 8192,
        ("4xlarge", 1, 16, 122, 0, None, 1.14),
        ("8xlarge", 2, 32, 244, 0, None, 2.28),
        ("16xlarge", 4, 64, 488, 0, None, 4.56),
        source="boto+karpprice",
        uncertain=True,
        retired="2025-10",
    ),
    *_family(
        "p6e-gb200", "GB200", None,
        ("36xlarge", 4, 144, 960, 17, None, None),
        arch="arm64",
        source="boto enum only",
        uncertain=True,
        blocks="only",
        notes="a part of an UltraServer",
    ),
    *_family(
        "p6e-gb300", "GB300", None,
        ("36xlarge", 4, 144, 960, 17, None, None),
        arch="arm64",
        source="eks-charts",
        uncertain=True,
        blocks="only",
        notes="a part of an UltraServer; vCPUs and memory are taken to be the GB200's",
    ),
)  # fmt: skip

_GIB_PER_VCPU: Final = {"c": 2, "m": 4, "r": 8, "i": 8, "t": 4}
"""First letter of a family -> GiB for each vCPU."""
_OLDER: Final = {2: (3, 10), 8: (4, 15), 48: (8, 30), 96: (15, 50)}
_CPU_INTERFACES: Final[Mapping[str, Mapping[int, tuple[int, int]]]] = {
    "in": {**_OLDER, 128: (8, 50)},
    "idn": {**_OLDER, 128: (8, 50)},
    "8a": {
        2: (3, 20), 4: (4, 20), 8: (4, 40), 16: (8, 40), 32: (10, 40), 48: (12, 64), 96: (16, 64),
        192: (24, 64),
    },
    "8i": {
        2: (3, 20), 8: (4, 30), 16: (8, 50), 32: (10, 50), 48: (12, 50), 96: (16, 64),
        384: (24, 64),
    },
    "": {**_OLDER, 192: (15, 50)},
}  # fmt: skip
"""End of a family -> vCPUs at most -> `InstanceType.interfaces`, as DescribeInstanceTypes answers
(moto 5.2.5)."""
_TO_16: Final = "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge"
_CPU_FAMILIES: Final[Mapping[str, str]] = {
    _TO_16: (
        "m6g 0.077 m6gd 0.0904 m7g 0.0816 m7gd 0.1068 m7i-flex 0.09576 m8i-flex 0.10055 c6g 0.068 "
        "c6gd 0.0768 c6gn 0.0864 c7g 0.0725 c7gd 0.09072 c7gn 0.1248 c7i-flex 0.08479 "
        "c8i-flex 0.08902 r6g 0.1008 r6gd 0.1152 r7g 0.1071 r7gd 0.13608 r8i-flex 0.13197"
    ),
    f"{_TO_16} 24xlarge": (
        "m5 0.096 m5a 0.086 m5ad 0.103 m5d 0.113 m5dn 0.136 m5n 0.119 c5a 0.077 c5ad 0.086 "
        "r5 0.126 r5a 0.113 r5ad 0.131 r5b 0.149 r5d 0.144 r5dn 0.167 r5n 0.149"
    ),
    f"{_TO_16} 24xlarge 32xlarge": (
        "m6i 0.096 m6id 0.11865 m6in 0.13923 m6idn 0.15912 c6i 0.085 c6id 0.1008 c6in 0.1134 "
        "r6i 0.126 r6id 0.1512 r6in 0.17433 r6idn 0.19539 i4i 0.1716"
    ),
    f"{_TO_16} 24xlarge 32xlarge 48xlarge": (
        "m6a 0.0864 m7a 0.11592 c6a 0.0765 c7a 0.10264 r6a 0.1134 r7a 0.15215"
    ),
    f"{_TO_16} 24xlarge 48xlarge": (
        "m7i 0.1008 m8a 0.12172 m8g 0.08976 m8gd 0.11532 c7i 0.08925 c8a 0.10777 c8g 0.07976 "
        "c8gd 0.09798 r7i 0.1323 r8a 0.15976 r8g 0.11782 r8gd 0.14696"
    ),
    f"{_TO_16} 24xlarge 32xlarge 48xlarge 96xlarge": "m8i 0.10584 c8i 0.09371 r8i 0.13892",
    "large xlarge 2xlarge 4xlarge 9xlarge 12xlarge 18xlarge 24xlarge": "c5 0.085 c5d 0.096",
    "medium large xlarge 2xlarge": "t3 0.0832 t3a 0.0752 t4g 0.0672",
}
"""Sizes -> families that have them, each with the price of its size large."""

INSTANCE_TYPES: Final[Mapping[str, InstanceType]] = MappingProxyType(
    {row.name: row for row in _ROWS}
)
"""Every instance type with GPUs, including those that are retired or that no EKS image supports."""

CPU_INSTANCE_TYPES: Final[Mapping[str, InstanceType]] = MappingProxyType(
    {
        row.name: row
        for sizes, families in _CPU_FAMILIES.items()
        for family, large in re.findall(r"(\S+) (\S+)", families)
        for row in _cpu(family, sizes, float(large))
    }
)
"""Common instance types without GPUs, from 2 vCPUs, not bare metal. An unlisted one may exist."""
CPU_INSTANCE_TYPE: Final = "|".join(
    rf"(?:{'|'.join(families.split()[::2])})\.(?:{sizes.replace(' ', '|')})"
    for sizes, families in _CPU_FAMILIES.items()
)
"""A regular expression for the keys of `CPU_INSTANCE_TYPES`."""
