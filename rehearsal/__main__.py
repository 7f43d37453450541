"""`python -m rehearsal run STACK [--keep] [--node gpu]` and `python -m rehearsal down STACK`."""

import argparse
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import tools
from rehearsal import stage as stages
from rehearsal.node import footprint
from rehearsal.node.machine import NodeError, look
from rehearsal.processes import LEASH, ProcessError
from rehearsal.run import hold
from stacks.files import StackError


def main() -> int:
    """Parses the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="rehearsal", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="rehearse a stack on this machine")
    run.add_argument("--keep", action="store_true", help="leave it running once the workloads do")
    run.add_argument("--deadline", type=float, default=90.0, help="seconds for the workloads")
    run.add_argument("--node", choices=["gpu"], help="this machine is one of the nodes")
    down = commands.add_parser("down", help="end what --keep left running")
    # The long-lived process behind `run`; not for people.
    held = commands.add_parser("hold")
    held.add_argument("--keep", action="store_true")
    held.add_argument("--deadline", type=float)
    held.add_argument("--answer", type=int)
    held.add_argument("--node")
    for command in (run, down, held):
        command.add_argument("stack")
        command.add_argument("--folder", type=Path, help="default: .rehearsal/STACK")
    args = parser.parse_args()
    folder = (args.folder or stages.ROOT / ".rehearsal" / args.stack).absolute()
    match args.command:
        case "run":
            return _run(args.stack, folder, keep=args.keep, deadline=args.deadline, node=args.node)
        case "down":
            return _down(args.stack, folder)
        case _:
            return _hold(args.stack, folder, args.keep, args.deadline, args.answer, node=args.node)


def _run(stack: str, folder: Path, *, keep: bool, deadline: float, node: str | None) -> int:
    """Starts the holding process and waits for its answer; with `keep` it then goes on alone."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "rehearsal", "hold", stack, "--folder", str(folder)]
    command += ["--answer", str(writing), "--deadline", str(deadline)]
    if node is not None:
        command += ["--node", node]
    if keep:
        command.append("--keep")
    else:
        # Whatever ends this process ends the rehearsal with it.
        command = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *command]
    holder = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, pass_fds=[writing], start_new_session=True
    )
    os.close(writing)
    signal.signal(signal.SIGTERM, lambda *_: holder.terminate())
    with os.fdopen(reading) as answer:
        while True:
            try:
                said = answer.read()
                break
            except KeyboardInterrupt:
                print("\nending the rehearsal ...", flush=True)
                holder.terminate()
    if said:
        return int(said)
    if (code := holder.wait()) < 0:
        print(f"the rehearsal was ended by signal {-code}", file=sys.stderr)
        return 1
    return code


def _down(stack: str, folder: Path) -> int:
    node = footprint.read(folder)
    ended = stages.end(folder)
    print(f"rehearsal of {stack}: {'ended' if ended else 'was not running'}")
    left = [line for lines in node.left().values() for line in lines] if node else []
    for line in left:
        print(f"its real node left {line}", file=sys.stderr)
    return 1 if left else 0


def _hold(
    stack: str, folder: Path, keep: bool, deadline: float, answer: int, *, node: str | None
) -> int:
    """Runs the rehearsal; with `keep` stays until SIGTERM once it has given its answer."""
    ended = threading.Event()

    def end(*_: object) -> None:
        # The first signal unwinds the run in progress; none may interrupt the cleaning up.
        if not ended.is_set():
            ended.set()
            raise SystemExit(130)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait(code: int) -> None:
        os.write(answer, str(code).encode())
        os.close(answer)
        _leave_terminal(folder / "logs" / "stage.log")
        ended.wait()

    try:
        machine = look() if node is not None else None
        return hold(stack, folder, keep=wait if keep else None, deadline=deadline, machine=machine)
    except NodeError as error:
        print(f"rehearsal of {stack}: {error}", file=sys.stderr)
        return 2
    except (StackError, ProcessError, tools.ToolError) as error:
        print(f"rehearsal of {stack}: {error}", file=sys.stderr)
        return 1


def _leave_terminal(log: Path) -> None:
    """Sends what this process still says to a file."""
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


if __name__ == "__main__":
    sys.exit(main())
