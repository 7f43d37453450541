"""GPUs on Kubernetes as Pulumi components. In the wheel, this package is called `gpu_cluster`.

`GpuStack` declares a stack. The args classes of every platform and block are exported here under
their names, such as `EksClusterArgs`; classes nested in other args are in the modules of those.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Commands import parts of this package and must answer before an SDK is loaded.
if TYPE_CHECKING:
    from .access import ServiceAccountArgs as ServiceAccountArgs
    from .batch.batch_args import BatchArgs as BatchArgs
    from .batch.team_args import TeamArgs as TeamArgs
    from .batch.training_args import TrainingArgs as TrainingArgs
    from .eks.cluster_args import EksClusterArgs as EksClusterArgs
    from .eks.existing_args import EksExistingClusterArgs as EksExistingClusterArgs
    from .eks.pool_args import EksGpuNodeGroupArgs as EksGpuNodeGroupArgs
    from .existing.cluster_args import ExistingClusterArgs as ExistingClusterArgs
    from .existing.pool_args import ExistingGpuPoolArgs as ExistingGpuPoolArgs
    from .gke.cluster_args import GkeClusterArgs as GkeClusterArgs
    from .gke.existing_args import GkeExistingClusterArgs as GkeExistingClusterArgs
    from .gke.pool_args import GkeGpuNodePoolArgs as GkeGpuNodePoolArgs
    from .gke_autopilot.cluster_args import GkeAutopilotArgs as GkeAutopilotArgs
    from .gke_autopilot.pool_args import GkeAutopilotPoolArgs as GkeAutopilotPoolArgs
    from .gpu.acceptance_args import GpuTestArgs as GpuTestArgs
    from .gpu.images_args import ImagesArgs as ImagesArgs
    from .gpu.monitoring_args import MonitoringArgs as MonitoringArgs
    from .gpu.pod_args import NamespaceArgs as NamespaceArgs
    from .gpu.service_args import ServiceArgs as ServiceArgs
    from .gpu.volume_args import VolumeClaimArgs as VolumeClaimArgs
    from .gpu.workload_args import WorkloadArgs as WorkloadArgs
    from .stack import GpuStack as GpuStack
    from .stack import GpuStackArgs as GpuStackArgs


def __getattr__(name: str) -> Any:
    if name.startswith("GpuStack"):
        return getattr(import_module(".stack", __name__), name)
    # Submodule names are not args: `from ... import` tries them here before it imports the
    # submodule.
    for args in _args() if name[:1].isupper() else ():
        if args.__name__ == name:
            return args
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _args() -> Iterator[type[Any]]:
    """Yields the args classes of every platform and block."""
    for platform in import_module(".platforms", __name__).PLATFORMS.values():
        yield from (platform.settings.CLUSTER, platform.settings.POOL)
    for block in import_module(".settings.blocks", __name__).BLOCKS.values():
        yield block.args
