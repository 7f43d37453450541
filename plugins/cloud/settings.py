"""What makes the offline plugin that of one cloud, and what it records."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from plugins.cloud.handler import Config, Handler
from plugins.cloud.schema import Problem
from plugins.faults import Faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that the engine asked of the cloud."""

    urn: str
    kind: str
    """create, read, update or delete."""
    started: float
    """Seconds since the epoch."""
    seconds: float
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class ProviderSettings:
    """What makes the offline plugin that of one cloud."""

    package: str
    """`gcp` or `aws`: the SDK `pulumi_<package>` says what is accepted."""
    handlers: Mapping[str, Handler]
    """Resource type token -> what simulates it."""
    functions: Mapping[str, Callable[[Config, dict[str, Any]], dict[str, Any]]] = field(
        default_factory=dict
    )
    """Function token -> what answers an invoke."""
    faults: Faults = field(default_factory=Faults)
    latency: Callable[[str, str], float] = lambda token, operation: 0.0
    """(resource type token, operation) -> seconds that the operation takes longer."""
    changed: Callable[[], None] = lambda: None
    """Called after every create, update and delete that the cloud carried out."""
    check_config: Callable[[Mapping[str, Any]], list[Problem]] = lambda inputs: []
    """What is wrong with the provider's own configuration."""
