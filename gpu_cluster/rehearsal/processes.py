"""The rehearsal's child processes: each has a log file, and none outlives the sandbox."""

import errno
import os
import random
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from gpu_cluster.tools import linux

POLICY_SETTINGS = "GPU_CLUSTER_POLICY_SETTINGS"
"""The file from which the policy pack reads its settings, if not policy/config.json."""
INHERITED = (
    "PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR", "TZ", "USER", "GOGC", "GOMAXPROCS",
    POLICY_SETTINGS,
)  # fmt: skip
"""The only variables of the caller that anything in a rehearsal gets: no credentials, proxy, home,
or address of a cluster, a cloud or a metadata server."""
PORTS = range(20_000, 32_000)
"""Below Linux's ephemeral range, so that no outgoing connection uses a port that was picked."""

_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")
"""Linux kills a supervised child when the *thread* that started it ends: this thread never ends."""


class ProcessError(Exception):
    """A child did not start or ended too early; the message contains the end of its log."""


def base_env() -> dict[str, str]:
    """The environment of what a rehearsal starts, before its own variables."""
    return {
        **{name: os.environ[name] for name in INHERITED if name in os.environ},
        "KUBECONFIG": os.devnull,
    }


def free_port(address: str = "127.0.0.1") -> int:
    """A port on this address on which no process listens now."""
    for port in random.sample(PORTS, 200):
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
    raise ProcessError(f"no free port on {address} from {PORTS.start} to {PORTS.stop - 1}")


def too_slow(seconds: float) -> str:
    """A note for a program that was not ready in time: whether other work slows it down."""
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    busy = (
        f"; the load is {load:.0f} on {cores} cores; try again when it is lower"
        if load > 2 * cores
        else ""
    )
    return f"not within {seconds:.0f} s{busy}"


class Processes:
    """Named children, started and stopped together or individually. Thread-safe."""

    def __init__(self, logs: Path, mark: str) -> None:
        self.logs = logs
        self.mark = mark
        """The environment entry by which a later run recognises processes of a killed run."""
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        logs.mkdir(parents=True, exist_ok=True)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        *,
        cwd: Path | None = None,
        no_listen: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Starts a server in its own session, so that a terminal's Ctrl-C does not reach it.

        `no_listen`: nothing can connect to it, whatever it listens on.
        """
        with (self.logs / f"{name}.log").open("ab") as log:
            child = spawn_supervised(
                command,
                no_listen=no_listen,
                cwd=cwd,
                env={**base_env(), **(env or {}), "REHEARSAL": self.mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        with self._lock:
            self._children[name] = child
        return child

    def stop(self, *names: str, grace: float = 2.0) -> None:
        """Stops the named children, or all: SIGTERM first, SIGKILL after `grace` seconds."""
        with self._lock:
            wanted = names or tuple(self._children)
            children = [self._children.pop(name) for name in wanted if name in self._children]
        for child in children:
            child.terminate()
        for child in children:
            try:
                child.wait(grace)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def check(self, *names: str) -> None:
        """Raises ProcessError if one of the named children has ended."""
        with self._lock:
            ended = [
                (name, self._children[name].poll()) for name in names if name in self._children
            ]
        for name, code in ended:
            if code is not None:
                raise ProcessError(f"{name} ended with {code}: {self.last_words(name)}")

    def pid(self, name: str) -> int:
        """The process id of a named child."""
        with self._lock:
            return self._children[name].pid

    def last_words(self, name: str) -> str:
        """The end of a child's log, on one line; first, if it says so, that the disk is full."""
        log = (self.logs / f"{name}.log").read_text(errors="replace").splitlines()
        if full := [line for line in log if os.strerror(errno.ENOSPC).lower() in line.lower()]:
            return f"the disk with {self.logs} is full: {full[0].strip()}"
        return " | ".join(log[-3:]) or "its log is empty"


def spawn_supervised(
    command: Sequence[str | Path], *, no_listen: bool = False, **options: Any
) -> subprocess.Popen[bytes]:
    """`subprocess.Popen` of a command that is killed when this process is."""
    line = linux.supervised(command, no_listen=no_listen)

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(line, **options)

    return _spawner.submit(start).result()


def kill_tree(pid: int) -> None:
    """Sends SIGKILL to a process and all its descendants, itself first."""
    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        for child in (top, *top.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                child.kill()


def marked(mark: str) -> Iterator[psutil.Process]:
    """The processes, other than this one, that have this mark in their environment."""
    for process in visible():
        # Processes that ended meanwhile, or belong to another user, are skipped.
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get("REHEARSAL") == mark:
                yield process


def visible() -> Iterator[psutil.Process]:
    """The processes of this process namespace. A container's are not: its path of a folder may be
    that of another folder here."""
    here = os.readlink("/proc/self/ns/pid")
    for process in psutil.process_iter():
        with suppress(OSError):  # it has ended, or belongs to another user
            if os.readlink(f"/proc/{process.pid}/ns/pid") == here:
                yield process


def end_leftovers(mark: str) -> list[int]:
    """Kills the processes that have this mark in their environment; returns their IDs.

    The kernel kills a killed sandbox's own children; this also finds their children, such as an
    engine's language host.
    """
    ended = []
    for process in marked(mark):
        with suppress(psutil.NoSuchProcess):
            process.kill()
            ended.append(process.pid)
    return ended
