"""What a stack is to be: the settings of an environment on each platform, as they were read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypedDict

from components.batch.batch_args import BatchArgs
from components.batch.training_args import TrainingArgs
from components.gpu.acceptance_args import GpuTestArgs
from components.gpu.monitoring_args import MonitoringArgs
from components.gpu.workload_args import WorkloadArgs

# A stack on one platform has no use for the catalog of another.
if TYPE_CHECKING:
    from components.eks.cluster_args import EksClusterArgs
    from components.eks.pool_args import EksGpuNodeGroupArgs
    from components.eks.provider_args import AwsProviderArgs
    from components.existing.cluster_args import ExistingClusterArgs, ExistingGpuPoolArgs
    from components.gke.cluster_args import GkeClusterArgs
    from components.gke.gpu_monitoring_args import GkeGpuMonitoringArgs
    from components.gke.pool_args import GkeGpuNodePoolArgs
    from components.gke_autopilot.cluster_args import GkeAutopilotArgs, GkeAutopilotPoolArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonSettings:
    """What runs in the cluster, whatever its platform."""

    workloads: Mapping[str, WorkloadArgs]
    monitoring: MonitoringArgs | None = None
    gpu_test: GpuTestArgs | None = None
    batch: BatchArgs | None = None
    training_jobs: Mapping[str, TrainingArgs] = field(default_factory=dict)

    @property
    def training_nodes(self) -> Mapping[str, int]:
        """Pool that training jobs name -> nodes of the largest of them."""
        nodes: dict[str, int] = {}
        for job in self.training_jobs.values():
            nodes[job.pool] = max(job.nodes, nodes.get(job.pool, 0))
        return nodes


class GoogleOptions(TypedDict):
    """Keyword arguments of `standard` and `autopilot`."""

    project: str
    monitoring: "GkeGpuMonitoringArgs | None"
    warnings: Sequence[str]
    training_nodes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleSettings(CommonSettings):
    """An environment on Google Cloud."""

    project: str
    """Google Cloud project ID, from `gcp:project`."""
    sign_in_warnings: Sequence[str] = ()
    """Where the cloud and the cluster would be somebody else's, each line with its key."""

    @property
    def google(self) -> "GoogleOptions":
        """What both kinds of GKE cluster take beside cluster and pools."""
        return {
            "project": self.project,
            "monitoring": self.google_monitoring,
            "warnings": self.sign_in_warnings,
            "training_nodes": self.training_nodes,
        }

    @property
    def google_monitoring(self) -> "GkeGpuMonitoringArgs | None":
        """What Google Cloud has to know of the monitoring."""
        from components.gke.gpu_monitoring_args import GkeGpuMonitoringArgs

        if self.monitoring is None or self.monitoring.source is None:
            return None
        return GkeGpuMonitoringArgs(
            source=self.monitoring.source,
            notification_channels=self.monitoring.notification_channels,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeSettings(GoogleSettings):
    """A GKE Standard environment."""

    cluster: "GkeClusterArgs"
    pools: Mapping[str, "GkeGpuNodePoolArgs"]
    platform: Literal["gke"] = "gke"


@dataclass(frozen=True, slots=True, kw_only=True)
class AutopilotSettings(GoogleSettings):
    """A GKE Autopilot environment."""

    cluster: "GkeAutopilotArgs"
    pools: Mapping[str, "GkeAutopilotPoolArgs"]
    platform: Literal["gke-autopilot"] = "gke-autopilot"


@dataclass(frozen=True, slots=True, kw_only=True)
class EksSettings(CommonSettings):
    """An EKS environment."""

    provider: "AwsProviderArgs"
    cluster: "EksClusterArgs"
    pools: Mapping[str, "EksGpuNodeGroupArgs"]
    platform: Literal["eks"] = "eks"

    @property
    def region(self) -> str:
        """AWS region."""
        return self.provider.region


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingSettings(CommonSettings):
    """A cluster that is already there."""

    cluster: "ExistingClusterArgs"
    kubeconfig: str
    """Content, with the one context that counts."""
    pools: Mapping[str, "ExistingGpuPoolArgs"]
    platform: Literal["existing"] = "existing"


Settings = GkeSettings | AutopilotSettings | EksSettings | ExistingSettings
