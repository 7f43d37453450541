"""GPU accelerators of Google Cloud by GKE's names: counts, quotas, MIG sizes, prices, zones.

Read on 2026-11-21 from the documents in `SOURCES`; `price_source` uses its keys. Prices are US
dollars per GPU and hour in us-central1, without the machine; Spot prices change weekly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from .gke_zones import ACCELERATOR_ZONES

SOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sky8": "skypilot-catalog v8 gcp/vms.csv, commit 006059e0f18acb1341e22a27751e9f80df6ba92f",
        "sky9": "skypilot-catalog v9 gcp/vms.csv, commit 2c3d7ea7d76bf84cf80d382e946c1609571485fd",
        "gcedoc": "Compute Engine documentation, GPU pages, 2026-04-14",
        "gkeas": "GKE autoscaler source, k8s.io/gke-autoscaling machinetypes and labels, 2026",
        "apdoc": "GKE documentation, autopilot-gpus, 2026-04",
        "casprice": "kubernetes/autoscaler gce_price_info.go, 2026-06-23",
        "vertex": "Model Garden deploy prices in us-central1, divided by 1.15, 2026-07-08",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """A GPU model on GKE nodes. Counts and MIG sizes: gkeas and gcedoc; Autopilot: apdoc."""

    name: str
    """The name in `guestAccelerators.type` and in the node label
    `cloud.google.com/gke-accelerator`."""
    model: str
    """Key of `accelerators.GPUS`."""
    machine_family: str
    """The family of its machine types; on `n1`, it is attached to a general purpose machine."""
    status: Literal["current", "legacy", "retired"] = "current"
    """`legacy`: an older generation, still documented on 2026-04-14."""
    retired_since: str | None = None
    """The day since which Google Cloud starts none (cloud.google.com/compute/docs/eol)."""
    replacement: str | None = None
    """What to use instead of a retired one."""
    counts: tuple[int, ...]
    """Allowed GPUs per node."""
    autopilot_counts: tuple[int, ...] = ()
    """Allowed GPUs per pod on Autopilot; empty if Autopilot does not offer it."""
    autopilot_min_version: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """GPUs per pod -> the first GKE version of each minor; no entry if all versions support it."""
    quota_metric: str
    quota_metric_uncertain: bool = False
    """Whether the metric's name was not read in a source but follows the others' pattern."""
    mig: Mapping[str, int] = field(default_factory=dict)
    """`gpuPartitionSize` -> partitions per GPU, as GKE accepts them (gkeas); empty without MIG.

    GB200 has none: "Multi-instance GPUs aren't supported when CDMM is enabled", which it is by
    default (ai-hypercomputer/docs/create/gke-ai-hypercompute-custom-a4x, read on 2026-11-28)."""
    on_demand: float | None = None
    spot: float | None = None
    price_source: str = ""
    price_uncertain: bool = False
    zones_partial: bool = False
    """Whether more zones exist than are listed: a missing zone proves nothing."""

    @property
    def zones(self) -> tuple[str, ...]:
        """Every zone known to have it."""
        return ACCELERATOR_ZONES[self.name]

    @property
    def retired(self) -> bool:
        """Whether Google Cloud no longer offers it."""
        return self.status == "retired"

    @property
    def quota_metric_preemptible(self) -> str:
        """The regional quota that Spot and flex-start nodes count against."""
        return f"PREEMPTIBLE_{self.quota_metric}"


_HOPPER_80GB_MIG: Final = {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1}

_ROWS: Final = (
    Accelerator(name="nvidia-tesla-t4", model="T4", machine_family="n1", counts=(1, 2, 4),
        autopilot_counts=(1, 2, 4), quota_metric="NVIDIA_T4_GPUS", on_demand=0.35, spot=0.175,
        price_source="sky8"),
    Accelerator(name="nvidia-l4", model="L4", machine_family="g2", counts=(1, 2, 4, 8),
        autopilot_counts=(1, 2, 4, 8), quota_metric="NVIDIA_L4_GPUS", on_demand=0.56004,
        spot=0.2862, price_source="sky9"),
    Accelerator(name="nvidia-rtx-pro-6000", model="RTX PRO 6000", machine_family="g4",
        counts=(1, 2, 4, 8), autopilot_counts=(1, 2, 4, 8),
        autopilot_min_version=dict.fromkeys((1, 2, 4, 8), ("1.34.1-gke.1829001",)),
        quota_metric="NVIDIA_RTX_PRO_6000_GPUS", quota_metric_uncertain=True,
        mig={"1g.24gb": 4, "1g.24gb.me": 1, "1g.24gb.gfx": 4, "1g.24gb.me.all": 1, "1g.24gb-me": 4,
            "2g.48gb": 2, "2g.48gb.gfx": 2, "2g.48gb.me.all": 1, "2g.48gb-me": 2, "4g.96gb": 1,
            "4g.96gb.gfx": 1}, on_demand=1.0958, spot=None,
        price_source="derived: vertex/1.15 total minus sky9 host", price_uncertain=True),
    Accelerator(name="nvidia-tesla-a100", model="A100 40GB", machine_family="a2",
        counts=(1, 2, 4, 8, 16), autopilot_counts=(1, 2, 4, 8, 16), quota_metric="NVIDIA_A100_GPUS",
        mig={"1g.5gb": 7, "2g.10gb": 3, "3g.20gb": 2, "7g.40gb": 1}, on_demand=2.93391, spot=1.5399,
        price_source="sky9"),
    Accelerator(name="nvidia-a100-80gb", model="A100 80GB", machine_family="a2",
        counts=(1, 2, 4, 8), autopilot_counts=(1, 2, 4, 8), quota_metric="NVIDIA_A100_80GB_GPUS",
        mig={"1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1}, on_demand=3.93, spot=2.1604,
        price_source="on-demand derived (casprice 5.0688 total); spot sky9", price_uncertain=True),
    Accelerator(name="nvidia-h100-80gb", model="H100", machine_family="a3", counts=(1, 2, 4, 8),
        autopilot_counts=(1, 2, 4, 8),
        autopilot_min_version={**dict.fromkeys((1, 2, 4), ("1.31.4-gke.1072000",)),
            8: ("1.28.6-gke.1369000", "1.29.1-gke.1575000")}, quota_metric="NVIDIA_H100_GPUS",
        mig=_HOPPER_80GB_MIG, on_demand=9.79655, spot=5.3387,
        price_source="sky9 (on-demand row us-east4; same US price per vertex/1.15)"),
    Accelerator(name="nvidia-h100-mega-80gb", model="H100", machine_family="a3", counts=(8,),
        autopilot_counts=(8,),
        autopilot_min_version={8: ("1.28.9-gke.1250000", "1.29.4-gke.1542000")},
        quota_metric="NVIDIA_H100_MEGA_GPUS", mig=_HOPPER_80GB_MIG, on_demand=10.34428, spot=5.6299,
        price_source="sky9"),
    Accelerator(name="nvidia-h200-141gb", model="H200", machine_family="a3", counts=(8,),
        autopilot_counts=(8,), autopilot_min_version={8: ("1.31.4-gke.1183000",)},
        quota_metric="NVIDIA_H200_GPUS",
        mig={"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "7g.141gb": 1},
        on_demand=9.31174, spot=5.1215, price_source="sky9"),
    Accelerator(name="nvidia-b200", model="B200", machine_family="a4", counts=(8,),
        autopilot_counts=(8,), autopilot_min_version={8: ("1.32.2-gke.1422000",)},
        quota_metric="NVIDIA_B200_GPUS",
        mig={"1g.23gb": 7, "1g.45gb": 4, "2g.45gb": 3, "3g.90gb": 2, "7g.180gb": 1},
        on_demand=11.277, spot=4.7183,
        price_source="sky9; no plain on-demand (reservation/spot/flex only), value uncertain",
        price_uncertain=True),
    Accelerator(name="nvidia-gb200", model="GB200", machine_family="a4x",
        counts=(4,), quota_metric="NVIDIA_GB200_GPUS", zones_partial=True),
    Accelerator(name="nvidia-gb300", model="GB300", machine_family="a4x-max",
        counts=(4,), quota_metric="NVIDIA_GB300_GPUS", quota_metric_uncertain=True,
        zones_partial=True),
    Accelerator(name="nvidia-tesla-v100", model="V100 16GB", machine_family="n1", status="legacy",
        counts=(1, 2, 4, 8), quota_metric="NVIDIA_V100_GPUS", on_demand=2.48, spot=1.0885,
        price_source="sky8"),
    Accelerator(name="nvidia-tesla-p100", model="P100", machine_family="n1", status="legacy",
        counts=(1, 2, 4), quota_metric="NVIDIA_P100_GPUS", on_demand=1.46, spot=0.7229,
        price_source="sky9"),
    Accelerator(name="nvidia-tesla-p4", model="P4", machine_family="n1", status="legacy",
        counts=(1, 2, 4), quota_metric="NVIDIA_P4_GPUS", on_demand=0.6, spot=0.1803,
        price_source="sky9"),
    Accelerator(name="nvidia-tesla-k80", model="K80", machine_family="n1", status="retired",
        retired_since="2024-05-01", replacement="nvidia-tesla-t4", counts=(1, 2, 4, 8),
        quota_metric="NVIDIA_K80_GPUS", zones_partial=True),
)  # fmt: skip

ACCELERATORS: Final[Mapping[str, Accelerator]] = MappingProxyType({row.name: row for row in _ROWS})
"""Every GPU of Google Cloud by its GKE name, including the retired one."""

DRA_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "nvidia-tesla-v100": "Tesla V100",
        "nvidia-tesla-p100": "Tesla P100",
        "nvidia-tesla-p4": "Tesla P4",
        "nvidia-tesla-t4": "Tesla T4",
        "nvidia-tesla-a100": "A100 40GB",
        "nvidia-a100-80gb": "A100 80GB",
        "nvidia-l4": "L4",
        "nvidia-h100-80gb": "H100 80GB",
    }
)
"""Accelerator -> the `productName` that GKE's autoscaler expects of its devices on a node that does
not exist yet, and starts no first node of any other: GoogleCloudPlatform/cluster-autoscaler
7d250507, deprecated_machine_types_gpu_config.go, draAcceleratorInfos. Of memory, it expects a few
bytes (dynamicresources/gpu.go: `memoryGb*2^30`, an XOR in Go); of the compute capability, nothing.
"""
