"""`make clean`: removes `.rehearsal`, unless a rehearsal runs there or has changed the machine."""

import fcntl
import os
import shutil
import sys
from pathlib import Path

from gpu_cluster.tools.linux import mount_points

ROOT = Path(__file__).parents[2]


def refusal(rehearsals: Path) -> str:
    """Why the folder has to stay, in one line; if empty, this process has all of its locks."""
    for lock in sorted(rehearsals.glob("*/lock")):
        folder, how = lock.parent, f"gpu-cluster down {lock.parent.name}"
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW)  # open until this process ends
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return f"a rehearsal is running in {folder}; end it: {how}"
        if (folder / "node.json").exists():
            return f"a real node in {folder} changed this machine; undo that: {how}"
    if mounted := sorted(point for point in mount_points() if rehearsals in point.parents):
        return f"{mounted[0]} is a mount point; unmount it"
    return ""


if __name__ == "__main__":
    if reason := refusal(ROOT / ".rehearsal"):
        sys.exit(f"make clean: nothing was removed: {reason}")
    shutil.rmtree(ROOT / ".rehearsal", ignore_errors=True)
