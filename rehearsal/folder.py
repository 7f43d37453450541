"""A rehearsal's folder and its lock: nothing is deleted without the lock.

One rehearsal per folder. What an earlier one left is removed by the next; one that still runs is
ended only where somebody says so, and is told who that was.

The lock file says whose it is. Not `filelock`: asking it whether a folder is held makes the file,
which is the very thing that says that a folder may be emptied.
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

from rehearsal.gpu_node import host_changes
from rehearsal.processes import end_leftovers

LOCK, ENDED_BY = "lock", "ended-by"
REPORT = ("report.txt", "report.json", "timeline.svg")
SIZE = 512
"""Bytes of a lock file, written in one go: a rehearsal that is killed leaves a whole one."""
END_SECONDS = 15.0
"""How long a rehearsal gets to end on its own."""
PATIENCE_SECONDS = 3.0
"""How long the lock of one that was just killed may take to be free."""


class FolderError(Exception):
    """The folder is somebody else's, or a rehearsal runs in it; one line that says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who has, or had, a folder."""

    rehearsal: str
    """The stack."""
    pid: int
    since: str
    """Local time, ISO 8601; empty if version 0.1.0 wrote the lock."""
    kept: bool = False

    def __str__(self) -> str:
        kind = "kept rehearsal" if self.kept else "rehearsal"
        return f"a {kind} of {self.rehearsal} (pid {self.pid}{_when(self.since)})"


def take_over(
    folder: Path, stack: str, *, kept: bool = False, replace: str = ""
) -> Callable[[], None]:
    """Locks the folder and empties it; returns what unlocks it.

    A rehearsal that runs in it is ended in the name of `replace`, a command. Without that, and
    if the folder is not a rehearsal's, raises FolderError and touches nothing.
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
    holder = Holder(rehearsal=stack, pid=os.getpid(), since=now, kept=kept)
    os.pwrite(descriptor, json.dumps(asdict(holder)).ljust(SIZE).encode(), 0)
    end_leftovers(str(folder))
    if (node := host_changes.read(folder)) is not None:
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
    """Ends the rehearsal in this folder and removes what is in it; returns what was done, in words.
    The report of one that ran stays there; ending it again removes that too.

    `by`: the command that it is told of. Raises FolderError if the folder is not a rehearsal's.
    """
    _refuse_foreign(folder)
    if not folder.is_dir():
        return "was not running"
    running = held(folder)
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


def held(folder: Path) -> bool:
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
    """Who has, or had, this folder; None if its lock is not a rehearsal's."""
    try:
        text = (folder / LOCK).read_text()[:SIZE] if not (folder / LOCK).is_symlink() else ""
        if text.isdecimal() and ".rehearsal" in folder.parts:  # as version 0.1.0 wrote it
            return Holder(rehearsal=folder.name, pid=int(text), since="")
        return Holder(**json.loads(text))
    except (OSError, ValueError, TypeError):
        return None


def rehearsals(root: Path) -> list[tuple[Path, Holder, bool]]:
    """Each rehearsal's folder in `root`, by name: who has or had it, and whether it still runs."""
    found = []
    for folder in sorted(root.glob("*/")):
        one = None if folder.is_symlink() else holder(folder)
        if one is not None:
            found.append((folder, one, held(folder)))
    return found


def ended_by(folder: Path) -> str:
    """The command that has ended the rehearsal in this folder; empty if none says so."""
    try:
        return (folder / ENDED_BY).read_text()
    except OSError:
        return ""


def _refuse_foreign(folder: Path) -> None:
    """Raises FolderError unless the folder is a rehearsal's, empty, or not there."""
    if folder.is_symlink():
        raise FolderError(
            f"{folder} is a symbolic link, and a rehearsal needs its own folder; remove the link"
        )
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is not a folder; name another one")
    if not folder.is_dir() or holder(folder) is not None:
        return
    lock = folder / LOCK
    # Killed before it could say whose it is, a rehearsal has left an empty lock, and nothing else.
    begun = lock.is_file() and not lock.is_symlink() and not lock.stat().st_size
    if any(entry != lock or not begun for entry in folder.iterdir()):
        raise FolderError(
            f"{folder} is not the folder of a rehearsal, because it has no lock file of one: "
            "nothing in it was changed"
        )


def _lock(folder: Path, descriptor: int, replace: str) -> None:
    """Takes the lock; with `replace`, also from the rehearsal that holds it."""
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
        # The lock is held now, so the id in it is not one that was used again.
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
    except ProcessLookupError:  # it ended in between
        return


def _when(since: str) -> str:
    if not since:
        return ""
    time_of = datetime.fromisoformat(since)
    today = time_of.date() == datetime.now().date()
    return f", since {time_of:{'%H:%M' if today else '%Y-%m-%d %H:%M'}}"
