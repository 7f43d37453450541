"""The process that runs a rehearsal; `run` starts it and waits for its answer.

A kept rehearsal continues in that process only; any other ends with the process that started it.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from gpu_cluster import tools
from gpu_cluster.rehearsal import lock
from gpu_cluster.rehearsal.engine.provider_plugins import Choice
from gpu_cluster.rehearsal.gpu_node import host_changes
from gpu_cluster.rehearsal.gpu_node.machine import NodeError, describe_machine
from gpu_cluster.rehearsal.lock import FolderError, Holder
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError
from gpu_cluster.rehearsal.processes import ProcessError, visible
from gpu_cluster.rehearsal.report.progress import Progress
from gpu_cluster.stacks.definition.files import ROOT, read_stack
from gpu_cluster.stacks.definition.owners import refuse_shared
from gpu_cluster.stacks.outcome import CheckError, ExitCode
from gpu_cluster.tools import linux
from gpu_cluster.tools.__main__ import main as run_tools

REHEARSALS = ROOT / ".rehearsal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The stack to rehearse, and the options."""

    stack: str
    folder: str
    """The rehearsal's folder, absolute."""
    keep: bool = False
    """Whether the rehearsal continues after the workloads run, until the user ends it."""
    replace: str = ""
    """The command on whose behalf a rehearsal in the folder is ended; empty: it is not."""
    deadline: float = 90.0
    """How many seconds the workloads may take to run."""
    real_node: bool = False
    """Whether this machine is one of the nodes."""
    revision: str = ""
    """The git revision deployed before the update to this tree; empty: none."""
    plugins: Choice = "auto"
    """Which provider plugins to use."""


def run(wanted: Wanted, *, quiet: bool = False) -> int:
    """Rehearses in a separate process; returns the exit code. With `quiet`, prints to stderr."""
    reading, writing = os.pipe()
    command = [
        sys.executable,
        "-m",
        "gpu_cluster.rehearsal.holder",
        str(writing),
        json.dumps(asdict(wanted)),
    ]
    if not wanted.keep:
        # The rehearsal ends with this process, however that ends.
        command = linux.supervised(command)
    holder = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr if quiet else None,
        pass_fds=[writing],
        start_new_session=True,
    )
    os.close(writing)
    signal.signal(signal.SIGTERM, lambda *_: holder.terminate())
    with os.fdopen(reading) as answer:
        while True:
            try:
                answer_text = answer.read()
                break
            except KeyboardInterrupt:
                print("\nending the rehearsal ...", file=sys.stderr, flush=True)
                holder.terminate()
    if answer_text:
        return int(answer_text)
    if (code := holder.wait()) < 0:
        print(f"the rehearsal was ended by signal {-code}", file=sys.stderr)
        return ExitCode.UNKNOWN
    return code


def down(stack: str, folder: Path) -> tuple[str, list[str]]:
    """Ends the rehearsal in this folder; returns a sentence about it, and what its real node left.

    Raises FolderError if the folder is not a rehearsal's, StackError if there is no such stack.
    """
    if not folder.exists() and not folder.is_symlink():
        config = read_stack(ROOT, stack).get("config")  # the error names the existing stacks
        refuse_shared(ROOT, stack, config if isinstance(config, dict) else {})
    starting = [] if lock.is_running(folder) else _starting(folder)
    for process in starting:
        process.terminate()
    if starting:
        psutil.wait_procs(starting, lock.END_SECONDS)
        lock.end(folder, f"gpu-cluster down {stack}")
        return "ended while it was starting", []
    node = host_changes.read_changes(folder) if lock.holder(folder) else None
    running = lock.holder(folder) if lock.is_running(folder) else None
    ending = [process for process in visible() if running and process.pid == running.pid]
    done = lock.end(folder, f"gpu-cluster down {stack}")
    # It ends a moment after it has unlocked, and looks like one that starts.
    psutil.wait_procs(ending, lock.END_SECONDS)
    return done, [line for lines in node.left().values() for line in lines] if node else []


def _starting(folder: Path) -> list[psutil.Process]:
    """Processes that are about to hold a rehearsal in this folder but have not locked it yet: they
    are building programs or importing packages."""
    wanted, found = f'"folder": {json.dumps(str(folder))}', []
    for process in visible():
        with suppress(psutil.Error):  # it has ended, or belongs to another user
            command = process.cmdline()
            if "gpu_cluster.rehearsal.holder" in command and wanted in command[-1]:
                found.append(process)
    return found


def known() -> Iterator[tuple[str, str, str]]:
    """The rehearsals of this project: stack, its state or result, and its kubeconfig or report."""
    for folder, holder, running in lock.rehearsals(REHEARSALS):
        yield folder.name, *_state(folder, holder, running)


def _state(folder: Path, holder: Holder, running: bool) -> tuple[str, str]:
    if running:
        return f"{holder} is running", f"KUBECONFIG={shlex.quote(str(folder / 'kubeconfig'))}"
    try:
        passed = json.loads((folder / "report.json").read_text())["ok"]
    except (OSError, ValueError, KeyError):
        return "ended early, without a report", ""
    return "passed" if passed else "failed", str(folder / "report.txt")


def main() -> int:
    """The process's main function: runs the rehearsal and writes the exit code to the descriptor.

    With `keep` it then continues until SIGTERM.
    """
    answer, wanted = int(sys.argv[1]), Wanted(**json.loads(sys.argv[2]))
    try:
        return _hold(wanted, answer)
    except PermissionError as error:
        message = f"{error.filename}: permission denied"
    except (
        FolderError, NodeError, CheckError, ProcessError, CloudError, tools.ToolError,
    ) as error:  # fmt: skip
        message = str(error)
    print(f"rehearsal of {wanted.stack}: {message}", file=sys.stderr)
    return ExitCode.UNKNOWN


def _hold(wanted: Wanted, answer: int) -> int:
    folder, ended = Path(wanted.folder), False

    def end(*_: object) -> None:
        # The first signal unwinds the run in progress; further ones must not interrupt the cleanup.
        nonlocal ended
        if not ended:
            ended = True
            if by := lock.ended_by(folder):
                print(f"rehearsal of {wanted.stack}: ended by {by}", file=sys.stderr, flush=True)
            raise SystemExit(130)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait(code: int) -> None:
        os.write(answer, str(code).encode())
        os.close(answer)
        _leave_terminal(folder / "logs" / "sandbox.log")
        while True:
            signal.pause()  # until `end` raises

    if not built():
        return ExitCode.UNKNOWN
    if wanted.real_node:
        from gpu_cluster.rehearsal.gpu_node.host_node import PROGRAMS

        if not built(*PROGRAMS):
            return ExitCode.UNKNOWN
    from gpu_cluster.rehearsal.run import (
        hold,  # loads all that a rehearsal needs; nothing else here does
    )

    return hold(
        wanted.stack,
        folder,
        keep=wait if wanted.keep else None,
        deadline=wanted.deadline,
        machine=describe_machine() if wanted.real_node else None,
        replace=wanted.replace,
        revision=wanted.revision,
        plugins=wanted.plugins,
    )


def built(*names: str) -> bool:
    """Builds the named programs, or by default all that every rehearsal needs, unless they are
    built; returns whether it succeeded."""
    with Progress() as progress:
        progress.begin("building missing programs")
        return run_tools(["build", *names]) == 0


def _leave_terminal(log: Path) -> None:
    """Redirects this process's further output to a file."""
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


if __name__ == "__main__":
    sys.exit(main())
