"""The settings of a stack as they were read from its config."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from ..batch.batch_args import BatchArgs
from ..cluster import Disk, ResolvedPool, Runs
from ..gpu.acceptance_args import GpuTestArgs
from ..gpu.images_args import ImagesArgs
from ..gpu.monitoring_args import MonitoringArgs
from ..gpu.pod_args import Auxiliary, NamespaceArgs
from ..gpu.pod_group import PodGroup
from ..platforms import PlatformSettings
from ..schema.decode import NAMESPACE
from .blocks import RUNNING

Own = TypeVar("Own", bound=PlatformSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Generic[Own]):
    """An environment: a cluster with its pools, and what runs in it, on any platform."""

    platform: str
    """Key of `PLATFORMS`, as users write it."""
    own: Own
    """Cluster and pools as the platform's folder resolved them."""
    running: Mapping[str, Any]
    """Key of `RUNNING` -> what its `read` returned."""
    monitoring: MonitoringArgs | None = None
    batch: BatchArgs | None = None
    namespaces: Mapping[str, NamespaceArgs] = field(default_factory=dict)
    auxiliary: Auxiliary = field(default_factory=Auxiliary)
    """The accounts and claims that pods may name."""
    images: ImagesArgs = field(default_factory=ImagesArgs)

    @property
    def cluster(self) -> Any:
        """The cluster's args; their class is that of `own`."""
        return self.own.cluster

    @property
    def pools(self) -> Mapping[str, ResolvedPool[Any]]:
        """Name -> resolved pool."""
        return self.own.pools

    @property
    def entries(self) -> Mapping[str, Any]:
        """Key's path -> args of everything that the stack runs."""
        running: dict[str, Any] = {}
        for key, block in RUNNING.items():
            running |= block.entries(f"{NAMESPACE}:{key}", self.running[key])
        return running

    @property
    def protected(self) -> bool:
        """Whether it runs pods from which only NetworkPolicies keep other pods."""
        return any(block.protected and self.running[key] for key, block in RUNNING.items())

    @property
    def gpu_test(self) -> GpuTestArgs | None:
        """The acceptance test."""
        return cast(GpuTestArgs | None, self.running["gpuTest"])

    @property
    def pod_groups(self) -> Sequence[PodGroup]:
        """All pods that the stack runs."""
        return [pods for key in RUNNING for pods in self.pod_groups_of(key)]

    def pod_groups_of(self, key: str) -> Iterator[PodGroup]:
        """The pods of one block."""
        pools = {name: resolved.pool for name, resolved in self.pools.items()}
        yield from RUNNING[key].pod_groups(f"{NAMESPACE}:{key}", self.running[key], pools)

    @property
    def mounted(self) -> Mapping[str, tuple[str | None, Sequence[str]]]:
        """Claim of the stack -> its zone, if set, and the pools whose pods mount it."""
        groups = self.pod_groups
        return {
            name: (
                claim.zone, sorted({pods.pool for pods in groups if name in pods.claims.values()})
            )
            for name, claim in self.auxiliary.claims.items()
        }  # fmt: skip

    @property
    def runs(self) -> Runs:
        """What will run in the cluster, as far as the platform needs it."""
        nodes: dict[str, int] = {}
        for pods in self.pod_groups:
            if pods.together:
                nodes[pods.pool] = max(pods.count, nodes.get(pods.pool, 0))
        channels = self.monitoring.notification_channels if self.monitoring else ()
        return Runs(
            metrics=self.monitoring.source if self.monitoring else None,
            notification_channels=channels,
            training_nodes=nodes,
            accounts=self.auxiliary.accounts,
            storage_classes=frozenset(
                claim.storage_class
                for claim in self.auxiliary.claims.values()
                if claim.storage_class
            ),
            claims={
                name: Disk(gib=claim.gib, zone=claim.zone)
                for name, claim in self.auxiliary.claims.items()
            },
        )
