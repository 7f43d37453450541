"""NVIDIA's GPUs, independent of any cloud: memory, architecture, last driver branch.

Read on 2026-11-21. Memory is what the clouds state: data-sheet GB for the small GPUs, usable GiB
from B200 on. MIG profiles are GKE's, in `gke.ACCELERATORS[...].mig`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Architecture = Literal[
    "Kepler",
    "Maxwell",
    "Pascal",
    "Volta",
    "Turing",
    "Ampere",
    "Ada",
    "Hopper",
    "Blackwell",
    "Blackwell Ultra",
]

LAST_DRIVER: Final[Mapping[Architecture, int]] = MappingProxyType(
    {"Kepler": 470, "Maxwell": 580, "Pascal": 580, "Volta": 580}
)
"""Architecture -> the last driver branch that supports it, if support has ended. 470 is EKS's
statement about its K80 instances. 580 is certain for Volta: 595 is not compatible with P3dn
(amazon-eks-ami doc/usage/g7-ami.md); for Maxwell and Pascal it comes from a secondary source."""

_CAPABILITIES: Final = {
    "Kepler": "3.7", "Maxwell": "5.2", "Pascal": "6.0", "P4": "6.1", "Volta": "7.0",
    "Turing": "7.5", "Ampere": "8.0", "A10G": "8.6", "Ada": "8.9", "Hopper": "9.0",
    "Blackwell": "10.0", "Blackwell Ultra": "10.3", "RTX PRO 4500": "12.0", "RTX PRO 6000": "12.0",
}  # fmt: skip
"""Architecture, or the model that differs -> compute capability of its GPUs above
(https://developer.nvidia.com/cuda-gpus, 2026-11-30)."""
_BEFORE_MPS: Final = ("Kepler", "Maxwell", "Pascal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU model."""

    model: str
    memory_gb: int
    architecture: Architecture
    driver_name: str | None = None
    """As `nvidia-smi` and NVIDIA's DRA driver call it; None if no listing of a node with this GPU
    was found. `PRODUCT_SOURCES` has the listings, which have the name with hyphens."""
    memory_mib: int | None = None
    """`nvidia.com/gpu.memory`, as the driver (from 510 on) reports it; None if `driver_name` is."""
    nvlink_domain: bool = False
    """Whether NVLink connects the GPUs of several machines; programs need IMEX to use it
    (https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/overview.html)."""

    @property
    def product(self) -> str | None:
        """`nvidia.com/gpu.product` as GPU feature discovery writes it: the name with hyphens."""
        return self.driver_name and self.driver_name.replace(" ", "-")

    @property
    def compute_capability(self) -> str:
        """The CUDA compute capability, such as `8.9`."""
        return _CAPABILITIES.get(self.model) or _CAPABILITIES[self.architecture]

    @property
    def memory_most(self) -> str:
        """The most memory that the driver reports, as a quantity: less than the name says."""
        return f"{self.memory_mib}Mi" if self.memory_mib else f"{self.memory_gb}Gi"

    @property
    def supports_mps(self) -> bool:
        """Whether MPS isolates the memory of its clients: from Volta on (general knowledge)."""
        return self.architecture not in _BEFORE_MPS

    @property
    def last_driver(self) -> int | None:
        """The last driver branch that supports it; None if new branches still do."""
        return LAST_DRIVER.get(self.architecture)


PRODUCT_SOURCES: Final = {
    "T4": "METR/hawk pull request 1643; memory: kubectl describe node, driver 525",
    "V100 16GB": "kubectl describe node of a virtual machine with Tesla-V100-SXM2-16GB",
    "A10G": "kubectl describe node of a g5.2xlarge",
    "A100 40GB": "kubectl describe node of a DGX Station A100; 40536 before driver 510",
    "A100 80GB": "labels of a node with gpu.machine NVIDIA-DGX-A100",
    "L4": "labels of a node with gpu.machine Google-Compute-Engine, driver 580",
    "L40S": "labels in NVIDIA's AI factory blueprints; nvidia-smi in akash provider-configs 99",
    "H100": "NVIDIA/k8s-device-plugin issue 1501",
    "H200": "ai-dynamo/dynamo recipes, which select nodes by it; memory: nvidia-smi",
    "B200": "ai-dynamo/dynamo recipes, which select nodes by it; memory: nvidia-smi, driver 570",
    "GB200": "ai-dynamo/dynamo recipes, which select nodes by it; memory: nvidia-smi",
    "RTX PRO 6000": "NVIDIA Cloud Functions, labels of MIG nodes; memory: nvidia-smi, driver 610",
}
"""Model -> the published listing of a node's labels by GPU feature discovery; read 2026-11-24.
`nvidia-smi`: its listings in several public repositories, which agree; read 2026-11-30."""

_ROWS: Final = (
    Gpu(model="K80", memory_gb=12, architecture="Kepler"),
    Gpu(model="M60", memory_gb=8, architecture="Maxwell"),
    Gpu(model="P4", memory_gb=8, architecture="Pascal"),
    Gpu(model="P100", memory_gb=16, architecture="Pascal"),
    Gpu(model="V100 16GB", driver_name="Tesla V100-SXM2-16GB", memory_mib=16384, memory_gb=16,
        architecture="Volta"),
    Gpu(model="V100 32GB", memory_gb=32, architecture="Volta"),
    Gpu(model="T4", driver_name="Tesla T4", memory_mib=15360, memory_gb=16, architecture="Turing"),
    Gpu(model="T4G", memory_gb=16, architecture="Turing"),
    Gpu(model="A10G", driver_name="NVIDIA A10G", memory_mib=23028, memory_gb=24,
        architecture="Ampere"),
    Gpu(model="A30", memory_gb=24, architecture="Ampere"),
    Gpu(model="A100 40GB", driver_name="NVIDIA A100-SXM4-40GB", memory_mib=40960, memory_gb=40,
        architecture="Ampere"),
    Gpu(model="A100 80GB", driver_name="NVIDIA A100-SXM4-80GB", memory_mib=81920, memory_gb=80,
        architecture="Ampere"),
    Gpu(model="L4", driver_name="NVIDIA L4", memory_mib=23034, memory_gb=24, architecture="Ada"),
    Gpu(model="L40S", driver_name="NVIDIA L40S", memory_mib=46068, memory_gb=48,
        architecture="Ada"),
    Gpu(model="H100", driver_name="NVIDIA H100 80GB HBM3", memory_mib=81559, memory_gb=80,
        architecture="Hopper"),
    Gpu(model="H200", driver_name="NVIDIA H200", memory_mib=143771, memory_gb=141,
        architecture="Hopper"),
    Gpu(model="B200", driver_name="NVIDIA B200", memory_mib=183359, memory_gb=180,
        architecture="Blackwell"),
    Gpu(model="B300", memory_gb=269, architecture="Blackwell Ultra"),
    Gpu(model="GB200", driver_name="NVIDIA GB200", memory_mib=189471, memory_gb=186,
        architecture="Blackwell", nvlink_domain=True),
    Gpu(model="GB300", memory_gb=279, architecture="Blackwell Ultra", nvlink_domain=True),
    Gpu(model="RTX PRO 4500", memory_gb=32, architecture="Blackwell"),
    Gpu(model="RTX PRO 6000", driver_name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        memory_mib=97887, memory_gb=96, architecture="Blackwell"),
)  # fmt: skip

GPUS: Final[Mapping[str, Gpu]] = MappingProxyType({row.model: row for row in _ROWS})
"""Model -> GPU: every NVIDIA GPU that `gke` or `eks` names, and the A30 of other clusters."""
