"""GPUs on Kubernetes as Pulumi components, with the commands that work on stack files.

`GpuStack` declares a stack. The args classes of every platform and block are exported here under
their names, such as `EksClusterArgs`; classes nested in other args are in the modules of those.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Commands import parts of this package and must answer before an SDK is loaded.
if TYPE_CHECKING:
    from .components.access.service_accounts import ServiceAccountArgs as ServiceAccountArgs
    from .components.batch.batch_args import BatchArgs as BatchArgs
    from .components.batch.team_args import TeamArgs as TeamArgs
    from .components.batch.training_args import TrainingArgs as TrainingArgs
    from .components.eks.cluster_args import EksClusterArgs as EksClusterArgs
    from .components.eks.existing_args import EksExistingClusterArgs as EksExistingClusterArgs
    from .components.eks.pool_args import EksGpuNodeGroupArgs as EksGpuNodeGroupArgs
    from .components.existing.cluster_args import ExistingClusterArgs as ExistingClusterArgs
    from .components.existing.pool_args import ExistingGpuPoolArgs as ExistingGpuPoolArgs
    from .components.gke.cluster_args import GkeClusterArgs as GkeClusterArgs
    from .components.gke.existing_args import GkeExistingClusterArgs as GkeExistingClusterArgs
    from .components.gke.pool_args import GkeGpuNodePoolArgs as GkeGpuNodePoolArgs
    from .components.gke_autopilot.cluster_args import GkeAutopilotArgs as GkeAutopilotArgs
    from .components.gke_autopilot.pool_args import GkeAutopilotPoolArgs as GkeAutopilotPoolArgs
    from .components.gpu.acceptance_args import GpuTestArgs as GpuTestArgs
    from .components.gpu.images_args import ImagesArgs as ImagesArgs
    from .components.gpu.monitoring_args import MonitoringArgs as MonitoringArgs
    from .components.gpu.pod_args import NamespaceArgs as NamespaceArgs
    from .components.gpu.service_args import ServiceArgs as ServiceArgs
    from .components.gpu.volume_args import VolumeClaimArgs as VolumeClaimArgs
    from .components.gpu.workload_args import WorkloadArgs as WorkloadArgs
    from .components.stack import GpuStack as GpuStack
    from .components.stack import GpuStackArgs as GpuStackArgs


def __getattr__(name: str) -> Any:
    if name.startswith("GpuStack"):
        return getattr(import_module(".components.stack", __name__), name)
    # Submodule names are not args: `from ... import` tries them here before it imports the
    # submodule.
    for args in _args() if name[:1].isupper() else ():
        if args.__name__ == name:
            return args
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _args() -> Iterator[type[Any]]:
    """Yields the args classes of every platform and block."""
    for platform in import_module(".components.platforms", __name__).PLATFORMS.values():
        yield from (platform.settings.CLUSTER, platform.settings.POOL)
    for block in import_module(".components.settings.blocks", __name__).BLOCKS.values():
        yield block.args
