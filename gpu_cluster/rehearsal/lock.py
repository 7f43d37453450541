"""A rehearsal's folder and its lock: nothing is deleted without the lock.

There is one rehearsal per folder. The next rehearsal removes what an earlier one left; a running
one is ended only on explicit request, and is told by which command.

The lock file identifies its owner. `filelock` is not used: checking with it whether a folder is
locked creates the file, which is the very thing that marks a folder as safe to empty.
"""

import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from gpu_cluster.rehearsal.gpu_node import host_changes
from gpu_cluster.rehearsal.processes import end_leftovers
from gpu_cluster.tools.linux import mount_points, process_namespace

LOCK, ENDED_BY = "lock", "ended-by"
REPORT = ("report.txt", "report.json", "timeline.svg")
SIZE = 512
"""Size of a lock file in bytes, written at once: a killed rehearsal leaves a complete one."""
END_SECONDS = 15.0
"""How long a rehearsal may take to end on its own."""
PATIENCE_SECONDS = 3.0
"""How long the lock of a killed rehearsal may take to be released."""


class FolderError(Exception):
    """The folder is not a rehearsal's, or a rehearsal runs in it; one line that says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The rehearsal that has, or had, a folder."""

    rehearsal: str
    """The stack's name."""
    pid: int
    since: str
    """Local time, ISO 8601."""
    kept: bool = False
    namespace: str = ""
    """Where `pid` is valid (`process_namespace`). Containers may share the folder and its locks,
    but not their process IDs."""

    def __str__(self) -> str:
        kind = "kept rehearsal" if self.kept else "rehearsal"
        return f"a {kind} of {self.rehearsal} (pid {self.pid}{_when(self.since)})"


def take_over(
    folder: Path, stack: str, *, kept: bool = False, replace: str = ""
) -> Callable[[], None]:
    """Locks the folder and empties it; returns a function that unlocks it.

    A rehearsal that runs in it is ended on behalf of `replace`, a command. Without `replace`, or if
    the folder is not a rehearsal's or something is mounted in it, raises FolderError and changes
    nothing.
    """
    _refuse_foreign(folder)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        _lock(folder, descriptor, replace)
    except BaseException:
        os.close(descriptor)
        raise
    now = datetime.now().isoformat(timespec="seconds")
    holder = Holder(
        rehearsal=stack, pid=os.getpid(), since=now, kept=kept, namespace=process_namespace()
    )
    os.pwrite(descriptor, json.dumps(asdict(holder)).ljust(SIZE).encode(), 0)
    end_leftovers(str(folder))
    if (node := host_changes.read_changes(folder)) is not None:
        node.take_back()
    for entry in folder.iterdir():
        if entry.name == LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return lambda: os.close(descriptor)


def end(folder: Path, by: str) -> str:
    """Ends the rehearsal in this folder, removes its files, and returns a sentence about what was
    done. The report remains; a second call removes it, too.

    `by`: the command to show to it. Raises FolderError if the folder is not a rehearsal's.
    """
    _refuse_foreign(folder)
    if not folder.is_dir():
        return "was not running"
    running = is_running(folder)
    report = {name: (folder / name).read_bytes() for name in REPORT if (folder / name).exists()}
    unlock = take_over(folder, folder.name, replace=by)
    if running and report:
        for name, content in report.items():
            (folder / name).write_bytes(content)
        unlock()
        return f"ended; its report is kept: {folder / next(iter(report))}"
    unlock()
    shutil.rmtree(folder)
    if running:
        return "ended"
    return f"was not running; removed {'its report' if report else 'what it left'}"


def is_running(folder: Path) -> bool:
    """Whether a rehearsal runs in this folder."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def holder(folder: Path) -> Holder | None:
    """The rehearsal that has, or had, this folder; None if its lock is not a rehearsal's."""
    try:
        text = (folder / LOCK).read_text()[:SIZE] if not (folder / LOCK).is_symlink() else ""
        return Holder(**json.loads(text))
    except (OSError, ValueError, TypeError):
        return None


def rehearsals(root: Path) -> list[tuple[Path, Holder, bool]]:
    """The rehearsals' folders in `root`, by name: the holder of each, and whether it is running."""
    found = []
    for folder in sorted(root.glob("*/")):
        owner = None if folder.is_symlink() else holder(folder)
        if owner is not None:
            found.append((folder, owner, is_running(folder)))
    return found


def ended_by(folder: Path) -> str:
    """The command that ended the rehearsal in this folder; empty if none is recorded."""
    try:
        return (folder / ENDED_BY).read_text()
    except OSError:
        return ""


def _refuse_foreign(folder: Path) -> None:
    """Raises FolderError unless the folder is a rehearsal's, empty, or missing."""
    if folder.is_symlink():
        raise FolderError(
            f"{folder} is a symbolic link, and a rehearsal needs its own folder; remove the link"
        )
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is not a folder; name another one")
    if mounted := sorted(point for point in mount_points() if folder.resolve() in point.parents):
        raise FolderError(
            f"{mounted[0]} is a mount point, and a rehearsal empties its folder: nothing in "
            f"{folder} was changed; unmount it first"
        )
    if not folder.is_dir() or holder(folder) is not None:
        return
    lock = folder / LOCK
    # A rehearsal that was killed before it wrote its identity has left only an empty lock.
    begun = lock.is_file() and not lock.is_symlink() and not lock.stat().st_size
    if any(entry != lock or not begun for entry in folder.iterdir()):
        raise FolderError(
            f"{folder} is not the folder of a rehearsal, because it has no lock file of one: "
            "nothing in it was changed"
        )


def _lock(folder: Path, descriptor: int, replace: str) -> None:
    """Acquires the lock; with `replace`, also from the rehearsal that holds it."""
    started = time.monotonic()
    asked = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            other = holder(folder)
        waited = time.monotonic() - started
        if not replace and waited > PATIENCE_SECONDS:
            how = f"gpu-cluster down {other.rehearsal}" if other and other.kept else "wait for it"
            raise FolderError(f"{other or 'a rehearsal'} is running: {how}, or --replace")
        # The lock is held, so its process ID has not been reused in its own namespace.
        if replace and other and other.namespace != process_namespace():
            raise FolderError(
                f"{other} was started in another container, or on another machine, that shares "
                f"{folder}: end it there"
            )
        if waited > END_SECONDS + PATIENCE_SECONDS:
            raise FolderError(f"{other or 'a rehearsal'} does not end; {folder} is locked")
        if replace and other and not asked:
            (folder / ENDED_BY).write_text(f"{replace} (pid {os.getpid()})")
            _signal(other.pid, signal.SIGTERM)
            asked = True
        elif replace and other and waited > END_SECONDS:
            _signal(other.pid, signal.SIGKILL)
        time.sleep(0.05)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it ended in the meantime
        return


def _when(since: str) -> str:
    time_of = datetime.fromisoformat(since)
    today = time_of.date() == datetime.now().date()
    return f", since {time_of:{'%H:%M' if today else '%Y-%m-%d %H:%M'}}"
