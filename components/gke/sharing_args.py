"""The settings of GPU sharing on GKE Standard and Autopilot."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from ..catalog import gke as catalog
from ..cluster import Sharing
from ..effect import Sent
from ..limits import check_limits
from ..refusal import Range, Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeSharingArgs:
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

    def __post_init__(self) -> None:
        check_limits(self)

    def of(self, gpu_model: catalog.Accelerator) -> Sharing:
        """How pods share a GPU of this model."""
        return Sharing(
            strategy=self.strategy,
            replicas=self.replicas,
            partition=self.partition,
            partitions=gpu_model.mig[self.partition] if self.partition else 1,
        )

    def check(self, gpu_model: catalog.Accelerator) -> None:
        """Raises ValueError if GKE does not support this with the GPU; the keys are a pool's."""
        mig = ", ".join(gpu_model.mig) or "none, because it does not support MIG"
        if self.strategy == "mig" and self.partition is None:
            raise Refusal(
                ("sharing", "partition"), "is missing", remedy=f"allowed on {gpu_model.name}: {mig}"
            )
        if self.partition is not None and self.partition not in gpu_model.mig:
            raise Refusal(
                ("sharing", "partition"),
                f"is not a partition of {gpu_model.name}; allowed: {mig}",
                given=self.partition,
            )
        if self.strategy == "mps" and self.partition is not None:
            raise Refusal(
                ("sharing", "partition"),
                "MPS does not run on MIG partitions; use time-slicing or mig",
            )
        if self.strategy == "mig" and self.replicas != 1:
            raise Refusal(
                ("sharing", "replicas"),
                "needs strategy time-slicing, which may have a partition too",
                given=self.replicas,
            )
        low, high = catalog.MIN_SHARED_CLIENTS, catalog.MAX_SHARED_CLIENTS
        if self.strategy != "mig" and self.replicas < low:
            allowed = Range(low, high)
            raise Refusal(
                "sharing.replicas", "is out of range", given=self.replicas, allowed=allowed
            )
