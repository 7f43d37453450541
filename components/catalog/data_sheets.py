"""What a GPU's data sheet promises: matrix and fp32 rates, memory bandwidth, its links.

Read on 2026-11-21 from what `SOURCES` names. A figure is there only where a source states it for
this GPU and no other source of equal weight denies it; else it is None and is not compared.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

READ: Final = "2026-11-21"

SOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gce": "https://docs.cloud.google.com/compute/docs/gpus, comparison charts",
        "h100": "https://www.nvidia.com/en-us/data-center/h100/ (the SXM column)",
        "h200": "https://www.nvidia.com/en-us/data-center/h200/ (the SXM column)",
        "a100": "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/"
        "nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
        "a30": "https://www.nvidia.com/content/dam/en-zz/Solutions/data-center/products/a30-gpu/"
        "pdf/a30-datasheet.pdf",
        "a10g": "https://d1.awsstatic.com/product-marketing/ec2/"
        "NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf",
        "l40s": "https://www.nvidia.com/en-us/data-center/l40s/",
        "v100": "https://images.nvidia.com/content/technologies/volta/pdf/"
        "volta-v100-datasheet-update-us-1165301-r5.pdf (the SXM2 column)",
        "t4": "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/tesla-t4/"
        "t4-tensor-core-datasheet-951643.pdf",
        "p100": "https://images.nvidia.com/content/tesla/pdf/nvidia-tesla-p100-PCIe-datasheet.pdf",
        "p4": "https://images.nvidia.com/content/pdf/tesla/184457-Tesla-P4-Datasheet-NV-Final-"
        "Letter-Web.pdf",
        "gpuspecs": "https://technical.city and https://fpsbench.com, which agree",
        "b300": "https://verda.com/blog/gb300-nvl72-architecture",
        "pro4500": "https://www.exxactcorp.com/blog/benchmark/"
        "nvidia-rtx-pro-4500-blackwell-llm-inference-benchmark",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSheet:
    """One GPU's figures. Matrix rates are dense, without sparsity."""

    model: str
    """Key of `accelerators.GPUS`."""
    names: tuple[str, ...]
    """As the driver calls it, without `NVIDIA` or `Tesla` in front. A GPU of the same model in
    another form (PCIe instead of SXM) has other figures and is not in here."""
    matrix: Literal["bf16", "fp16"] | None
    """The 16-bit type of the matrix figure: bf16, on older GPUs fp16; None without either."""
    matrix_tflops: float | None
    fp32_tflops: float | None
    """Without TF32 and other matrix units."""
    memory_gbps: float | None
    """GB/s, read and written bytes together."""
    memory: Literal["HBM", "GDDR"]
    """On GDDR the error correction's bits take part of the bandwidth."""
    host_gbps: float | None
    """GB/s in one direction: 16, 32 and 64 for 16 lanes of PCIe 3, 4 and 5. None where the GPU is
    not on PCIe, or sources disagree."""
    nvlink_gbps: float | None = None
    """GB/s, both directions together, as data sheets count; None without NVLink."""
    low_power: bool = False
    """At most 75 W, with which it cannot hold the clock of its matrix figure: NVIDIA calls 24 of
    65 TFLOP/s on a T4 expected (forums.developer.nvidia.com/t/264462)."""
    source: str
    """Keys of `SOURCES`."""


_ROWS: Final = (
    DataSheet(
        model="K80",
        names=("K80",),
        matrix=None,
        matrix_tflops=None,
        fp32_tflops=None,  # 8.7 of both GPUs with boost; of one, sources disagree
        memory_gbps=240,
        memory="GDDR",
        host_gbps=16,
        source="gpuspecs",
    ),
    DataSheet(
        model="M60",
        names=("M60",),
        matrix=None,
        matrix_tflops=None,
        fp32_tflops=4.8,
        memory_gbps=160,
        memory="GDDR",
        host_gbps=16,
        source="gpuspecs",
    ),
    DataSheet(
        model="P4",
        names=("P4",),
        matrix=None,
        matrix_tflops=None,
        fp32_tflops=5.5,
        memory_gbps=192,
        memory="GDDR",
        host_gbps=16,
        low_power=True,
        source="p4 gce",
    ),
    DataSheet(
        model="P100",
        names=("P100-PCIE-16GB",),
        matrix="fp16",
        matrix_tflops=18.7,
        fp32_tflops=9.3,
        memory_gbps=732,
        memory="HBM",
        host_gbps=16,
        source="p100",
    ),
    DataSheet(
        model="V100 16GB",
        names=("V100-SXM2-16GB",),
        matrix="fp16",
        matrix_tflops=125,
        fp32_tflops=15.7,
        memory_gbps=900,
        memory="HBM",
        host_gbps=16,
        nvlink_gbps=300,
        source="v100 gce",
    ),
    DataSheet(
        model="V100 32GB",
        names=("V100-SXM2-32GB",),
        matrix="fp16",
        matrix_tflops=125,
        fp32_tflops=15.7,
        memory_gbps=900,
        memory="HBM",
        host_gbps=16,
        nvlink_gbps=300,
        source="v100",
    ),
    DataSheet(
        model="T4",
        names=("T4",),
        matrix="fp16",
        matrix_tflops=65,
        fp32_tflops=8.1,
        memory_gbps=320,
        memory="GDDR",
        host_gbps=16,
        low_power=True,
        source="t4 gce",
    ),
    DataSheet(
        model="T4G",
        names=("T4G",),
        matrix="fp16",
        matrix_tflops=None,  # the T4's, no doubt, but no source says so
        fp32_tflops=8.1,
        memory_gbps=320,
        memory="GDDR",
        host_gbps=16,
        low_power=True,
        source="gpuspecs",
    ),
    DataSheet(
        model="A10G",
        names=("A10G",),
        matrix="bf16",
        matrix_tflops=70,
        fp32_tflops=35,
        memory_gbps=600,
        memory="GDDR",
        host_gbps=32,
        source="a10g",
    ),
    DataSheet(
        model="A30",
        names=("A30",),
        matrix="bf16",
        matrix_tflops=165,
        fp32_tflops=10.3,
        memory_gbps=933,
        memory="HBM",
        host_gbps=32,
        source="a30",
    ),
    DataSheet(
        model="A100 40GB",
        names=("A100-SXM4-40GB",),
        matrix="bf16",
        matrix_tflops=312,
        fp32_tflops=19.5,
        memory_gbps=1555,
        memory="HBM",
        host_gbps=32,
        nvlink_gbps=600,
        source="a100 gce",
    ),
    DataSheet(
        model="A100 80GB",
        names=("A100-SXM4-80GB",),
        matrix="bf16",
        matrix_tflops=312,
        fp32_tflops=19.5,
        memory_gbps=2039,
        memory="HBM",
        host_gbps=32,
        nvlink_gbps=600,
        source="a100 gce",
    ),
    DataSheet(
        model="L4",
        names=("L4",),
        matrix="bf16",
        matrix_tflops=121,
        fp32_tflops=30.3,
        memory_gbps=300,
        memory="GDDR",
        host_gbps=32,
        low_power=True,
        source="gce",
    ),
    DataSheet(
        model="L40S",
        names=("L40S",),
        matrix="bf16",
        matrix_tflops=362,
        fp32_tflops=91.6,
        memory_gbps=864,
        memory="GDDR",
        host_gbps=32,
        source="l40s",
    ),
    DataSheet(
        model="H100",
        names=("H100 80GB HBM3",),
        matrix="bf16",
        matrix_tflops=989.5,
        fp32_tflops=67,
        memory_gbps=3350,
        memory="HBM",
        host_gbps=64,
        nvlink_gbps=900,
        source="h100 gce",
    ),
    DataSheet(
        model="H200",
        names=("H200",),
        matrix="bf16",
        matrix_tflops=989.5,
        fp32_tflops=67,
        memory_gbps=4800,
        memory="HBM",
        host_gbps=64,
        nvlink_gbps=900,
        source="h200 gce",
    ),
    DataSheet(
        model="B200",
        names=("B200",),
        matrix="bf16",
        matrix_tflops=2250,
        fp32_tflops=80,
        memory_gbps=8000,
        memory="HBM",
        host_gbps=None,
        nvlink_gbps=1800,
        source="gce",
    ),
    DataSheet(
        model="B300",
        names=("B300", "B300 SXM6 AC"),
        matrix="bf16",
        matrix_tflops=2250,
        fp32_tflops=75,
        memory_gbps=7700,
        memory="HBM",
        host_gbps=None,
        nvlink_gbps=1800,
        source="b300",
    ),
    DataSheet(
        model="GB200",
        names=("GB200",),
        matrix="bf16",
        matrix_tflops=2500,
        fp32_tflops=None,  # 45, 75 or 80, by source
        memory_gbps=8000,
        memory="HBM",
        host_gbps=None,
        nvlink_gbps=1800,
        source="gce",
    ),
    DataSheet(
        model="GB300",
        names=("GB300",),
        matrix="bf16",
        matrix_tflops=2500,
        fp32_tflops=None,  # 45 or 80, by source
        memory_gbps=8000,
        memory="HBM",
        host_gbps=None,
        nvlink_gbps=1800,
        source="gce b300",
    ),
    DataSheet(
        model="RTX PRO 4500",
        names=("RTX PRO 4500 Blackwell Server Edition",),
        matrix="bf16",
        matrix_tflops=None,  # stated for the workstation GPU of 200 W only
        fp32_tflops=None,
        memory_gbps=800,
        memory="GDDR",
        host_gbps=64,
        source="pro4500",
    ),
    DataSheet(
        model="RTX PRO 6000",
        names=("RTX PRO 6000 Blackwell Server Edition",),
        matrix="bf16",
        matrix_tflops=467.8,
        fp32_tflops=117,
        memory_gbps=1597,
        memory="GDDR",
        host_gbps=64,
        source="gce",
    ),
)

DATA_SHEETS: Final[Mapping[str, DataSheet]] = MappingProxyType({row.model: row for row in _ROWS})
"""Model -> data sheet: every one of `accelerators.GPUS`."""


def expected(models: Collection[str]) -> tuple[DataSheet, ...]:
    """The data sheets of these keys of `GPUS`; of every GPU where there are none."""
    return tuple(row for row in _ROWS if not models or row.model in models)
