"""Machine types of Google Cloud that include GPUs: shape, price, provisioning, zones.

Read on 2026-11-21; prices are US dollars per hour in us-central1, sources as in
`gke_accelerators.SOURCES`. Shapes and provisioning models are gcedoc's of 2026-04-14.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from .gke_families import Family, family_of
from .gke_zones import MACHINE_ZONES

Provisioning = Literal["on-demand", "spot", "flex-start", "reservation"]

ANY_PROVISIONING: Final[tuple[Provisioning, ...]] = (
    "on-demand",
    "spot",
    "flex-start",
    "reservation",
)
_SPOT_OR_FLEX: Final[tuple[Provisioning, ...]] = ("spot", "flex-start")
_NO_ON_DEMAND: Final[tuple[Provisioning, ...]] = ("spot", "flex-start", "reservation")
GpuDirect = Literal["rdma", "tcpx", "tcpxo"]
GPU_DIRECT: Final[Mapping[str, GpuDirect]] = MappingProxyType(
    {
        "a3-highgpu-8g": "tcpx",
        "a3-megagpu-8g": "tcpxo",
        "a3-ultragpu-8g": "rdma",
        "a4-highgpu-8g": "rdma",
    }
)
"""Machine type -> the network between GPUs of several nodes that this program uses. A4X has RDMA,
too."""
GPU_INTERFACES: Final[Mapping[GpuDirect, int]] = MappingProxyType(
    {"rdma": 8, "tcpx": 4, "tcpxo": 8}
)
"""How many interfaces for it these machine types have (GoogleCloudPlatform/cluster-autoscaler
7d250507, machinetypes/dranet.go; cluster-toolkit 1.95.0, gpu_direct.tf)."""
GPU_DIRECT_GBPS: Final[Mapping[GpuDirect, int]] = MappingProxyType(
    {"rdma": 3200, "tcpx": 800, "tcpxo": 1600}
)
"""Gbit/s of these together: ConnectX-7 of 400 each (cluster-toolkit's notes on its release 1.44.1),
and interfaces of 200 each (docs.cloud.google.com/kubernetes-engine/docs/how-to/
gpu-bandwidth-gpudirect-tcpx, 2026-11-29)."""
_RESERVED: Final[tuple[Provisioning, ...]] = ("reservation",)
_NO_FLEX: Final[tuple[Provisioning, ...]] = ("on-demand", "spot", "reservation")
"""A3 Edge: `withDwsDisabled` in GKE's autoscaler, see `_variants`."""
_A3_HIGH_VERSIONS: Final = (
    *(f"1.{minor}.0-gke.0" for minor in range(30, 34)),
    "1.34.5-gke.1153000",
    "1.35.2-gke.1485000",
)
"""GKE creates pools of `a3-highgpu-8g` on no older ones, whose nodes lack GPUDirect-TCPX
(docs.cloud.google.com/release-notes#August_25_2026)."""
N1_SSDS: Final = (*range(1, 9), 16, 24)
"""How many local SSDs a node can have: `withAllowedEphemeralLocalSsdCounts` there, here and below;
of N1, also Compute Engine's error for custom sizes ("should be one of [0, 1, ...")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """A machine type as named in `nodeConfig.machineType`."""

    name: str
    family: str
    accelerator: str | None = None
    """The GPU that the machine includes; None if it has none, or GPUs are attached (N1)."""
    gpus: float = 0
    """Number of GPUs that the machine includes. A number below 1 is a share of one GPU, which this
    program does not offer as a pool."""
    vcpu: int
    memory_gib: float
    local_ssd_gib: int | None = None
    """Local SSD that the machine includes; None if it is optional or not offered."""
    local_ssd_disks: int = 0
    """The number of its disks, if they are not of 375 GiB each."""
    ssd_counts: tuple[int, ...] = ()
    """How many local SSDs of 375 GiB can be added, if it includes none."""
    on_demand: float | None = None
    """Price of the whole machine with its GPUs."""
    spot: float | None = None
    price_source: str = ""
    price_uncertain: bool = False
    provisioning: tuple[Provisioning, ...] = ANY_PROVISIONING
    arch: Literal["amd64", "arm64"] = "amd64"
    autopilot: bool = False
    min_gke: tuple[str, ...] = ()
    """The first GKE version of each minor that has it; empty if all do."""
    zones: tuple[str, ...] | None = None
    """Its zones if they differ from its accelerator's; None if they are the same."""
    uncertain: bool = False
    """Whether it is in no list of what Google Cloud offers: only warn about it, never refuse."""
    unmet: str = ""
    """What its nodes need and this program does not declare, so that no pool can have it."""
    notes: str = ""

    @property
    def features(self) -> Family:
        """The features of its nodes: disks, placement, node settings."""
        return family_of(self.name)

    @property
    def local_ssds(self) -> int:
        """How many local SSDs it includes."""
        return self.local_ssd_disks or (self.local_ssd_gib or 0) // 375

    @property
    def ssd_choices(self) -> tuple[int, ...]:
        """How many local SSDs a node can have: those that it includes, or that can be added."""
        return (self.local_ssds,) if self.local_ssds else self.ssd_counts

    @property
    def located(self) -> bool:
        """Whether Google says in which block a machine is, without a placement policy, and its
        instructions for GKE use the nodes' labels.

        docs.cloud.google.com/ai-hypercomputer/docs: manage/vms-topology ("A4X Max, A4X, A4, A3
        Ultra, A3 Mega, and A3 High (8 GPUs)"), nccl/test-gke-custom-a3-mega-high and
        nccl/test-gke-custom-a3-edge, read 2026-11-24.
        """
        located = self.family.startswith("a4") or (self.family == "a3" and self.gpus == 8)
        return located and not self.unmet

    @property
    def gpu_direct(self) -> GpuDirect | None:
        """The network of its own that a node's GPUs can have; None if this program knows none."""
        return GPU_DIRECT.get(self.name.removesuffix("-nolssd"))

    @property
    def without_gpu_direct(self) -> str:
        """Why its nodes cannot have GPUDirect, after its name; empty if they can."""
        if self.gpu_direct:
            return ""
        if self.family == "a4x":
            return (
                "needs a workload policy, and NVIDIA's ComputeDomain for the GPUs of its rack, "
                "which this stack does not declare"
            )
        if self.family == "a3" and self.gpus == 8:
            return "has GPUDirect-TCPX by other instructions, which this stack does not follow"
        return "has no network of its own between GPUs"

    @property
    def doubt(self) -> str:
        """What a warning says of an uncertain row, after the key; else empty."""
        return self.uncertain * (
            f"machineType: {self.name} is not a listed machine type, so its price and whether "
            "Google Cloud offers it are unknown; check it with gcloud compute machine-types "
            f"describe {self.name} --zone ZONE"
        )

    @property
    def fractional(self) -> bool:
        """Whether the machine has only a share of a GPU."""
        return 0 < self.gpus < 1

    @property
    def left_out(self) -> str:
        """Why no pool can have the machine, after its name; empty if one can."""
        if self.fractional:
            return (
                "has a fraction of a GPU, which Kubernetes cannot count; use one with a whole GPU, "
                "and set sharing"
            )
        return self.unmet and f"needs {self.unmet}, which this program does not declare"


def _bundle(
    name: str, accelerator: str, gpus: float, vcpu: int, memory_gib: float, **details: Any
) -> MachineType:
    return MachineType(
        name=name,
        family=name.partition("-")[0],
        accelerator=accelerator,
        gpus=gpus,
        vcpu=vcpu,
        memory_gib=memory_gib,
        zones=MACHINE_ZONES.get(name),
        **details,
    )


def _g2(size: int, gpus: int, on_demand: float, spot: float) -> MachineType:
    return _bundle(
        f"g2-standard-{size}",
        "nvidia-l4",
        gpus,
        size,
        size * 4,
        ssd_counts=(gpus,),
        on_demand=on_demand,
        spot=spot,
        price_source="on demand: sky8 host + GPU, equal to vertex; Spot: sky9 host + GPU",
        autopilot=True,
    )


def _g4(size: int, gpus: float, memory_gib: int, on_demand: float, host_spot: float) -> MachineType:
    whole = gpus >= 1
    return _bundle(
        f"g4-standard-{size}",
        "nvidia-rtx-pro-6000",
        gpus,
        size,
        memory_gib,
        local_ssd_gib=None if whole else 0,
        ssd_counts=(int(gpus * 4),) if gpus * 4 >= 1 else (),
        on_demand=on_demand,
        price_source="vertex" if whole else "sky9 host + the share of a GPU",
        price_uncertain=not whole,
        autopilot=whole,
        min_gke=("1.32.11-gke.1174000" if whole else "1.35.2-gke.1485000",),
        notes=f"Spot of the host alone: {host_spot} (sky9)",
    )


def _a2_high(name: str, gpus: int, vcpu: int, on_demand: float, spot: float) -> MachineType:
    return _bundle(
        name,
        "nvidia-tesla-a100",
        gpus,
        vcpu,
        gpus * 85,
        ssd_counts=tuple(count for count in (1, 2, 4, 8) if count >= min(gpus, 8)),
        on_demand=on_demand,
        spot=spot,
        price_source="on demand: casprice, equal to sky8; Spot: sky8 host + sky9 GPU",
        autopilot=True,
    )


def _a2_ultra(gpus: int, on_demand: float, spot: float) -> MachineType:
    return _bundle(
        f"a2-ultragpu-{gpus}g",
        "nvidia-a100-80gb",
        gpus,
        gpus * 12,
        gpus * 170,
        local_ssd_gib=gpus * 375,
        on_demand=on_demand,
        spot=spot,
        price_source="on demand: casprice with SSD; Spot: sky8 host + sky9 GPU",
        autopilot=True,
    )


def _a3_high(
    gpus: int, on_demand: float, spot: float, provisioning: tuple[Provisioning, ...]
) -> MachineType:
    return _bundle(
        f"a3-highgpu-{gpus}g",
        "nvidia-h100-80gb",
        gpus,
        gpus * 26,
        gpus * 234,
        local_ssd_gib=gpus * 750,
        on_demand=on_demand,
        spot=spot,
        price_source="on demand: vertex without SSD; Spot: sky8 host + sky9 GPU",
        autopilot=True,
        provisioning=provisioning,
        min_gke=_A3_HIGH_VERSIONS if gpus == 8 else (),
    )


# A4X: docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom-a4x.
# A4X Max: docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom-a4x-max
# (read on 2026-11-28) creates the cluster with --no-enable-shielded-nodes, and the pool with
# --num-nodes and a HIGH_THROUGHPUT workload policy.
_ROWS: Final = (
    _g2(4, 1, 0.7068, 0.3612),
    _g2(8, 1, 0.8536, 0.4362),
    _g2(12, 1, 1.0004, 0.5112),
    _g2(16, 1, 1.1472, 0.5863),
    _g2(24, 2, 2.0008, 1.0225),
    _g2(32, 1, 1.7344, 0.8863),
    _g2(48, 4, 4.0017, 2.045),
    _g2(96, 8, 8.0033, 4.09),
    _g4(6, 0.125, 22, 0.5596, 0.16902),
    _g4(12, 0.25, 45, 1.125, 0.34038),
    _g4(24, 0.5, 90, 2.25, 0.68076),
    _g4(48, 1, 180, 4.5001, 1.36152),
    _g4(96, 2, 360, 9.0002, 2.72304),
    _g4(192, 4, 720, 18.0003, 5.44608),
    _g4(384, 8, 1440, 36.0006, 10.89216),
    _a2_high("a2-highgpu-1g", 1, 12, 3.67339, 1.9097),
    _a2_high("a2-highgpu-2g", 2, 24, 7.34677, 3.8193),
    _a2_high("a2-highgpu-4g", 4, 48, 14.69354, 7.6386),
    _a2_high("a2-highgpu-8g", 8, 96, 29.38708, 15.2772),
    _a2_high("a2-megagpu-16g", 16, 96, 55.739504, 29.0366),
    _a2_ultra(1, 5.0688, 2.7102),
    _a2_ultra(2, 10.1376, 5.4204),
    _a2_ultra(4, 20.2752, 10.8407),
    _a2_ultra(8, 40.5504, 21.6814),
    _a3_high(1, 10.9791, 5.6999, _SPOT_OR_FLEX),
    _a3_high(2, 21.9581, 11.3997, _SPOT_OR_FLEX),
    _a3_high(4, 43.9162, 22.7995, _SPOT_OR_FLEX),
    _a3_high(8, 87.8325, 45.599, ANY_PROVISIONING),
    _bundle("a3-edgegpu-8g", "nvidia-h100-80gb", 8, 208, 1872, local_ssd_gib=6000,
        on_demand=87.8325, price_source="vertex", provisioning=_NO_FLEX),
    _bundle("a3-megagpu-8g", "nvidia-h100-mega-80gb", 8, 208, 1872, local_ssd_gib=6000,
        on_demand=92.7432, spot=47.93,
        price_source="on demand: vertex without SSD; Spot: sky9 GPU + an assumed host",
        price_uncertain=True, autopilot=True),
    _bundle("a3-ultragpu-8g", "nvidia-h200-141gb", 8, 224, 2952, local_ssd_gib=12000,
        on_demand=83.4918, price_source="vertex without SSD", provisioning=_NO_ON_DEMAND,
        autopilot=True, notes="Spot of the GPUs alone: 40.972 (sky9)"),
    _bundle("a4-highgpu-8g", "nvidia-b200", 8, 224, 3968, local_ssd_gib=12000,
        provisioning=_NO_ON_DEMAND, autopilot=True,
        notes="the GPUs alone: list price 90.216, uncertain; Spot 37.7464 (sky9)"),
    _bundle("a4x-highgpu-4g", "nvidia-gb200", 4, 140, 884, local_ssd_gib=12000, local_ssd_disks=4,
        provisioning=_RESERVED, arch="arm64",
        min_gke=("1.32.8-gke.1108000", "1.33.4-gke.1036000")),
    _bundle("a4x-maxgpu-4g-metal", "nvidia-gb300", 4, 144, 960, local_ssd_gib=12000,
        local_ssd_disks=4, provisioning=_RESERVED, arch="arm64",
        unmet="a pool of fixed size with a workload policy, in a cluster without shielded nodes"),
)  # fmt: skip


_LISTED_BARE: Final = ("a3-edgegpu-8g-nolssd", "a3-ultragpu-8g-nolssd")
"""Cyclenerd/google-cloud-pricing-cost-calculator dac3128, tools/machinetypes.csv (2026-08-20):
gcloud's list of the machine types of all zones has no others without local SSDs."""


def _variants(row: MachineType) -> Iterator[MachineType]:
    """The machine type, and the one without its local SSDs if GKE knows it.

    GoogleCloudPlatform/cluster-autoscaler 7d250507 (2026-08-21), GKE's own, has them in
    pkg/cloudprovider/gke/machinetypes/deprecated_machine_types_config.go: "For A3 only a full VM
    shape with 8 GPUs supports local SSD opt-out" (the smaller ones are of sovereign clouds).
    """
    yield row
    whole = row.family != "a3" or row.gpus == 8
    if row.local_ssd_gib and whole and not row.name.endswith("-metal"):
        bare = replace(
            row, name=f"{row.name}-nolssd", local_ssd_gib=0, local_ssd_disks=0, autopilot=False
        )
        yield (
            bare
            if bare.name in _LISTED_BARE
            else replace(bare, uncertain=True, on_demand=None, spot=None, price_source="", notes="")
        )


MACHINE_TYPES: Final[Mapping[str, MachineType]] = MappingProxyType(
    {variant.name: variant for row in _ROWS for variant in _variants(row)}
)
"""Every machine type that includes GPUs, by name."""
