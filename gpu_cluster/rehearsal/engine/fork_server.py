"""A Python process that has already imported the SDKs, forked for each run of the engine.

Importing them takes most of a run's time. A server, which is this file run as a script, keeps the
SDK modules that programs have imported, and forks for each program. The engine is given a launcher
that behaves like the interpreter: same arguments, streams, environment, signals and exit code. A
program's own modules are never kept, and the SDK's debug messages are not sent.
"""

import fcntl
import itertools
import json
import os
import random
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import suppress
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

LAUNCHER = """import os, sys, _signal, _socket

def passed_on(number, frame):
    try:
        server.sendall(bytes([number]))
    except ConnectionError:  # the program has ended, and `recv` says so too
        return

server = _socket.socket(_socket.AF_UNIX)
server.connect("/proc/self/fd/%d/socket" % os.open({folder!r}, os.O_RDONLY))
variables = map("=".join, os.environ.items())
arguments = [{file!r}, *sys.argv[1:]]
asked = os.fsencode("\\0".join([os.getcwd(), str(len(arguments)), *arguments, *variables]))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)]
server.sendmsg([len(asked).to_bytes(8, "big")], rights)
server.sendall(asked)
for number in (_signal.SIGINT, _signal.SIGTERM):
    _signal.signal(number, passed_on)
parent = os.getppid()
server.settimeout(1)
while True:
    try:
        code = server.recv(1)
        break
    except TimeoutError:
        if os.getppid() != parent:
            sys.exit("the starting process is gone")
    except ConnectionError:  # the program died before it had read a signal
        code = b""
        break
sys.exit(code[0] if code else {killed})
"""
"""The launcher's program. It ends with the program that it launches, and that with it. It imports
no site packages, and neither `json`, `signal` nor `socket`, which would double its processor
time."""

KILLED = 137
"""The exit code of a program that was killed, or that ended without Python noticing."""

SHARED = "GPU_CLUSTER_LAUNCHER"
"""Environment variable with the launcher of a longer-lived process, to use instead."""


@cache
def launcher() -> Path:
    """An executable that can be used as this interpreter. Its server ends with this process."""
    if shared := os.environ.get(SHARED):
        return Path(shared)
    # Not needed by the server, which imports nothing of this project.
    from gpu_cluster.rehearsal.processes import spawn_supervised
    from gpu_cluster.tools.scripts import script

    for old in Path(tempfile.gettempdir()).glob("fork-server-*"):
        # A server has its log locked. Its process ID would not do: another PID namespace, such as
        # a container's, may share the folder. Other users may create folders of this name, too.
        with suppress(OSError), _opened(old / "log") as log:
            if os.fstat(log.fileno()).st_uid != os.geteuid():
                continue
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="fork-server-"))
    # Unlike `atexit`, also runs at the end of a `multiprocessing` process.
    Finalize(None, shutil.rmtree, [folder], {"ignore_errors": True}, exitpriority=0)
    listening = socket.socket(socket.AF_UNIX)
    # The path of a socket has at most 107 bytes; that of a temporary folder may be longer.
    descriptor = os.open(folder, os.O_RDONLY)
    listening.bind(f"/proc/self/fd/{descriptor}/socket")
    os.close(descriptor)
    listening.listen(64)
    with (folder / "log").open("wb") as log:
        fcntl.flock(log, fcntl.LOCK_SH)  # until the server, which inherits it, ends
        # Not this process's streams: their reader waits until no process has them open.
        spawn_supervised(
            [sys.executable, "-u", "-P", __file__, str(listening.fileno()), str(folder / "learnt")],
            pass_fds=[listening.fileno()],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    listening.close()
    file = folder / "python"
    program = LAUNCHER.format(folder=str(folder), file=str(file), killed=KILLED)
    # The virtual environment's packages are not needed, and its path is more likely to have blanks.
    file.write_text(script(program, os.path.realpath(sys.executable), "-IS"))
    file.chmod(0o700)
    return file


def _opened(file: Path) -> TextIO:
    """Opens a file that another user may have replaced: never waits, follows no link."""
    return os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW))


def serve(listening: socket.socket, learnt: Path) -> None:
    """Forks for each launcher that connects."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for here
    while True:
        client, _ = listening.accept()
        _learn(learnt)
        if len(os.listdir("/proc/self/task")) > 1:
            sys.exit("something that was imported has started a thread: this cannot fork any more")
        if os.fork() == 0:
            listening.close()
            _become(client, learnt)
        client.close()


def _learn(learnt: Path) -> None:
    """Imports what earlier programs imported; ignores what cannot be imported."""
    try:
        names = json.loads(learnt.read_text())
    except FileNotFoundError:  # no program imported anything new
        return
    learnt.unlink()
    for name in names:
        # The SDKs' lazy packages run only when one of their attributes is read. A class in a module
        # of the same name would be hidden by that module if it were imported first.
        *packages, _ = itertools.accumulate(name.split("."), "{}.{}".format)
        for package in [*packages, name]:
            try:
                if package not in sys.modules:
                    __import__(package)
                hasattr(sys.modules.get(package), "anything")
            except ImportError:
                break


def _become(client: socket.socket, learnt: Path) -> None:
    """Runs one program in this process, then ends the process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(client, 8, 3)
    with client.makefile("rb") as rest:
        asked = os.fsdecode(rest.read(int.from_bytes(head, "big")))
    folder, count, *texts = asked.split("\0")
    sys.executable, *arguments = texts[: int(count)]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    for variable in texts[int(count) :]:
        name, _, value = variable.partition("=")
        os.environ[name] = value
    random.seed()
    if log := sys.modules.get("pulumi.log"):
        # The SDK waits until the engine has taken each message. Without --debug, it drops them.
        vars(log)["debug"] = lambda *_, **__: None
    before = set(sys.modules)
    threading.Thread(target=_obey, args=(client,), daemon=True).start()
    code = 0
    try:
        _run(arguments)
    except SystemExit as end:
        code = _code(end)
    except BaseException:
        traceback.print_exc()
        code = 1
    _tell(learnt, before)
    sys.stdout.flush()
    sys.stderr.flush()
    with suppress(ConnectionError):  # the launcher is gone, so the code has no reader
        client.sendall(bytes([code & 0xFF]))
    os._exit(code & 0xFF)


def _obey(client: socket.socket) -> None:
    """Passes signals on, and ends when the launcher ends."""
    with suppress(ConnectionError):  # the launcher was killed before it read the exit code
        while number := client.recv(1):
            os.kill(os.getpid(), number[0])
    os._exit(KILLED)


def _run(arguments: list[str]) -> None:
    """Runs as the interpreter would: `-u` and `-P`, then `-c`, `-m` or a script."""
    path = []
    while arguments and arguments[0] in ("-u", "-P"):
        path.append(arguments.pop(0))
    kind, *_ = arguments
    first = {"-c": "", "-m": os.getcwd()}.get(kind, str(Path(kind).resolve().parent))
    extra = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:0] = extra if "-P" in path else [first, *extra]
    if kind == "-c":
        sys.argv = ["-c", *arguments[2:]]
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(arguments[1], names)
    elif kind == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(kind, run_name="__main__")


def _code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def _tell(learnt: Path, before: set[str]) -> None:
    """Records which modules of the installed SDKs this program imported."""
    new = [
        name
        for name, module in list(sys.modules.items())
        # Only SDKs are known to be safe to fork: they start no threads. Reading the file of a lazy
        # module that has not run would run it: all of an SDK takes 13 s.
        if name.startswith("pulumi")
        and name not in before
        and type(module) is ModuleType
        and str(vars(module).get("__file__") or "").startswith(f"{sys.prefix}{os.sep}")
    ]
    if new:
        # If two programs end at once, the later message wins; the other is sent again.
        file = learnt.with_suffix(f".{os.getpid()}")
        file.write_text(json.dumps(new))
        file.replace(learnt)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]))
