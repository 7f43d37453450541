"""Which simulators a stack's platform needs, and how they are served to the engine."""

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
from stacks.files import document_in
from stacks.outcome import CheckError
from stacks.settings import NOWHERE, config_in, settings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSimulator:
    """A cloud and what serves it."""

    cloud: Cloud
    ports: dict[str, int] = field(default_factory=dict)
    """Pulumi package -> port of its provider."""
    api: str | None = None
    """URL at which the cloud's own API answers checks; None where there is none."""
    points: Mapping[str, str] = field(default_factory=dict)
    """The environment that points any client of the cloud at it."""
    stop: Callable[[], None] = lambda: None
    environment: dict[str, str] = field(default_factory=dict)
    """What the engine's environment must have beyond the usual."""
    notes: tuple[str, ...] = ()
    """What was derived because nobody wrote it down, for the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """What a platform's simulator is started for, and with."""

    stack: str
    control_plane: LocalControlPlane
    faults: Faults
    folder: Path
    settings: Settings[Any] | None
    """What the stack asks for; None where the program will refuse that."""
    inventories: Path = inventory.INVENTORIES
    here: Mapping[str, Any] | None = None
    """What the machine with a real node has, on an existing cluster."""


class Simulator(Protocol):
    """The module that `Platform.rehearsal` names."""

    def serve(self, of: Rehearsed) -> RunningSimulator:
        """Starts the platform's simulators. Raises StackError for a wrong inventory."""


def platform_of(stack_file: Path) -> str:
    """The platform that a stack file names."""
    config = document_in(stack_file.read_bytes(), stack_file.name).get("config") or {}
    cluster = config.get("gpu-cluster:cluster")
    platform = cluster.get("platform") if isinstance(cluster, dict) else None
    # The program itself refuses what is wrong with the file, on whatever sandbox.
    return str(platform) if platform in PLATFORMS else "gke"


def settings_in(stack_file: Path, stack: str) -> Settings[Any] | None:
    """The settings in the copy of a stack's file; None where the program will refuse them."""
    try:
        config = config_in(stack_file.read_bytes(), stack_file.name)
        return settings_of(stack, config, kubeconfig=NOWHERE)
    except CheckError:
        return None


def serve(platform: str, of: Rehearsed) -> RunningSimulator:
    """Starts the platform's simulators. They import SDKs, so only the needed ones are loaded."""
    return cast(Simulator, import_module(PLATFORMS[platform].rehearsal)).serve(of)
