"""GPUs on Kubernetes as Pulumi components, with the commands that work on stack files.

`GpuStack` declares a stack. Every args class that a stack takes is exported here under its name:
those of platforms and blocks, such as `EksClusterArgs`, and those in their fields.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

_STACK = ("GpuStack", "GpuStackArgs")

# Commands import parts of this package and must answer before an SDK is loaded.
if TYPE_CHECKING:
    from .components.access.service_accounts import ServiceAccountArgs as ServiceAccountArgs
    from .components.batch.batch_args import BatchArgs as BatchArgs
    from .components.batch.batch_args import QueueArgs as QueueArgs
    from .components.batch.team_args import TeamArgs as TeamArgs
    from .components.batch.team_args import TeamQuotaArgs as TeamQuotaArgs
    from .components.batch.training_args import TrainingArgs as TrainingArgs
    from .components.cluster import Taint as Taint
    from .components.cluster import Toleration as Toleration
    from .components.eks.autoscaler_args import EksAutoscalerArgs as EksAutoscalerArgs
    from .components.eks.autoscaler_args import EksPoolAutoscalerArgs as EksPoolAutoscalerArgs
    from .components.eks.cluster_args import EksClusterArgs as EksClusterArgs
    from .components.eks.cluster_args import EksSystemPoolArgs as EksSystemPoolArgs
    from .components.eks.cpu_pool_args import EksCpuPoolArgs as EksCpuPoolArgs
    from .components.eks.existing_args import EksExistingClusterArgs as EksExistingClusterArgs
    from .components.eks.existing_args import EksExistingNetworkArgs as EksExistingNetworkArgs
    from .components.eks.fallback_args import EksFallbackArgs as EksFallbackArgs
    from .components.eks.karpenter_args import EksKarpenterArgs as EksKarpenterArgs
    from .components.eks.karpenter_args import EksPoolKarpenterArgs as EksPoolKarpenterArgs
    from .components.eks.network_args import EksNetworkArgs as EksNetworkArgs
    from .components.eks.node_args import EksKubeletArgs as EksKubeletArgs
    from .components.eks.node_repair_args import EksNodeRepairArgs as EksNodeRepairArgs
    from .components.eks.node_repair_args import (
        EksNodeRepairOverrideArgs as EksNodeRepairOverrideArgs,
    )
    from .components.eks.pool_args import EksGpuNodeGroupArgs as EksGpuNodeGroupArgs
    from .components.eks.sharing_args import EksSharingArgs as EksSharingArgs
    from .components.eks.user_args import EksUserArgs as EksUserArgs
    from .components.eks.warm_pool_args import EksWarmPoolArgs as EksWarmPoolArgs
    from .components.existing.cluster_args import ExistingClusterArgs as ExistingClusterArgs
    from .components.existing.pool_args import ExistingGpuPoolArgs as ExistingGpuPoolArgs
    from .components.existing.pool_args import ExistingSharingArgs as ExistingSharingArgs
    from .components.existing.pool_args import ExistingTaint as ExistingTaint
    from .components.gke.cluster_args import GkeClusterArgs as GkeClusterArgs
    from .components.gke.cluster_args import GkeSystemPoolArgs as GkeSystemPoolArgs
    from .components.gke.cpu_pool_args import GkeCpuPoolArgs as GkeCpuPoolArgs
    from .components.gke.data_cache_args import GkeDataCacheArgs as GkeDataCacheArgs
    from .components.gke.existing_args import GkeExistingClusterArgs as GkeExistingClusterArgs
    from .components.gke.existing_args import GkeExistingNetworkArgs as GkeExistingNetworkArgs
    from .components.gke.fallback_args import GkeAutopilotFallbackArgs as GkeAutopilotFallbackArgs
    from .components.gke.fallback_args import GkeFallbackArgs as GkeFallbackArgs
    from .components.gke.maintenance_args import GkeMaintenanceArgs as GkeMaintenanceArgs
    from .components.gke.maintenance_args import (
        GkeMaintenanceExclusionArgs as GkeMaintenanceExclusionArgs,
    )
    from .components.gke.network_args import GkeNetworkArgs as GkeNetworkArgs
    from .components.gke.node_args import GkeKubeletArgs as GkeKubeletArgs
    from .components.gke.node_args import GkeLinuxArgs as GkeLinuxArgs
    from .components.gke.node_args import GkeUpgradeArgs as GkeUpgradeArgs
    from .components.gke.pool_args import GkeGpuNodePoolArgs as GkeGpuNodePoolArgs
    from .components.gke.sharing_args import GkeSharingArgs as GkeSharingArgs
    from .components.gke_autopilot.cluster_args import GkeAutopilotArgs as GkeAutopilotArgs
    from .components.gke_autopilot.pool_args import GkeAutopilotPoolArgs as GkeAutopilotPoolArgs
    from .components.gpu.acceptance_args import GpuTestArgs as GpuTestArgs
    from .components.gpu.acceptance_request import ThresholdsArgs as ThresholdsArgs
    from .components.gpu.images_args import ImagesArgs as ImagesArgs
    from .components.gpu.monitoring_args import MonitoringArgs as MonitoringArgs
    from .components.gpu.pod_args import EnvFromArgs as EnvFromArgs
    from .components.gpu.pod_args import GpuSelectorArgs as GpuSelectorArgs
    from .components.gpu.pod_args import NamespaceArgs as NamespaceArgs
    from .components.gpu.resources_args import ResourcesArgs as ResourcesArgs
    from .components.gpu.service_args import MetricArgs as MetricArgs
    from .components.gpu.service_args import PrometheusArgs as PrometheusArgs
    from .components.gpu.service_args import ScalingArgs as ScalingArgs
    from .components.gpu.service_args import ServiceArgs as ServiceArgs
    from .components.gpu.volume_args import VolumeArgs as VolumeArgs
    from .components.gpu.volume_args import VolumeClaimArgs as VolumeClaimArgs
    from .components.gpu.workload_args import ProbeArgs as ProbeArgs
    from .components.gpu.workload_args import WorkloadArgs as WorkloadArgs
    from .components.stack import GpuStack as GpuStack
    from .components.stack import GpuStackArgs as GpuStackArgs


def __getattr__(name: str) -> Any:
    if name in _STACK:
        return getattr(import_module(".components.stack", __name__), name)
    # Submodule names are not args: `from ... import` tries them here before it imports the
    # submodule.
    for args in _args() if name[:1].isupper() else ():
        if args.__name__ == name:
            return args
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_STACK, *(args.__name__ for args in _args())})


def _args() -> Iterator[type[Any]]:
    """Yields the args classes of every platform and block, then all that are in their fields."""
    blocks: list[type[Any]] = []
    for platform in import_module(".components.platforms", __name__).PLATFORMS.values():
        blocks += [platform.settings.CLUSTER, platform.settings.POOL]
        yield from blocks[-2:]
    for block in import_module(".components.settings.blocks", __name__).BLOCKS.values():
        blocks.append(block.args)
        yield block.args
    for args in blocks:
        yield from import_module(".components.schema.decode", __name__).classes_in(args)
