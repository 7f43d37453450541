"""Runs a plan's programs in their own namespaces, so that they all end with this process.

`namespaces.py PLAN`, a JSON file. Its own mount namespace hides the programs' mounts from the
machine; in its own process namespace, the kernel kills everything they started, containers
included, as soon as the first process ends. Needs only the standard library.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
MS_REC, MS_BIND, MS_PRIVATE, MS_SHARED = 0x4000, 0x1000, 1 << 18, 1 << 20
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """The process that the rehearsal started, outside of the new process namespace."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWPID), "unshare")
    first = os.fork()
    if first == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        run(plan)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(first, signal.SIGKILL))
    _, status = os.waitpid(first, 0)
    sys.exit(os.waitstatus_to_exitcode(status) % 256)


def run(plan: dict[str, Any]) -> None:
    """The first process in the new namespace: it adopts every orphan in it."""
    # Mounts here are invisible outside; a pod's mounts are visible to the others here.
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    mount("none", "/", flags=MS_REC | MS_SHARED)
    mount("proc", "/proc", kind="proc")
    for source, target in plan["binds"]:
        mount(source, target, flags=MS_BIND)
    for source, target in plan["overlays"]:
        mount("overlay", target, kind="overlay", data=f"lowerdir={source}:{target}")
    children: dict[int, str] = {}
    for program in plan["programs"]:
        # A kubelet that finds no container runtime exits.
        while program["after"] and not Path(program["after"]).exists():
            end_with(children)
            time.sleep(0.05)
        with Path(program["log"]).open("ab") as log:
            child = subprocess.Popen(
                program["command"],
                env={**os.environ, **program["environment"]},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        children[child.pid] = program["name"]
    while True:
        end_with(children)
        time.sleep(0.05)


def end_with(children: dict[int, str]) -> None:
    """Reaps ended processes; exits, which ends all others, if a program has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:  # no child exists yet
            return
        if pid == 0:
            return
        if pid in children:
            code = os.waitstatus_to_exitcode(status)
            sys.exit(f"{children[pid]} ended with {code}: see its log")


def mount(
    source: str, target: str, *, kind: str | None = None, flags: int = 0, data: str | None = None
) -> None:
    """Calls mount(2)."""
    kinds, options = (value.encode() if value else None for value in (kind, data))
    done = libc.mount(source.encode(), target.encode(), kinds, flags, options)
    check(done, f"mount {source} on {target}")


def check(result: int, what: str) -> None:
    """Ends this process if a system call failed."""
    if result != 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
