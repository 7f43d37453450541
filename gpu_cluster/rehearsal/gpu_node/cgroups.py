"""The control group of all processes of a real node, in every hierarchy of the machine."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.rehearsal.gpu_node.machine import NodeError

MOUNTS = Path("/proc/self/mounts")
REMOVE_SECONDS = 10.0
"""How long the kernel may take to forget processes that have just been killed."""
INHERITED = ("cpuset.mems", "cpuset.cpus")
"""Empty in a new version 1 group, which cannot run anything until they are set."""
NEEDED = ("cpu", "cpuset", "io", "memory", "pids")
"""The version 2 controllers that a kubelet needs."""


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A group below the root of every hierarchy; `name` names it in each."""

    name: str

    @property
    def _rest(self) -> str:
        """Contains the machine's other processes while version 2 has the node's group as well."""
        return f"{self.name}-rest"

    def folders(self) -> list[Path]:
        """The group's existing folders."""
        return [
            root / name
            for root, _ in hierarchies()
            for name in (self.name, self._rest)
            if (root / name).is_dir()
        ]

    def make(self) -> list[str]:
        """Creates the group; returns the version 2 controllers that it enabled below the root.

        Raises NodeError if the machine does not allow it.
        """
        enabled = []
        for root, version in hierarchies():
            folder = root / self.name
            try:
                if version == 2:
                    enabled += self._delegate(root)
                folder.mkdir(exist_ok=True)
                for file in INHERITED if version == 1 else ():
                    if (folder / file).exists() and not (folder / file).read_text().strip():
                        (folder / file).write_text((root / file).read_text())
            except OSError as error:
                raise NodeError(
                    f"the control group {folder} cannot be created ({error.strerror}): a real "
                    "node needs a machine whose control groups may be changed"
                ) from None
        return enabled

    def remove(self, enabled: list[str]) -> list[str]:
        """Removes the group and its children, and disables `enabled`; returns what remains."""
        left = []
        for root, version in hierarchies():
            group, rest = root / self.name, root / self._rest
            if group.is_dir() and not _remove(group):
                left.append(str(group))
            if version == 2 and enabled:
                try:
                    _write(root, "-", enabled)
                except OSError as error:
                    left.append(f"{root}/cgroup.subtree_control ({error.strerror})")
            if rest.is_dir():
                _move(rest, root)
                if not _remove(rest):
                    left.append(str(rest))
        return left

    def _delegate(self, root: Path) -> list[str]:
        """Version 2: allows groups below the root to have controllers.

        Unless the root is the machine's own, they may not while a process is in the root.
        """
        controllers = (root / "cgroup.controllers").read_text().split()
        given = (root / "cgroup.subtree_control").read_text().split()
        missing = [name for name in NEEDED if name in controllers and name not in given]
        if missing:
            try:
                _write(root, "+", missing)
            except OSError:
                (root / self._rest).mkdir(exist_ok=True)
                _move(root, root / self._rest)
                _write(root, "+", missing)
        return missing


def hierarchies() -> list[tuple[Path, int]]:
    """Each hierarchy's mount point and version: 2 for the unified one, 1 for the others.

    Version 2 may be mounted next to version 1, without controllers.
    """
    found: dict[Path, int] = {}
    for line in MOUNTS.read_text().splitlines():
        _, place, kind, *_ = line.split(" ")
        if kind in ("cgroup", "cgroup2"):
            found[Path(place)] = 2 if kind == "cgroup2" else 1
    return sorted(found.items())


def _write(root: Path, sign: str, controllers: list[str]) -> None:
    words = " ".join(f"{sign}{name}" for name in controllers)
    (root / "cgroup.subtree_control").write_text(words)


def _remove(folder: Path) -> bool:
    deadline = time.monotonic() + REMOVE_SECONDS
    while folder.is_dir():
        try:
            for path in _deepest_first(folder):
                path.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
    return True


def _deepest_first(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            yield from _deepest_first(entry)
    yield folder


def _move(source: Path, target: Path) -> None:
    """Moves all processes; one that has ended meanwhile, or is the kernel's own, is skipped."""
    for pid in (source / "cgroup.procs").read_text().split():
        try:
            (target / "cgroup.procs").write_text(pid)
        except OSError:
            continue
