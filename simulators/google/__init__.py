"""A small strict simulation of Google Cloud, for the engine's `gcp` provider."""

from plugins.cloud.server import ProviderServer, ProviderSettings
from simulators.google.cloud import GcpCloud
from simulators.google.cluster import Cluster
from simulators.google.iam import Account, AccountMember, ProjectMember
from simulators.google.network import Firewall, Network, Router, RouterNat, Subnetwork
from simulators.google.node_pool import NodePool
from simulators.google.project import AlertPolicy, Dashboard, Repository, Service
from simulators.google.settings import check_config

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
    """The provider that simulates this cloud."""
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
