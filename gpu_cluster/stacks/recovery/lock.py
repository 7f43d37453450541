"""Who holds the lock of a state, and whether that run is over.

A lock names a host and a process, but neither boot nor machine. Machines from one image share their
host name, and containers can be given one, so the name alone proves nothing. A lock's run is known
to be over in two cases: its host name is the ID of the container in which this runs; or the
backend's folder is on a disk of this machine and no process on it has the lock's ID. Otherwise the
user has to decide.
"""

import os
import re
import socket
from pathlib import Path

_HOLDER = re.compile(r"created by (?P<user>[^@\s]+)@(?P<host>\S+) \(pid (?P<pid>\d+)\)")
_LOCAL_DISKS = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "tmpfs", "xfs", "zfs")
"""File systems of one machine; on others, such as NFS, another machine may write the lock."""
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h: outside of containers."""
_PROC = Path("/proc")


def holders(refusal: str) -> str:
    """The holders of the locks according to the engine's error; empty if it names none."""
    return ", ".join(match[0] for match in _HOLDER.finditer(refusal))


def running_here(locks: str) -> str:
    """The first holder, as `USER's process PID`, whose process runs on this machine; else empty."""
    for holder in _HOLDER.finditer(locks):
        if holder["host"] == socket.gethostname() and _alive(int(holder["pid"])):
            return f"{holder['user']}'s process {holder['pid']}"
    return ""


def are_dead(locks: str, backend: Path | None) -> bool:
    """Whether every lock's run is known to be over; `backend`: the folder of a file backend."""
    matches = list(_HOLDER.finditer(locks))
    host = socket.gethostname()
    if not matches or any(match["host"] != host or _alive(int(match["pid"])) for match in matches):
        return False
    if host == _own_container():
        return True
    if backend is None or not _on_local_disk(backend) or not _sees_every_process():
        return False
    return not any(_in_a_container(int(match["pid"])) for match in matches)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # It is another user's process.
        return True
    return True


def _own_container(mounts: Path = _PROC / "self/mountinfo") -> str | None:
    """The short ID of the container in which this runs, which its runtime uses as the host name;
    None outside of containers."""
    try:
        match = re.search(r"/containers/(?:\S+/)?([0-9a-f]{12})[0-9a-f]{52}/", mounts.read_text())
    except OSError:
        return None
    return match[1] if match else None


def _on_local_disk(folder: Path, mounts: Path = _PROC / "self/mountinfo") -> bool:
    """Whether a folder is on a file system that only this machine can write to."""
    found = (Path(), "")
    for line in mounts.read_text().splitlines():
        mount, _, source = line.partition(" - ")
        point = Path(mount.split()[4].replace("\\040", " "))
        # If several are mounted at one point, the last is visible.
        if folder.resolve().is_relative_to(point) and len(point.parts) >= len(found[0].parts):
            found = (point, source.split()[0])
    return found[1] in _LOCAL_DISKS


def _sees_every_process(proc: Path = _PROC) -> bool:
    """Whether this runs outside of containers, and may see other users' processes."""
    try:
        namespace = str((proc / "self/ns/pid").readlink())
        (proc / "1/status").read_text()
    except OSError:
        return False
    return namespace == _FIRST_PID_NAMESPACE


def _in_a_container(pid: int, proc: Path = _PROC) -> bool:
    """Whether a process in any container on this machine has this ID there: a container may share
    the machine's host name and the backend's folder."""
    for status in proc.glob("[0-9]*/status"):
        try:
            match = re.search(r"^NSpid:\s+(.+)$", status.read_text(), re.MULTILINE)
        except OSError:  # It has ended.
            continue
        if match and str(pid) in match[1].split()[1:]:
            return True
    return False
