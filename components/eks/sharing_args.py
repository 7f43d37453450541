"""What a user says of the sharing of a pool's GPUs on EKS."""

from dataclasses import dataclass
from typing import Literal

from components.catalog.accelerators import GPUS

_MAX_REPLICAS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class EksSharingArgs:
    """How several pods share a GPU of the pool."""

    strategy: Literal["time-slicing", "mps", "mig"]
    replicas: int
    """Pods per GPU, 2 to 48."""

    def __post_init__(self) -> None:
        if self.strategy == "mig":
            raise ValueError(
                "strategy: mig needs a manager that partitions the GPUs of each new node, which "
                "EKS has not and this stack does not run; take time-slicing"
            )
        if not 2 <= self.replicas <= _MAX_REPLICAS:
            raise ValueError(
                f"replicas: {self.replicas} is out of range; allowed: 2 to {_MAX_REPLICAS}"
            )

    def check(self, *, os: str, gpu_model: str) -> None:
        """Raises ValueError where nodes of this image and GPU cannot share so."""
        if self.strategy == "mps" and os == "bottlerocket":
            raise ValueError(
                "strategy: mps is unknown to Bottlerocket's own device plugin; take time-slicing, "
                "or os al2023"
            )
        if self.strategy == "mps" and not GPUS[gpu_model].supports_mps:
            raise ValueError(
                f"strategy: mps does not keep clients' memory apart on {gpu_model}; take "
                "time-slicing"
            )
