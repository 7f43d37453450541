"""This machine as a node of a stack: in the inventory, the cluster and the program's overrides."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_cluster import tools
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.existing.cluster import with_real_node
from gpu_cluster.rehearsal.gpu_node import host_driver, overrides, pytorch, runtime_config
from gpu_cluster.rehearsal.gpu_node.host_driver import Driver
from gpu_cluster.rehearsal.gpu_node.machine import NAME, Machine, NodeError
from gpu_cluster.rehearsal.gpu_node.node import RealNode
from gpu_cluster.rehearsal.gpu_node.overrides import POOLS, Overrides
from gpu_cluster.rehearsal.gpu_node.pytorch import PyTorch
from gpu_cluster.rehearsal.processes import Processes
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup
from gpu_cluster.rehearsal.simulators.inventory import checked_machines, described_machines
from gpu_cluster.stacks.definition.settings import config_of, is_existing, platform_of
from gpu_cluster.stacks.outcome import CheckError

PROGRAMS = (
    "kubelet", "containerd", "runc", "cni-plugins", "device-plugin", "container-toolkit", "jobset",
    "dra-driver",
)  # fmt: skip
"""Additional programs to build: the node's, and the training job's controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNode:
    """This machine as one of a stack's machines."""

    machine: Machine
    pool: str
    """The pool that the machine belongs to."""
    drive: Callable[[Path, Path], Driver]
    """(Folder, log file) -> the runtime of the containers."""
    programs: Mapping[str, Path]
    """The programs in the node's images, in addition to a shell."""
    pytorch: PyTorch | None = None
    """The PyTorch for the acceptance test; None skips the test."""

    @property
    def inventory(self) -> Mapping[str, Any]:
        """The machine's properties, as in an inventory."""
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return {
            "name": NAME,
            "gpus": len(self.machine.gpus),
            "capacity": {"cpu": str(os.cpu_count()), "memory": str(memory)},
        }

    def overrides(self) -> Overrides:
        """The changes to the program's copy; a new object for each copy."""
        return Overrides(pool=self.pool, gpus=len(self.machine.gpus))

    def node(
        self, folder: Path, processes: Processes, control_plane: LocalControlPlane, group: NodeGroup
    ) -> RealNode:
        """The node of the sandbox in `folder`, not started yet."""
        return RealNode(
            folder,
            processes,
            control_plane,
            group,
            drive=lambda: self.drive(folder / "node", processes.logs / "driver.log"),
            images=overrides.images(runtime_config.PAUSE, hook=tools.binary("nvidia-cdi-hook")),
            programs=self.programs,
        )


def here(stack: str, machine: Machine) -> HostNode:
    """This machine in place of the one that the stack's inventory marks as real.

    Raises NodeError if the inventory marks none.
    """
    programs = {
        "/usr/bin/nvidia-device-plugin": tools.binary("nvidia-device-plugin"),
        "/usr/bin/mps-control-daemon": tools.binary("mps-control-daemon"),
        **dra_programs(),
        **{
            f"{overrides.SHIMS}/{name}": Path(__file__).with_name("driver-program.sh")
            for name in ("nvidia-smi", "nvidia-cuda-mps-control")
        },
    }
    found = pytorch.find_pytorch()
    if found is not None:
        programs[str(found.binary)] = found.binary
    return HostNode(
        machine=machine,
        pool=pool_of(stack),
        drive=lambda folder, log: host_driver.nvidia(machine, folder, log),
        programs=programs,
        pytorch=found,
    )


def dra_programs() -> dict[str, Path]:
    """The programs of the DRA driver's image, which copies its hook to the kubelet's folder."""
    names = ("gpu-kubelet-plugin", "nvidia-cdi-hook")
    return {
        **{f"/usr/bin/{name}": tools.binary(name) for name in names},
        "/usr/bin/kubelet-plugin-prestart.sh": Path(__file__).with_name("prestart.sh"),
        "/usr/bin/bash": Path(shutil.which("bash") or "/bin/sh"),
    }


def pool_of(stack: str) -> str:
    """The stack's pool that selects the machine marked as real."""
    try:
        config = config_of(stack)
        if not is_existing(config):
            raise NodeError(
                f"--node gpu needs an existing cluster, and {stack} is on {platform_of(config)}: "
                "use onprem"
            )
        found = described_machines(stack)
        real, *_ = with_real_node(stack, checked_machines(stack, found) if found else [], {})
    except CheckError as error:
        raise NodeError(f"--node gpu: {error}") from None
    labels = real.get("labels") or {}
    for name, pool in config[POOLS].items():
        if all(labels.get(key) == value for key, value in pool["nodeSelector"].items()):
            return str(name)
    raise NodeError(f"--node gpu: no pool of {stack} selects the machine {real['name']}")
