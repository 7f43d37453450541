"""`python -m rehearsal run STACK [--keep] [--node gpu]`, `down STACK`, `list` and `inventory`."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import tools
from plugins.cloud.handler import CloudError
from rehearsal import folder as folders
from rehearsal import inventory_command
from rehearsal.folder import FolderError, Holder
from rehearsal.gpu_node import host_changes as footprint
from rehearsal.gpu_node.machine import NodeError, look
from rehearsal.processes import LEASH, ProcessError
from stacks import command as commands
from stacks.files import read_stack
from stacks.names import StackError
from stacks.owners import refuse_shared

ROOT = Path(__file__).resolve().parents[1]
REHEARSALS = ROOT / ".rehearsal"


def main() -> int:
    """Parses the command line; returns the exit status."""
    parser = commands.Parser(prog="rehearsal", description=__doc__)
    verbs = parser.add_subparsers(dest="command", required=True)
    run = verbs.add_parser("run", help="rehearse a stack on this machine")
    run.add_argument("--keep", action="store_true", help="leave it running once the workloads do")
    run.add_argument("--replace", action="store_true", help="end the one that runs already")
    run.add_argument("--deadline", type=float, default=90.0, help="seconds for the workloads")
    run.add_argument("--node", choices=["gpu"], help="this machine is one of the nodes")
    down = verbs.add_parser("down", help="end what --keep left running")
    verbs.add_parser("list", help="the rehearsals of this folder, and whether they run")
    listed = verbs.add_parser("inventory", help="write down an existing cluster's machines")
    listed.add_stack()
    listed.add_argument(
        "--nodes", type=Path, help="output of kubectl get nodes -o json, - for standard input"
    )
    # The long-lived process behind `run`; not for people.
    held = verbs.add_parser("hold")
    held.add_argument("--keep", action="store_true")
    held.add_argument("--replace", default="")
    held.add_argument("--deadline", type=float)
    held.add_argument("--answer", type=int)
    held.add_argument("--node")
    for verb in (run, down, held):
        verb.add_stack()
        verb.add_argument("--folder", type=Path, help="default: .rehearsal/STACK")
    args = parser.parse_args()
    if args.command == "list":
        return _list()
    if args.command == "inventory":
        return _inventory(args.stack, args.nodes)
    folder = (args.folder or REHEARSALS / args.stack).absolute()
    try:
        match args.command:
            case "run":
                replace = f"make rehearse STACK={args.stack} REPLACE=1" if args.replace else ""
                passed = ["--deadline", str(args.deadline), "--replace", replace]
                passed += ["--node", args.node] if args.node is not None else []
                return _run(args.stack, folder, passed, keep=args.keep)
            case "down":
                return _down(args.stack, folder)
            case _:
                return _hold(
                    args.stack, folder, args.keep, args.deadline, args.answer,
                    node=args.node, replace=args.replace,
                )  # fmt: skip
    except (FolderError, NodeError) as error:
        print(f"rehearsal of {args.stack}: {error}", file=sys.stderr)
        return commands.WRONG
    except PermissionError as error:
        print(f"rehearsal of {args.stack}: {error.filename}: not yours to change", file=sys.stderr)
        return commands.WRONG
    except (StackError, ProcessError, CloudError, tools.ToolError) as error:
        print(f"rehearsal of {args.stack}: {error}", file=sys.stderr)
        return 1


def _run(stack: str, folder: Path, passed: list[str], *, keep: bool) -> int:
    """Starts the holding process and waits for its answer; with `keep` it then goes on alone."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "rehearsal", "hold", stack, "--folder", str(folder)]
    command += ["--answer", str(writing), *passed]
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
    if not folder.exists() and not folder.is_symlink():
        config = read_stack(ROOT, stack).get("config")  # names the stacks that there are
        refuse_shared(ROOT, stack, config if isinstance(config, dict) else {})
    node = footprint.read(folder) if folders.holder(folder) else None
    done = folders.end(folder, f"make down STACK={stack}")
    print(f"rehearsal of {stack}: {done}")
    left = [line for lines in node.left().values() for line in lines] if node else []
    for line in left:
        print(f"its real node left {line}", file=sys.stderr)
    return 1 if left else 0


def _inventory(stack: str, nodes: Path | None) -> int:
    try:
        file = inventory_command.write(stack, nodes)
    except StackError as error:
        print(f"inventory of {stack}: {error}", file=sys.stderr)
        return 1
    print(f"wrote {file}")
    return 0


def _list() -> int:
    found = folders.rehearsals(REHEARSALS)
    for folder, holder, running in found:
        print(f"{folder.name}: {_state(folder, holder, running)}")
    if not found:
        print("no rehearsal is running, and none has left a report")
    return 0


def _state(folder: Path, holder: Holder, running: bool) -> str:
    if running:
        return f"{holder} is running; KUBECONFIG={folder / 'kubeconfig'}"
    try:
        passed = json.loads((folder / "report.json").read_text())["ok"]
    except (OSError, ValueError, KeyError):
        return "ended early, without a report"
    return f"{'passed' if passed else 'failed'}: {folder / 'report.txt'}"


def _hold(
    stack: str,
    folder: Path,
    keep: bool,
    deadline: float,
    answer: int,
    *,
    node: str | None,
    replace: str,
) -> int:
    """Runs the rehearsal; with `keep` stays until SIGTERM once it has given its answer."""
    ended = threading.Event()

    def end(*_: object) -> None:
        # The first signal unwinds the run in progress; none may interrupt the cleaning up.
        if not ended.is_set():
            ended.set()
            if by := folders.ended_by(folder):
                print(f"rehearsal of {stack}: ended by {by}", file=sys.stderr, flush=True)
            raise SystemExit(130)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait(code: int) -> None:
        os.write(answer, str(code).encode())
        os.close(answer)
        _leave_terminal(folder / "logs" / "sandbox.log")
        ended.wait()

    from rehearsal.run import hold  # loads all that a rehearsal needs; nothing else here does

    machine = look() if node is not None else None
    return hold(
        stack,
        folder,
        keep=wait if keep else None,
        deadline=deadline,
        machine=machine,
        replace=replace,
    )


def _leave_terminal(log: Path) -> None:
    """Sends what this process still says to a file."""
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


if __name__ == "__main__":
    sys.exit(commands.run(main))
