"""How containers get the machine's GPUs: NVIDIA's container runtime, as on any GPU node.

The machine's driver is used as it is; nothing is installed or changed.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tools
from rehearsal.gpu_node import runtime_config
from rehearsal.gpu_node.machine import Machine, NodeError
from rehearsal.processes import kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The runtime of the node's containers."""

    runtime: Path
    """Works like runc, and adds the GPUs that a container's environment names."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the runtime needs, set in containerd's environment."""
    description: str = ""


def nvidia(machine: Machine, folder: Path, log: Path) -> Driver:
    """Describes the machine's GPUs to NVIDIA's runtime, in a folder that is deleted with the node.

    Raises NodeError if the driver cannot be described.
    """
    specification = folder / "cdi" / "nvidia.json"
    specification.parent.mkdir(parents=True, exist_ok=True)
    command = [
        str(tools.binary("nvidia-ctk")),
        "cdi",
        "generate",
        f"--output={specification}",
        f"--nvidia-cdi-hook-path={tools.binary('nvidia-cdi-hook')}",
        *(f"--library-search-path={path}" for path in machine.libraries),
    ]
    done = subprocess.run(command, env=_environment(machine), capture_output=True, text=True)
    with log.open("a") as file:
        file.write(done.stdout + done.stderr)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines() or ["it said nothing"]
        message = said[-1].rpartition("msg=")[2].strip('"')
        raise NodeError(f"the machine's driver cannot be mounted into containers: {message}")
    config = folder / "nvidia-container-runtime.toml"
    config.write_text(
        runtime_config.nvidia_runtime(
            specifications=specification.parent,
            runc=tools.binary("runc"),
            hook=tools.binary("nvidia-cdi-hook"),
            log=log,
        )
    )
    return Driver(
        runtime=tools.binary("nvidia-container-runtime"),
        environment={"NVIDIA_CTK_CONFIG_FILE_PATH": str(config)},
        description=_description(json.loads(specification.read_text())),
    )


def _environment(machine: Machine) -> dict[str, str]:
    """The first existing folder of those in which a machine may keep its driver."""
    path = [str(machine.nvidia_smi.parent), os.environ.get("PATH", os.defpath)]
    libraries = [*map(str, machine.libraries), os.environ.get("LD_LIBRARY_PATH", "")]
    return {
        **kept(),
        "PATH": os.pathsep.join(path),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
    }


def _description(specification: Mapping[str, object]) -> str:
    """How much of the driver a container gets."""
    edits = specification.get("containerEdits")
    mounts = edits.get("mounts") or [] if isinstance(edits, dict) else []
    devices = specification.get("devices")
    names = [d["name"] for d in devices] if isinstance(devices, list) else []
    return f"{len(mounts)} files of the driver; devices {', '.join(names)}"
