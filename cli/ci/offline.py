"""`python -m cli.ci.offline STACK FOLDER`: a copy of the program that needs nobody's key.

Secrets of the stack's file and of its kept state, `.github/states/STACK.json`, are placeholders in
it: the same in both, so that a secret that is handed on is no change.

`python -m cli.ci.offline --state FILE`: prints the export of a stack (`pulumi stack export`; `-` is
the standard input) without its secrets, encrypted or not: what may be kept in a repository.
"""

import argparse
import json
import sys
from pathlib import Path

from cli.ci.kept_state import opened
from stacks import command as commands
from stacks.names import StackError
from stacks.program import copy_program
from stacks.settings import ROOT

STATE = "state.json"


def main() -> int:
    """Parses the command line; returns the exit code."""
    parser = commands.Parser(
        prog="cli.ci.offline", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_stack("stack", nargs="?")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--state", metavar="FILE", type=Path)
    args = parser.parse_args()
    if (args.state is None) == (args.folder is None):
        parser.error("give either STACK and FOLDER, or --state FILE")
    try:
        if args.state is not None:
            print(json.dumps(opened(_export(args.state)), indent=1))
        else:
            copy(args.stack, args.folder)
    except StackError as error:
        print(f"offline: {error}", file=sys.stderr)
        return 2
    return 0


def _export(file: Path) -> object:
    """What `pulumi stack export` printed; raises StackError where it is none."""
    try:
        state = json.loads(sys.stdin.read() if str(file) == "-" else file.read_text())
    except OSError as error:
        raise StackError(f"{file}: {error.strerror}") from None
    except ValueError:
        raise StackError(f"{file}: is not JSON; give what pulumi stack export prints") from None
    if not isinstance(state, dict) or "deployment" not in state:
        raise StackError(f"{file}: has no deployment; give what pulumi stack export prints")
    return state


def copy(stack: str, folder: Path, root: Path = ROOT) -> None:
    """Makes the folder; with `state.json` in it where a state is kept."""
    copy_program(root, stack, folder)
    state = root / ".github" / "states" / f"{stack}.json"
    if state.is_file():
        (folder / STATE).write_text(json.dumps(opened(_export(state))))


if __name__ == "__main__":
    sys.exit(commands.run(main))
