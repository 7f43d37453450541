"""How containers get the machine's GPUs: NVIDIA's container runtime, as on any GPU node.

The machine's driver is used as it is; nothing is installed or changed.
"""

import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpu_cluster import tools
from gpu_cluster.rehearsal.gpu_node import runtime_config
from gpu_cluster.rehearsal.gpu_node.machine import Machine, NodeError
from gpu_cluster.rehearsal.processes import base_env

_CACHE = Path("/etc/ld.so.cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The runtime of the node's containers."""

    runtime: Path
    """Works like runc, and adds the GPUs that a container asks for."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the runtime needs, set in containerd's environment."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The machine's file -> the file that the node's programs see in its place."""
    overlays: Mapping[str, str] = field(default_factory=dict)
    """The machine's folder -> the folder whose files the node's programs see in it as well."""
    take_variables: Callable[[bool], object] = lambda taken: None
    """Says whether the runtime takes the variables of unprivileged containers, from now on."""


def nvidia(machine: Machine, folder: Path, log: Path) -> Driver:
    """NVIDIA's runtime, with its files in a folder that is deleted with the node.

    It takes no variables of unprivileged containers, as on nodes of EKS. Raises NodeError if the
    loader's cache cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "nvidia-container-runtime.toml"

    def take_variables(taken: bool) -> None:
        text = runtime_config.nvidia_runtime(
            variables=taken,
            runc=tools.binary("runc"),
            hook=tools.binary("nvidia-cdi-hook"),
            log=log,
        )
        config.write_text(text)

    take_variables(False)
    return Driver(
        runtime=tools.binary("nvidia-container-runtime"),
        environment={"NVIDIA_CTK_CONFIG_FILE_PATH": str(config)},
        files=_loader_cache(machine, folder) | _devices(machine),
        overlays=in_usual_folders(machine),
        take_variables=take_variables,
    )


def in_usual_folders(machine: Machine) -> dict[str, str]:
    """A driver in a folder of its own, in the folders of an installed package as well."""
    found = {}
    for libraries in machine.libraries:
        usual = Path("/usr/lib") / f"{platform.machine()}-linux-gnu"
        found[str(usual if usual.is_dir() else Path("/usr/lib64"))] = str(libraries)
        found["/usr/bin"] = str(libraries.parent / "bin")
    return found


def _devices(machine: Machine) -> dict[str, str]:
    """The machine's devices in an empty folder `dev` of its driver, where the DRA driver looks for
    them if that folder exists."""
    own = machine.driver_root / "dev"
    return {str(own): "/dev"} if own.is_dir() and not any(own.iterdir()) else {}


def _loader_cache(machine: Machine, folder: Path) -> dict[str, str]:
    """A cache of the loader that names the driver's libraries, where NVIDIA's programs look."""
    if not machine.libraries or not _CACHE.exists():
        return {}
    conf, cache = folder / "ld.so.conf", folder / "ld.so.cache"
    conf.write_text("\n".join([*map(str, machine.libraries), "include /etc/ld.so.conf", ""]))
    program = shutil.which("ldconfig") or "/sbin/ldconfig"
    command = [program, "-X", "-f", str(conf), "-C", str(cache)]
    done = subprocess.run(command, env=base_env(), capture_output=True, text=True)
    if done.returncode:
        raise NodeError(f"the driver's libraries cannot be listed: {done.stderr.strip()}")
    return {str(_CACHE): str(cache)}
