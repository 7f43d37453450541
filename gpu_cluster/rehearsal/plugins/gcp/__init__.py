"""The offline plugin for `gcp`: how Google's provider maps inputs and responses, over HTTP.

Google Cloud's rules are not implemented here: the simulated API has them.
"""

from collections.abc import Callable, Mapping
from functools import partial

from gpu_cluster.clouds.rows.google import rows
from gpu_cluster.rehearsal.plugins.cloud.handler import ProviderSettings
from gpu_cluster.rehearsal.plugins.cloud.schema import Problem, block, unread
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.plugins.gcp import get_cluster
from gpu_cluster.rehearsal.plugins.gcp.client import Client
from gpu_cluster.rehearsal.plugins.gcp.cluster import Cluster
from gpu_cluster.rehearsal.plugins.gcp.compute import Firewall, Subnetwork
from gpu_cluster.rehearsal.plugins.gcp.iam import Account
from gpu_cluster.rehearsal.plugins.gcp.iam_members import AccountMember, BucketMember, ProjectMember
from gpu_cluster.rehearsal.plugins.gcp.node_pool import NodePool
from gpu_cluster.rehearsal.plugins.gcp.project import AlertPolicy, Dashboard, Service
from gpu_cluster.rehearsal.plugins.gcp.resource import Resource
from gpu_cluster.rehearsal.plugins.gcp.routing import Router, RouterNat

__all__ = ["settings_for"]

_MORE = {
    kind.token: kind
    for kind in (
        Account, AccountMember, AlertPolicy, BucketMember, Cluster, Dashboard, Firewall, NodePool,
        ProjectMember, Router, RouterNat, Service, Subnetwork,
    )
}  # fmt: skip
"""Type -> its class, for types that their row does not describe completely."""
_READ = frozenset(
    {
        "project",
        "region",
        "zone",
        # Settings that only determine how the real API is reached, and with which credentials.
        "accessToken",
        "billingProject",
        "credentials",
        "disableGlobalProjectWarning",
        "impersonateServiceAccount",
        "pluginDownloadURL",
        "requestTimeout",
        "userProjectOverride",
        "version",
    }
)


def settings_for(
    environment: Mapping[str, str], *, faults: Faults, changed: Callable[[], None] = lambda: None
) -> ProviderSettings:
    """The plugin for the APIs in `environment`: `GOOGLE_COMPUTE_CUSTOM_ENDPOINT` and so on."""
    client = Client(environment)
    handlers = {token: _MORE.get(token, Resource)(client, row) for token, row in rows().items()}
    return ProviderSettings(
        package="gcp",
        handlers=handlers,
        functions={get_cluster.TOKEN: partial(get_cluster.answer, handlers)},
        faults=faults,
        changed=changed,
        check_config=check_config,
    )


def check_config(inputs: Mapping[str, object]) -> list[Problem]:
    """Problems of a provider's configuration, including settings that are not read here."""
    import pulumi_gcp.provider  # takes a fraction of a second, which most callers do not need

    return unread("gcp", block(pulumi_gcp.provider.ProviderArgs).properties, _READ, inputs)
