"""One resource of the simulated Google Cloud, and its name."""

from dataclasses import dataclass, field
from typing import Any

PROJECT_NUMBER = "123456789012"


@dataclass(slots=True, kw_only=True)
class CloudResource:
    """Something that exists in the cloud."""

    token: str
    display_name: str
    """What it is called in messages, e.g. `subnetwork`."""
    identity: str
    state: dict[str, Any]
    depends_on: list[str] = field(default_factory=list)
    """Resources that cannot be deleted as long as this one is there."""
    parent: str | None = None
    """The resource that takes this one along when it is deleted."""
    nodes: int = 0
    """Node pools: nodes that run now."""
    kept_nodes: int = 0
    """Node pools: nodes that the cloud itself started."""
    revision: int = 0
    """Node pools: how often GKE began to recreate the nodes."""
