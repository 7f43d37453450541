"""What a stack is to be, as its config was read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from components.batch.batch_args import BatchArgs
from components.batch.training_args import TrainingArgs
from components.cluster import Disk, ResolvedPool, Runs
from components.gpu.acceptance_args import GpuTestArgs
from components.gpu.images_args import ImagesArgs
from components.gpu.monitoring_args import MonitoringArgs
from components.gpu.pod_args import Beside, NamespaceArgs
from components.gpu.workload_args import WorkloadArgs
from components.platforms import PlatformSettings

Own = TypeVar("Own", bound=PlatformSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Generic[Own]):
    """An environment: a cluster with its pools, and what runs in it, whatever the platform."""

    platform: str
    """Key of `PLATFORMS`, as users write it."""
    own: Own
    """Cluster and pools, as the platform's folder resolved them."""
    workloads: Mapping[str, WorkloadArgs]
    monitoring: MonitoringArgs | None = None
    gpu_test: GpuTestArgs | None = None
    batch: BatchArgs | None = None
    training_jobs: Mapping[str, TrainingArgs] = field(default_factory=dict)
    namespaces: Mapping[str, NamespaceArgs] = field(default_factory=dict)
    beside: Beside = field(default_factory=Beside)
    """What workloads and training jobs may name: accounts and claims."""
    images: ImagesArgs = field(default_factory=ImagesArgs)

    @property
    def cluster(self) -> Any:
        """The cluster's args; `own` knows of which class."""
        return self.own.cluster

    @property
    def pools(self) -> Mapping[str, ResolvedPool[Any]]:
        """Name -> resolved pool."""
        return self.own.pools

    @property
    def mounted(self) -> Mapping[str, tuple[str | None, Sequence[str]]]:
        """Claim of the stack -> the zone that it names, and the pools whose pods mount it."""
        pods: Sequence[WorkloadArgs | TrainingArgs] = (
            *self.workloads.values(), *self.training_jobs.values(),
        )  # fmt: skip
        return {
            name: (claim.zone, sorted({
                each.pool for each in pods
                if name in (volume.claim for volume in each.volumes.values())
            }))
            for name, claim in self.beside.claims.items()
        }  # fmt: skip

    @property
    def runs(self) -> Runs:
        """What the platform has to know of what runs in its cluster."""
        nodes: dict[str, int] = {}
        for job in self.training_jobs.values():
            nodes[job.pool] = max(job.nodes, nodes.get(job.pool, 0))
        channels = self.monitoring.notification_channels if self.monitoring else ()
        return Runs(
            metrics=self.monitoring.source if self.monitoring else None,
            notification_channels=channels,
            training_nodes=nodes,
            accounts=self.beside.accounts,
            storage_classes=frozenset(
                claim.storage_class for claim in self.beside.claims.values() if claim.storage_class
            ),
            claims={
                name: Disk(gib=claim.gib, zone=claim.zone)
                for name, claim in self.beside.claims.items()
            },
        )
