"""Which simulators a stack's platform needs, and how the engine reaches them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from components.platforms import PLATFORMS
from components.settings.model import Settings
from rehearsal.control_plane.local_control_plane import LocalControlPlane
from rehearsal.plugins.faults import Faults
from rehearsal.simulators import inventory
from rehearsal.simulators.cloud import Cloud


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSimulator:
    """A cloud and what serves it."""

    cloud: Cloud
    ports: dict[str, int] = field(default_factory=dict)
    """Pulumi package -> port of its provider."""
    api: str | None = None
    """URL at which the cloud's own API answers checks; None if there is none."""
    points: Mapping[str, str] = field(default_factory=dict)
    """The environment that points any client of the cloud at it."""
    stop: Callable[[], None] = lambda: None
    environment: dict[str, str] = field(default_factory=dict)
    """What the engine's environment must have beyond the usual."""
    notes: tuple[str, ...] = ()
    """What was derived because the inventory does not say it, for the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """What a platform's simulator is started for, and with."""

    stack: str
    control_plane: LocalControlPlane
    faults: Faults
    folder: Path
    settings: Settings[Any] | None
    """What the stack asks for; None if the program will refuse that."""
    inventories: Path = inventory.INVENTORIES
    here: Mapping[str, Any] | None = None
    """What the machine with a real node has, on an existing cluster."""


class Simulator(Protocol):
    """The module that `Platform.rehearsal` names."""

    def serve(self, of: Rehearsed) -> RunningSimulator:
        """Starts the platform's simulators. Raises StackError for a wrong inventory."""


def serve(platform: str, of: Rehearsed) -> RunningSimulator:
    """Starts the platform's simulators. They import SDKs, so only the needed ones are loaded."""
    return cast(Simulator, import_module(PLATFORMS[platform].rehearsal)).serve(of)
