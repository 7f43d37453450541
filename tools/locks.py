"""One lock per program, which the kernel frees when its holder dies, however it dies.

Not `filelock`: it takes as many lines for "wait, and say so", and what builds the engine needs
nothing but Python, so that it can build while packages are still installed.
"""

import fcntl
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tools.programs import cache_folder


@contextmanager
def locked(name: str, what: str) -> Iterator[None]:
    """Hold the lock of `name`, and clear what builds of it left that died partway."""
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
