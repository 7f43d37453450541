"""The packages that can be compared: how each plugin is started and queried."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from gpu_cluster.rehearsal.plugins import gcp
from gpu_cluster.rehearsal.plugins.cloud.schema import Block, block, resource_schema
from gpu_cluster.rehearsal.plugins.cloud.server import ProviderServer
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.plugins.kubernetes.schema import input_class
from gpu_cluster.rehearsal.plugins.kubernetes.server import KubernetesProviderServer
from quality.fidelity.behind import Behind, empty_cluster, nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One Pulumi package."""

    title: str
    config: Mapping[str, str]
    """The provider's config on both sides, in addition to that of the API behind them."""
    environment: Mapping[str, str]
    """The official plugin's environment, with which it must not reach any server."""
    offline: Callable[[], AbstractContextManager[int]]
    """Starts the offline plugin; yields its port."""
    shape: Callable[[str], Block]
    """The inputs of a resource type."""
    behind: Callable[[], AbstractContextManager[Behind]]
    """Starts the API that both plugins use."""
    fixed: frozenset[str] = frozenset()
    """Inputs that the SDK's classes set themselves, so that a program cannot change them."""
    deepest: int
    """The number of nested block levels that are covered."""
    previews: bool
    """Whether a preview's outputs are the provider's own, and not an API server's."""


@contextmanager
def _google() -> Iterator[int]:
    """Only previews are requested, which need no API."""
    with ProviderServer(gcp.settings_for({}, faults=Faults())) as server:
        yield server.port


@contextmanager
def _kubernetes() -> Iterator[int]:
    server = KubernetesProviderServer({"PATH": os.defpath})
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


def _kubernetes_shape(token: str) -> Block:
    found = input_class(token)
    return block(found) if found else Block(properties={}, required=frozenset())


PACKAGES: Mapping[str, Package] = {
    "gcp": Package(
        title="Google Cloud",
        config={"project": "my-project", "region": "us-central1", "zone": "us-central1-a"},
        environment={"GOOGLE_OAUTH_ACCESS_TOKEN": "nobody's"},
        offline=_google,
        shape=lambda token: resource_schema(token).inputs,
        behind=nothing,
        deepest=9,
        previews=True,
    ),
    "kubernetes": Package(
        title="Kubernetes",
        config={},
        environment={},
        offline=_kubernetes,
        shape=_kubernetes_shape,
        behind=empty_cluster,
        fixed=frozenset({"apiVersion", "kind"}),
        deepest=5,
        previews=False,
    ),
}
"""Without the official AWS plugin, which has not been available for a comparison yet."""
