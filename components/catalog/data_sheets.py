"""The figures of the GPUs' data sheets: matrix and fp32 rates, memory bandwidth, links.

Read on 2026-11-21 from the documents in `SOURCES`. A figure is listed only if a source states it
for this GPU and no source of equal weight contradicts it; otherwise it is None and is not compared.
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


@dataclass(frozen=True, slots=True)
class DataSheet:
    """The figures of one GPU. Matrix rates are dense, without sparsity."""

    model: str
    """Key of `accelerators.GPUS`."""
    names: tuple[str, ...]
    """The driver's names for it, without the prefix `NVIDIA` or `Tesla`. A GPU of the same model in
    another form factor (PCIe instead of SXM) has other figures and is not listed."""
    matrix: Literal["bf16", "fp16"] | None
    """The 16-bit type of the matrix figure: bf16, or fp16 on older GPUs; None if it has neither."""
    matrix_tflops: float | None
    fp32_tflops: float | None
    """Without TF32 or other matrix units."""
    memory: Literal["HBM", "GDDR"]
    """With GDDR, the error correction bits use part of the bandwidth."""
    memory_gbps: float | None
    """GB/s, reads and writes together."""
    host_gbps: float | None
    """GB/s in one direction: 16, 32 and 64 for 16 lanes of PCIe 3, 4 and 5. None if the GPU is not
    on PCIe, or sources disagree."""
    nvlink_gbps: float | None
    """GB/s, both directions together, as in data sheets; None if it has no NVLink."""
    source: str
    """Keys of `SOURCES`."""
    low_power: bool = False
    """At most 75 W, with which it cannot sustain the clock of its matrix figure: NVIDIA says that
    24 of 65 TFLOP/s are expected on a T4 (forums.developer.nvidia.com/t/264462)."""


_PRO_4500: Final = ("RTX PRO 4500 Blackwell Server Edition",)
_PRO_6000: Final = ("RTX PRO 6000 Blackwell Server Edition",)

_ROWS: Final = (
    # model, names, matrix type and TFLOP/s, fp32 TFLOP/s, memory and GB/s, host, NVLink, source
    # fp32: 8.7 for both GPUs with boost; for one GPU, sources disagree
    DataSheet("K80", ("K80",), None, None, None, "GDDR", 240, 16, None, "gpuspecs"),
    DataSheet("M60", ("M60",), None, None, 4.8, "GDDR", 160, 16, None, "gpuspecs"),
    DataSheet("P4", ("P4",), None, None, 5.5, "GDDR", 192, 16, None, "p4 gce", low_power=True),
    DataSheet("P100", ("P100-PCIE-16GB",), "fp16", 18.7, 9.3, "HBM", 732, 16, None, "p100"),
    DataSheet("V100 16GB", ("V100-SXM2-16GB",), "fp16", 125, 15.7, "HBM", 900, 16, 300, "v100 gce"),
    DataSheet("V100 32GB", ("V100-SXM2-32GB",), "fp16", 125, 15.7, "HBM", 900, 16, 300, "v100"),
    DataSheet("T4", ("T4",), "fp16", 65, 8.1, "GDDR", 320, 16, None, "t4 gce", low_power=True),
    # matrix: surely the T4's, but no source says so
    DataSheet(
        "T4G", ("T4G",), "fp16", None, 8.1, "GDDR", 320, 16, None, "gpuspecs", low_power=True
    ),
    DataSheet("A10G", ("A10G",), "bf16", 70, 35, "GDDR", 600, 32, None, "a10g"),
    DataSheet("A30", ("A30",), "bf16", 165, 10.3, "HBM", 933, 32, None, "a30"),
    DataSheet(
        "A100 40GB", ("A100-SXM4-40GB",), "bf16", 312, 19.5, "HBM", 1555, 32, 600, "a100 gce"
    ),
    DataSheet(
        "A100 80GB", ("A100-SXM4-80GB",), "bf16", 312, 19.5, "HBM", 2039, 32, 600, "a100 gce"
    ),
    DataSheet("L4", ("L4",), "bf16", 121, 30.3, "GDDR", 300, 32, None, "gce", low_power=True),
    DataSheet("L40S", ("L40S",), "bf16", 362, 91.6, "GDDR", 864, 32, None, "l40s"),
    DataSheet("H100", ("H100 80GB HBM3",), "bf16", 989.5, 67, "HBM", 3350, 64, 900, "h100 gce"),
    DataSheet("H200", ("H200",), "bf16", 989.5, 67, "HBM", 4800, 64, 900, "h200 gce"),
    DataSheet("B200", ("B200",), "bf16", 2250, 80, "HBM", 8000, None, 1800, "gce"),
    DataSheet("B300", ("B300", "B300 SXM6 AC"), "bf16", 2250, 75, "HBM", 7700, None, 1800, "b300"),
    # fp32: 45, 75 or 80, depending on the source
    DataSheet("GB200", ("GB200",), "bf16", 2500, None, "HBM", 8000, None, 1800, "gce"),
    # fp32: 45 or 80, depending on the source
    DataSheet("GB300", ("GB300",), "bf16", 2500, None, "HBM", 8000, None, 1800, "gce b300"),
    # matrix: stated only for the 200 W workstation GPU
    DataSheet("RTX PRO 4500", _PRO_4500, "bf16", None, None, "GDDR", 800, 64, None, "pro4500"),
    DataSheet("RTX PRO 6000", _PRO_6000, "bf16", 467.8, 117, "GDDR", 1597, 64, None, "gce"),
)

DATA_SHEETS: Final[Mapping[str, DataSheet]] = MappingProxyType({row.model: row for row in _ROWS})
"""Model -> data sheet: one for each of `accelerators.GPUS`."""


def expected(models: Collection[str]) -> tuple[DataSheet, ...]:
    """The data sheets for these keys of `GPUS`; if `models` is empty, for every GPU."""
    return tuple(sheet for sheet in _ROWS if not models or sheet.model in models)
