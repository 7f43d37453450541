"""A small strict simulation of Google Cloud, for the engine's `gcp` provider."""

from rehearsal.gcp.cloud import GcpCloud
from rehearsal.gcp.cluster import Cluster
from rehearsal.gcp.iam import Account, AccountMember, ProjectMember
from rehearsal.gcp.network import Firewall, Network, Router, RouterNat, Subnetwork
from rehearsal.gcp.node_pool import NodePool
from rehearsal.gcp.project import AlertPolicy, Dashboard, Repository, Service
from rehearsal.gcp.settings import check_config
from rehearsal.provider.server import ProviderServer, ProviderSettings

__all__ = ["GcpCloud", "serve", "settings_for"]

_KINDS = (
    Network,
    Subnetwork,
    Router,
    RouterNat,
    Firewall,
    Account,
    ProjectMember,
    AccountMember,
    Service,
    Repository,
    Dashboard,
    AlertPolicy,
    Cluster,
    NodePool,
)


def settings_for(cloud: GcpCloud) -> ProviderSettings:
    """The provider that plays this cloud."""
    return ProviderSettings(
        package="gcp",
        handlers={kind.token: kind(cloud) for kind in _KINDS},
        faults=cloud.faults,
        changed=cloud.notify,
        check_config=check_config,
    )


def serve(cloud: GcpCloud) -> ProviderServer:
    """Starts the provider for this cloud on loopback; its `port` goes to the engine."""
    return ProviderServer(settings_for(cloud))
