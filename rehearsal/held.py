"""The process that holds a rehearsal; `run` starts it and waits for its answer.

A kept rehearsal continues in that process only; any other ends with the process that started it.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

import tools
from rehearsal import folder as folders
from rehearsal.folder import FolderError, Holder
from rehearsal.gpu_node import host_changes
from rehearsal.gpu_node.machine import NodeError, look
from rehearsal.plugins.cloud.handler import CloudError
from rehearsal.processes import PDEATHSIG, ProcessError
from rehearsal.progress import Progress
from rehearsal.provider_plugins import Choice
from stacks.definition.files import read_stack
from stacks.definition.owners import refuse_shared
from stacks.outcome import CheckError, ExitCode
from tools.__main__ import main as run_tools

ROOT = Path(__file__).resolve().parents[1]
REHEARSALS = ROOT / ".rehearsal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be rehearsed, and how."""

    stack: str
    folder: str
    """Of the rehearsal, absolute."""
    keep: bool = False
    """Whether it stays once the workloads run, until somebody ends it."""
    replace: str = ""
    """The command in whose name a rehearsal that runs in the folder is ended; empty: it is not."""
    deadline: float = 90.0
    """Seconds that the workloads get to run."""
    real_node: bool = False
    """Whether this machine is one of the nodes."""
    revision: str = ""
    """The git revision that is up before the update to this tree; empty: none is."""
    plugins: Choice = "auto"
    """Which provider plugins are used."""


def run(wanted: Wanted, *, quiet: bool = False) -> int:
    """Rehearses in its own process; returns the exit code. With `quiet`, what that prints goes
    to the standard error."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "rehearsal.held", str(writing), json.dumps(asdict(wanted))]
    if not wanted.keep:
        # Whatever ends this process ends the rehearsal with it.
        command = [sys.executable, "-I", "-S", str(PDEATHSIG), str(os.getpid()), *command]
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
                said = answer.read()
                break
            except KeyboardInterrupt:
                print("\nending the rehearsal ...", file=sys.stderr, flush=True)
                holder.terminate()
    if said:
        return int(said)
    if (code := holder.wait()) < 0:
        print(f"the rehearsal was ended by signal {-code}", file=sys.stderr)
        return ExitCode.UNKNOWN
    return code


def down(stack: str, folder: Path) -> tuple[str, list[str]]:
    """Ends the rehearsal in this folder: what was done, in words, and what its real node left.

    Raises FolderError if the folder is not a rehearsal's, StackError if there is no such stack.
    """
    if not folder.exists() and not folder.is_symlink():
        config = read_stack(ROOT, stack).get("config")  # names the stacks that there are
        refuse_shared(ROOT, stack, config if isinstance(config, dict) else {})
    starting = [] if folders.held(folder) else _starting(folder)
    for process in starting:
        process.terminate()
    if starting:
        psutil.wait_procs(starting, folders.END_SECONDS)
        folders.end(folder, f"gpu-cluster down {stack}")
        return "ended while it was starting", []
    node = host_changes.read(folder) if folders.holder(folder) else None
    done = folders.end(folder, f"gpu-cluster down {stack}")
    return done, [line for lines in node.left().values() for line in lines] if node else []


def _starting(folder: Path) -> list[psutil.Process]:
    """Processes that will hold a rehearsal in this folder, and have not locked it yet: they build
    programs, or import packages."""
    wanted, found = f'"folder": {json.dumps(str(folder))}', []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is another user's
            command = process.cmdline()
            if "rehearsal.held" in command and wanted in command[-1]:
                found.append(process)
    return found


def known() -> Iterator[tuple[str, str, str]]:
    """Every rehearsal of this checkout: stack, what it is doing or how it ended, and where to look
    then: its kubeconfig or its report."""
    for folder, holder, running in folders.rehearsals(REHEARSALS):
        yield folder.name, *_state(folder, holder, running)


def _state(folder: Path, holder: Holder, running: bool) -> tuple[str, str]:
    if running:
        return f"{holder} is running", f"KUBECONFIG={folder / 'kubeconfig'}"
    try:
        passed = json.loads((folder / "report.json").read_text())["ok"]
    except (OSError, ValueError, KeyError):
        return "ended early, without a report", ""
    return "passed" if passed else "failed", str(folder / "report.txt")


def main() -> int:
    """The process itself: runs the rehearsal and writes the exit code into the given descriptor.

    With `keep` it then stays until SIGTERM.
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
        # The first signal unwinds the run in progress; none may interrupt the cleaning up.
        nonlocal ended
        if not ended:
            ended = True
            if by := folders.ended_by(folder):
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
        from rehearsal.gpu_node.host_node import PROGRAMS

        if not built(*PROGRAMS):
            return ExitCode.UNKNOWN
    from rehearsal.run import hold  # loads all that a rehearsal needs; nothing else here does

    return hold(
        wanted.stack,
        folder,
        keep=wait if wanted.keep else None,
        deadline=wanted.deadline,
        machine=look() if wanted.real_node else None,
        replace=wanted.replace,
        revision=wanted.revision,
        plugins=wanted.plugins,
    )


def built(*names: str) -> bool:
    """Builds the named programs, or all that every rehearsal needs, unless they are built; whether
    that succeeded."""
    with Progress() as progress:
        progress.begin("building missing programs")
        return run_tools(["build", *names]) == 0


def _leave_terminal(log: Path) -> None:
    """Sends what this process still says to a file."""
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


if __name__ == "__main__":
    sys.exit(main())
