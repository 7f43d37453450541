"""One lock per program, which the kernel releases when its holder ends, for whatever reason.

Not `filelock`: it needs as many lines to wait with a message, and building the engine needs only
Python's standard library, so that it can start while packages are still being installed.
"""

import fcntl
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gpu_cluster.tools.programs import cache_folder


@contextmanager
def locked(name: str, what: str) -> Iterator[None]:
    """Holds the lock of `name`, and deletes incomplete builds of it."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{what}: another build of it runs, waiting for that", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in folder.glob(f".{name}-*"):
            shutil.rmtree(stale, ignore_errors=True)
        yield
