"""A real node's changes to the machine: recorded before they are made, and undone later.

Another process can undo them, too: the rehearsal itself, `make down`, or the next rehearsal after
one that was killed, possibly much later. So nothing is trusted to be as it was: a recorded folder
is removed only if it is the one that was created, and empty.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpu_cluster.rehearsal.gpu_node.bridge import INTERFACES, Bridge
from gpu_cluster.rehearsal.gpu_node.cgroups import Cgroup, hierarchies
from gpu_cluster.rehearsal.gpu_node.machine import running_kubelet
from gpu_cluster.tools.linux import boot, mount_points

FILE = "node.json"
SYSCTLS = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "net/ipv4/ip_forward",
)  # fmt: skip
"""Kernel settings that a kubelet changes and never restores."""
PLACES = (
    "/var/lib/kubelet", "/var/lib/cni", "/var/log/containers", "/var/log/pods", "/run/containerd",
    "/run/netns", "/run/nri", "/run/nvidia", "/etc/cni", "/etc/cdi", "/run/cdi", "/opt/cni",
    "/opt/containerd", "/opt/nri",
)  # fmt: skip
"""Where kubelets and container runtimes leave files."""


@dataclass(slots=True, kw_only=True)
class HostChanges:
    """The changes, and the machine's state before them."""

    file: Path
    bridge: str
    subnet: str
    cgroup: str
    controllers: list[str] = field(default_factory=list)
    folders: dict[str, list[int]] = field(default_factory=dict)
    """Folders created on the machine for mounts -> the device and inode of each."""
    boot: str = ""
    """The machine's boot in which the changes were made; a reboot undoes all but `folders`."""
    namespace: str = ""
    """The node's process namespace."""
    before: dict[str, Any] = field(default_factory=dict)
    """The result of `seen` before the changes."""

    def write(self) -> None:
        document = {key: value for key, value in asdict(self).items() if key != "file"}
        self.file.write_text(json.dumps(document, indent=1) + "\n")

    def take_back(self) -> None:
        """Undoes the changes; the node's processes have ended by now. `left` lists what remains.

        If the machine has become a cluster's node since, its settings and folders are that node's.
        """
        if self.boot != boot():
            return
        joined = running_kubelet() is not None
        Bridge(self.bridge, self.subnet).remove()
        Cgroup(self.cgroup).remove([] if joined else self.controllers)
        own = run_folder(self.file.parent)
        if not any(point.is_relative_to(own) for point in mount_points()):
            shutil.rmtree(own, ignore_errors=True)
        if joined:
            return
        for name in SYSCTLS:
            value, path = self.before.get("settings", {}).get(name), Path("/proc/sys", name)
            if value is not None and path.read_text().strip() != value:
                path.write_text(value)
        for folder in sorted(self.folders, key=len, reverse=True):
            # Never with its content, which is somebody else's; a mount point is busy.
            with suppress(OSError):
                if _identity(Path(folder)) == self.folders[folder]:
                    os.rmdir(folder)

    def left(self) -> dict[str, list[str]]:
        """Kind of trace -> what is there now that was not before; empty after `take_back`."""
        if self.boot != boot():
            return {"files": [folder for folder in self.folders if os.path.lexists(folder)]}
        return {
            "processes": processes_in(self.namespace),
            **{
                sort: [trace for trace in now if trace not in set(self.before.get(sort, ()))]
                for sort, now in seen().items()
                if not isinstance(now, Mapping)
            },
            "settings": [
                f"{name} is {value}, was {was}"
                for name, value in seen()["settings"].items()
                if (was := self.before.get("settings", {}).get(name, value)) != value
            ],
        }


def read_changes(folder: Path) -> HostChanges | None:
    """The recorded changes of the node of the sandbox in this folder; None if there is none."""
    file = folder / FILE
    if not file.exists():
        return None
    return HostChanges(file=file, **json.loads(file.read_text()))


def seen() -> dict[str, Any]:
    """The machine's mounts, interfaces, control groups, settings, and files in the usual places."""
    return {
        "mounts": sorted(
            # The mount point, and what is mounted.
            " ".join((line.split(" ")[4], *line.rpartition(" - ")[2].split(" ")[:2]))
            for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ),
        "interfaces": sorted(entry.name for entry in INTERFACES.iterdir()),
        "cgroups": sorted(
            str(entry) for root, _ in hierarchies() for entry in root.iterdir() if entry.is_dir()
        ),
        "files": sorted(_files()),
        "settings": {
            name: Path("/proc/sys", name).read_text().strip()
            for name in SYSCTLS
            if Path("/proc/sys", name).exists()
        },
    }


def processes_in(namespace: str) -> list[str]:
    """The processes in a process namespace, by number and name."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if namespace and os.readlink(entry / "ns" / "pid") == namespace:
                found.append(f"{entry.name} {(entry / 'comm').read_text().strip()}")
        except OSError:  # it has ended
            continue
    return found


def run_folder(sandbox: Path) -> Path:
    """The folder for the sockets of this sandbox's node, whose paths must be short. It is derived
    from the sandbox and never read from a record, because it is deleted with its content."""
    return Path(f"/run/gpu-cluster-{hashlib.sha256(str(sandbox).encode()).hexdigest()[:8]}")


def make_folders(paths: Sequence[str]) -> dict[str, list[int]]:
    """Creates missing folders with their parents; returns those that it created, as in
    `HostChanges.folders`."""
    made = {}
    for path in map(Path, paths):
        for folder in (*reversed(path.parents), path):
            if not folder.exists():
                folder.mkdir()
                made[str(folder)] = _identity(folder)
    return made


def _identity(folder: Path) -> list[int]:
    state = folder.lstat()
    return [state.st_dev, state.st_ino]


def _files() -> list[str]:
    found = []
    for place in map(Path, PLACES):
        if place.is_dir():
            found += [str(place), *(str(entry) for entry in place.iterdir())]
    run = Path("/run")
    return found + [str(entry) for entry in run.glob("gpu-cluster-*")]
