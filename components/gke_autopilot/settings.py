"""The settings of a GKE Autopilot environment."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..access.service_accounts import Access
from ..cluster import Metrics, ResolvedPool, Runs, resolved
from ..gke.classes import check_names
from ..gke.node_account import account_id, registry_warnings
from ..gke.sign_in import identity_warnings, project_id
from ..gke.volumes import access
from ..gke.warnings import warnings
from ..scalers import scaler_of
from ..schema.decode import NAMESPACE, at
from ..schema.refusal import Refusals, known_only
from .cluster_args import GkeAutopilotArgs
from .pool_args import GkeAutopilotPoolArgs

CLUSTER, POOL = GkeAutopilotArgs, GkeAutopilotPoolArgs
account = project_id


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeAutopilotSettings:
    """A GKE Autopilot cluster and the GPUs that its pods can use."""

    project: str
    """Google Cloud project ID, from `gcp:project`."""
    cluster: GkeAutopilotArgs
    pools: Mapping[str, ResolvedPool[GkeAutopilotPoolArgs]]
    foreign: Sequence[str] = ()
    """Warnings about different identities in cloud and cluster, each starting with its key."""

    def warnings(self, runs: Runs) -> list[str]:
        """The warnings of every preview."""
        nodes = {name: pool.args.node_gpus for name, pool in self.pools.items()}
        return [*self.foreign, *warnings(self.cluster, self.project, nodes, runs)]

    @property
    def metrics(self) -> Metrics:
        """GKE's own exporter: Autopilot does not admit privileged ones."""
        return Metrics(sources=("managed",), managed_prometheus=True)

    @property
    def access(self) -> Access:
        """Roles in the project, Cloud Storage buckets, and classes for disks and Filestore."""
        return access(
            self.cluster.network,
            autopilot=True,
            security_group=self.cluster.security_group,
            no_cache="needs local SSDs for Data Cache, which only nodes of GKE Standard have; "
            "choose another class",
        )


def resolve(
    config: Mapping[str, str],
    cluster: GkeAutopilotArgs,
    pools: Mapping[str, GkeAutopilotPoolArgs],
    refusals: Refusals,
) -> GkeAutopilotSettings:
    """Resolves the settings, as `SettingsModule.resolve` says."""
    refusals.run(
        lambda: at(f"{NAMESPACE}:cluster", cluster.network.check_in, project_id(config)),
        lambda: (
            check_names(pools) if scaler_of("gke-autopilot", cluster.scaler).in_cluster else None
        ),
    )
    settings = known_only(
        GkeAutopilotSettings, cluster=cluster, pools=resolved(pools, refusals, cluster)
    )
    with refusals:
        project = project_id(config)
        foreign = [
            *identity_warnings(config, os.environ),
            *registry_warnings(config, project, account_id(cluster.name)),
        ]
        return replace(settings, project=project, foreign=foreign)
    return settings
