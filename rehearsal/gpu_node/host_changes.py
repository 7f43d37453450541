"""A real node's changes to the machine: recorded before they are made, and undone later.

Another process can undo them, too: the rehearsal itself, `make down`, or the next rehearsal after
one that was killed.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rehearsal.gpu_node.bridge import INTERFACES, Bridge
from rehearsal.gpu_node.cgroups import Cgroup, hierarchies

FILE = "node.json"
SYSCTLS = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "net/ipv4/ip_forward",
)  # fmt: skip
"""Kernel settings that a kubelet changes and never restores."""
PLACES = (
    "/var/lib/kubelet", "/var/lib/cni", "/var/log/containers", "/var/log/pods", "/run/containerd",
    "/run/netns", "/run/nri", "/etc/cni", "/etc/cdi", "/run/cdi", "/opt/cni", "/opt/containerd",
    "/opt/nri",
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
    folders: list[str] = field(default_factory=list)
    """Folders created on the machine, outside of the rehearsal's own folder."""
    namespace: str = ""
    """The node's process namespace."""
    before: dict[str, Any] = field(default_factory=dict)
    """The result of `seen` before the changes."""

    def write(self) -> None:
        document = {key: value for key, value in asdict(self).items() if key != "file"}
        self.file.write_text(json.dumps(document, indent=1) + "\n")

    def take_back(self) -> None:
        """Undoes the changes; the node's processes have ended by now. `left` lists what remains."""
        Bridge(self.bridge, self.subnet).remove()
        Cgroup(self.cgroup).remove(self.controllers)
        for name, value in self.before.get("settings", {}).items():
            path = Path("/proc/sys", name)
            if path.read_text().strip() != value:
                path.write_text(value)
        for folder in sorted(self.folders, key=len, reverse=True):
            _remove_empty(Path(folder))

    def left(self) -> dict[str, list[str]]:
        """Kind of trace -> what is there now that was not before; empty after `take_back`."""
        return {
            "processes": processes_in(self.namespace),
            **{
                sort: [each for each in now if each not in set(self.before.get(sort, ()))]
                for sort, now in seen().items()
                if not isinstance(now, Mapping)
            },
            "settings": [
                f"{name} is {value}, was {was}"
                for name, value in seen()["settings"].items()
                if (was := self.before.get("settings", {}).get(name, value)) != value
            ],
        }


def read(folder: Path) -> HostChanges | None:
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


def make_folders(paths: Sequence[str]) -> list[str]:
    """Creates missing folders with their parents; returns those that it created."""
    made = []
    for path in map(Path, paths):
        for folder in (*reversed(path.parents), path):
            if not folder.exists():
                folder.mkdir()
                made.append(str(folder))
    return made


def _files() -> list[str]:
    found = []
    for place in map(Path, PLACES):
        if place.is_dir():
            found += [str(place), *(str(entry) for entry in place.iterdir())]
    run = Path("/run")
    return found + [str(entry) for entry in run.glob("gpu-cluster-*")]


def _remove_empty(folder: Path) -> None:
    """Removes a folder that was created here, with the mount points and sockets in it."""
    shutil.rmtree(folder, ignore_errors=True)
