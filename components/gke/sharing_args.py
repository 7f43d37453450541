"""The settings of GPU sharing on GKE Standard and Autopilot."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from ..catalog import gke as catalog
from ..cluster import Sharing
from ..schema.effect import Sent
from ..schema.refusal import Range, Refusal, collected, refuse
from ..schema.rules import Checked

_CLIENTS = Range(catalog.MIN_SHARED_CLIENTS, catalog.MAX_SHARED_CLIENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeSharingArgs(Checked):
    """How several pods share a GPU of the pool."""

    strategy: Annotated[
        Literal["time-slicing", "mps", "mig"],
        Sent(
            "NodePool nodeConfig.guestAccelerators[].gpuSharingConfig.gpuSharingStrategy",
            "PodSpec nodeSelector",
        ),
    ]
    """How a GPU is shared: by time-slicing, by NVIDIA's MPS, or in MIG partitions."""
    replicas: Annotated[
        int,
        Interval(ge=1, le=catalog.MAX_SHARED_CLIENTS),
        Sent(
            "NodePool nodeConfig.guestAccelerators[].gpuSharingConfig.maxSharedClientsPerGpu",
            "PodSpec nodeSelector",
        ),
    ] = 1
    """How many pods share a GPU or MIG partition: 2 to 48 with time-slicing or MPS, 1 with MIG."""
    partition: Annotated[
        str | None,
        Sent("NodePool nodeConfig.guestAccelerators[].gpuPartitionSize", "PodSpec nodeSelector"),
    ] = None
    """The MIG profile, such as `1g.5gb`."""

    def possible(self, key: str) -> Range | Sequence[int] | None:
        """What the other settings allow for this one."""
        if key != "replicas":
            return None
        return [1] if self.strategy == "mig" else _CLIENTS

    def of(self, gpu_model: catalog.Accelerator) -> Sharing:
        """How pods share a GPU of this model."""
        return Sharing(
            strategy=self.strategy,
            replicas=self.replicas,
            partition=self.partition,
            partitions=gpu_model.mig[self.partition] if self.partition else 1,
        )

    @collected
    def check(self, gpu_model: catalog.Accelerator) -> Iterator[Refusal]:
        """Raises `Refusal` if GKE does not support this with the GPU; the keys are a pool's."""
        mig = ", ".join(gpu_model.mig) or "none, because it does not support MIG"
        if self.strategy == "mig" and self.partition is None:
            yield refuse(("sharing", "partition"))(
                "is missing", remedy=f"allowed on {gpu_model.name}: {mig}"
            )
        if self.partition is not None and self.partition not in gpu_model.mig:
            yield refuse(("sharing", "partition"), self.partition)(
                f"is not a partition of {gpu_model.name}; allowed: {mig}"
            )
        if self.strategy == "mps" and self.partition is not None:
            yield refuse(("sharing", "partition"))(
                "MPS does not run on MIG partitions; use time-slicing or mig"
            )
        if self.strategy == "mig" and self.replicas != 1:
            yield refuse(("sharing", "replicas"), self.replicas)(
                "needs strategy time-slicing, which may have a partition too"
            )
        if self.strategy != "mig" and self.replicas not in _CLIENTS:
            yield refuse("sharing.replicas", self.replicas)("is out of range", allowed=_CLIENTS)
