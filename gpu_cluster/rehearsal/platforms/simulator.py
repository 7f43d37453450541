"""Which simulators a stack's platform needs, and how the engine reaches them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.processes import Processes
from gpu_cluster.rehearsal.simulators import inventory
from gpu_cluster.rehearsal.simulators.cloud import Cloud


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSimulator:
    """A simulated cloud and how to reach it."""

    cloud: Cloud
    ports: dict[str, int] = field(default_factory=dict)
    """Pulumi package -> port of its provider."""
    api: str | None = None
    """URL of the cloud's own API for checks; None if there is none."""
    points: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that point any of the cloud's clients at the simulator."""
    stop: Callable[[], None] = lambda: None
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that the engine's environment needs in addition to the usual ones."""
    notes: tuple[str, ...] = ()
    """Values derived because the inventory does not state them, for the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """Inputs for a platform's simulator."""

    stack: str
    control_plane: LocalControlPlane
    faults: Faults
    folder: Path
    settings: Settings[Any] | None
    """The stack's settings; None if the program will refuse them."""
    inventories: Path = inventory.INVENTORIES
    here: Mapping[str, Any] | None = None
    """The properties of the machine with a real node, on an existing cluster."""
    standalone: bool = False
    """Whether the cloud serves any client, without a rehearsal: `gpu-cluster simulate`."""


class Simulator(Protocol):
    """The interface of the module that `Platform.rehearsal` names."""

    def serve(self, of: Rehearsed) -> RunningSimulator:
        """Starts the platform's simulators. Raises StackError if the inventory is invalid."""


def serve(platform: str, of: Rehearsed) -> RunningSimulator:
    """Starts the platform's simulators, importing only the SDKs that they need."""
    return cast(Simulator, import_module(PLATFORMS[platform].rehearsal)).serve(of)


@contextmanager
def simulated(cloud: str, folder: Path) -> Iterator[Mapping[str, str]]:
    """Runs an empty cloud, for any program, until the context ends; yields the environment that
    points clients at it. A cluster in it has a real control plane on this machine, but no nodes
    join. `folder` is for logs and keys."""
    with ExitStack() as ending:
        processes = Processes(folder / "logs", str(folder))
        ending.callback(processes.stop)
        control_plane = LocalControlPlane(folder, processes)
        ending.callback(control_plane.stop)
        served = serve(
            next(name for name, platform in PLATFORMS.items() if platform.cloud == cloud),
            Rehearsed(
                stack="simulated",
                control_plane=control_plane,
                faults=Faults(),
                folder=folder,
                settings=None,
                standalone=True,
            ),
        )
        ending.callback(served.stop)
        ports = ",".join(f"{package}:{port}" for package, port in served.ports.items())
        yield {**served.points, "PULUMI_DEBUG_PROVIDERS": ports}
