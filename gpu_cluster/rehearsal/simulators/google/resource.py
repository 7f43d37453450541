"""One resource of the simulated Google Cloud, and its name."""

from dataclasses import dataclass, field
from typing import Any

PROJECT_NUMBER = "123456789012"


@dataclass(slots=True, kw_only=True)
class CloudResource:
    """A resource that exists in the cloud."""

    token: str
    display_name: str
    """Its name in messages, such as `subnetwork`."""
    identity: str
    state: dict[str, Any]
    depends_on: list[str] = field(default_factory=list)
    """Resources that cannot be deleted while this one exists."""
    parent: str | None = None
    """The resource with which this one is deleted."""
    nodes: int = 0
    """Node pools: the current number of nodes."""
    kept_nodes: int = 0
    """Node pools: the nodes that the cloud itself started."""
    surging: int = 0
    """Node pools: the nodes above its size, until an upgrade has replaced the others."""
    revision: int = 0
    """Node pools: how often GKE has started to recreate the nodes."""
