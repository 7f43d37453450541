"""A small strict simulation of Google Cloud, for the engine's `gcp` provider."""

from collections.abc import Mapping
from typing import Any

import pulumi_gcp.provider

from plugins.cloud.schema import Problem, block, did_you_mean
from plugins.cloud.server import ProviderServer, ProviderSettings
from simulators.google.cloud import GoogleCloud
from simulators.google.cluster import Cluster
from simulators.google.iam import Account, AccountMember, ProjectMember
from simulators.google.network import Firewall, Network, Router, RouterNat, Subnetwork
from simulators.google.node_pool import NodePool
from simulators.google.project import AlertPolicy, Dashboard, Repository, Service

__all__ = ["GoogleCloud", "serve", "settings_for"]

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

_SIMULATED = frozenset(
    {
        "project",
        "region",
        "zone",
        # What only decides how the real API is reached, and by whom.
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


def settings_for(cloud: GoogleCloud) -> ProviderSettings:
    """The provider that simulates this cloud."""
    return ProviderSettings(
        package="gcp",
        handlers={kind.token: kind(cloud) for kind in _KINDS},
        faults=cloud.faults,
        changed=cloud.notify,
        check_config=check_config,
    )


def serve(cloud: GoogleCloud) -> ProviderServer:
    """Starts the provider for this cloud on loopback; its `port` goes to the engine."""
    return ProviderServer(settings_for(cloud))


def check_config(inputs: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a provider's configuration, or not simulated here."""
    known = block(pulumi_gcp.provider.ProviderArgs).properties
    return [
        Problem(name, f"a rehearsal does not simulate 'gcp:{name}'")
        if name in known
        else Problem(name, f"the provider has no setting 'gcp:{name}'{did_you_mean(name, known)}")
        for name in inputs
        if name not in _SIMULATED and not name.startswith("__")
    ]
