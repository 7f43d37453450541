"""A simulated cloud without a rehearsal, for any program that calls it.

A cluster created in it has a real control plane on this machine, but no nodes join.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.rehearsal import cloud_simulators
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.processes import Processes


@contextmanager
def simulated(cloud: str, folder: Path) -> Iterator[Mapping[str, str]]:
    """Runs an empty cloud until the context ends; yields the environment that points clients at it.
    `folder` is for logs and keys."""
    with ExitStack() as ending:
        processes = Processes(folder / "logs", str(folder))
        ending.callback(processes.stop)
        control_plane = LocalControlPlane(folder, processes)
        ending.callback(control_plane.stop)
        served = cloud_simulators.serve(
            next(name for name, platform in PLATFORMS.items() if platform.cloud == cloud),
            cloud_simulators.Rehearsed(
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
