"""The request for the measuring program: the pool's GPUs, every data sheet, and the thresholds."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from ..catalog.data_sheets import DATA_SHEETS, DataSheet
from ..schema.limits import Limit
from ..schema.rules import Checked

_Share = Annotated[
    float | None,
    Limit(
        lambda share: (
            None
            if 0 < share <= 1
            else f"{share:g} is out of range; allowed: above 0 and up to 1, as a share of the data "
            "sheet's figure"
        ),
        {"exclusiveMinimum": 0, "maximum": 1},
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdsArgs(Checked):
    """The minimum share of the data sheet's figures for a good GPU, above 0 and up to 1."""

    matmul: _Share = None
    """The share of the dense bf16 rate, or fp16 on older GPUs. By default, 0.6; 0.3 on GPUs of at
    most 75 W, which cannot sustain the clock of that figure within their power limit."""
    fp32: _Share = None
    """The share of the fp32 rate, without TF32. By default, 0.6; 0.3 on GPUs of at most 75 W."""
    memory: _Share = None
    """The share of the memory bandwidth. By default, 0.8; 0.7 on GDDR with error correction."""
    pcie: _Share = None
    """The share of the PCIe link, for each direction separately. By default, 0.6."""
    all_reduce: _Share = None
    """The share of one direction of NVLink. By default, 0.6."""
    network: _Share = None
    """The share of a node's network bandwidth, with `nodes` of 2 or more. By default, 0.5."""

    def on(self, sheet: DataSheet) -> dict[str, float]:
        """All thresholds for a GPU; the only place with the defaults."""
        # Measured on an H100 and two H200 at their power limit (docs/measured): 0.68 to 0.71 of the
        # matrix rate, 0.78 to 0.81 of fp32, 0.89 to 0.91 of the memory bandwidth, 0.86 of PCIe,
        # 0.72 of NVLink. Matrix rates reported by others: A10G 0.95, A100 0.79, V100S 0.68, T4
        # 0.37. A GPU that another program used as well reached 0.31.
        rates = 0.3 if sheet.low_power else 0.6
        least = {
            "matrix": (self.matmul, rates),
            "fp32": (self.fp32, rates),
            "memory": (self.memory, 0.8 if sheet.memory == "HBM" else 0.7),
            "host": (self.pcie, 0.6),
            "allReduce": (self.all_reduce, 0.6),
            # With EFA, others measured on H100 machines 1.09 with 2 nodes, where NCCL's tree sends
            # less than the formula counts, 0.70 with 4, 0.67 with 16, 0.55 with 32 (crazyguitar/
            # aws-gpu-communication-benchmark fd167f9); on A100 0.59 with 4 (NVIDIA/nccl issue 527).
            "network": (self.network, 0.5),
        }
        return {key: default if value is None else value for key, (value, default) in least.items()}


def request(
    *,
    pool: str | None,
    gpus: int,
    expected: Iterable[DataSheet],
    thresholds: ThresholdsArgs,
    nodes: int = 1,
    network_gbps: int | None = None,
) -> dict[str, Any]:
    """The program's `request.json`. It contains every data sheet, so that a node with a GPU other
    than `expected` is judged by that GPU's figures. `network_gbps`: Gbit/s of a node; None if it is
    not to be compared."""
    return {
        "pool": pool,
        "gpus": gpus,
        "nodes": nodes,
        # The program measures GB/s.
        "network": network_gbps and network_gbps / 8,
        "expected": [sheet.model for sheet in expected],
        "sheets": [
            {
                "model": sheet.model,
                "names": list(sheet.names),
                "matrixType": sheet.matrix,
                "matrix": sheet.matrix_tflops,
                "fp32": sheet.fp32_tflops,
                "memory": sheet.memory_gbps,
                "host": sheet.host_gbps,
                "nvlink": sheet.nvlink_gbps,
                "least": thresholds.on(sheet),
            }
            for sheet in DATA_SHEETS.values()
        ],
    }
