"""Something that exists in the simulated Google Cloud, and how it is named."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plugins.cloud.handler import CloudError, Config

PROJECT_NUMBER = "123456789012"
_API = "https://www.googleapis.com/compute/v1/"


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


def project_of(config: Config, inputs: Mapping[str, Any]) -> str:
    """The project of a resource: its own or the provider's."""
    project = inputs.get("project") or config.get("project")
    if not project:
        raise CloudError("project: required field is not set, here or as gcp:project")
    return str(project)


def region_of(config: Config, inputs: Mapping[str, Any]) -> str:
    """The region of a resource: its own, the provider's, or that of the provider's zone."""
    region = inputs.get("region") or config.get("region")
    if not region and (zone := config.get("zone")):
        region = str(zone).rpartition("-")[0]
    if not region:
        raise CloudError("cannot determine the region: set it here, or gcp:region, or gcp:zone")
    return str(region).rpartition("/")[2]


def full_name(value: str, collection: str) -> str:
    """`projects/...` of a self link, of such a path, or of a bare name in `collection`."""
    _, found, path = value.partition("projects/")
    return f"projects/{path}" if found else f"{collection}/{value}"


def self_link(identity: str) -> str:
    """The URL of a Compute Engine resource."""
    return _API + identity
