"""A small strict simulation of Google Cloud, for the engine's `gcp` provider."""

from collections.abc import Callable, Mapping

from plugins import gcp
from plugins.cloud.server import ProviderSettings
from simulators.google.api.server import Api, ApiServer, Request
from simulators.google.cloud import GoogleCloud
from simulators.google.cluster import Cluster
from simulators.google.methods import METHODS
from simulators.google.node_pool import NodePool

__all__ = ["GoogleCloud", "serve_api", "settings_for"]

_KINDS = (
    Cluster,
    NodePool,
)


def settings_for(cloud: GoogleCloud, environment: Mapping[str, str]) -> ProviderSettings:
    """The provider of this cloud, whose API `environment` points at."""
    return gcp.settings_for(
        environment,
        faults=cloud.faults,
        changed=cloud.notify,
        more={kind.token: kind(cloud) for kind in _KINDS},
    )


def serve_api(
    cloud: GoogleCloud, seen: Callable[[Request], None] = lambda request: None
) -> ApiServer:
    """Starts the cloud's APIs on loopback; `seen` as `Api` has it."""
    return ApiServer(Api(cloud, METHODS, seen))
