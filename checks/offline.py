"""`python -m checks.offline STACK FOLDER`: a copy of the program that needs nobody's key.

Encrypted values of the stack's file and of its kept state, `.github/states/STACK.json`, are
placeholders in it: the same in both, so that a secret that is handed on is no change.
"""

import json
import sys
from pathlib import Path
from typing import Any

from checks.stack import ROOT
from stacks import command as commands
from stacks.files import PLACEHOLDER
from stacks.names import StackError
from stacks.program import copy_program

STATE = "state.json"
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
"""By which the engine knows a secret among the values of a state."""
NOWHERE = '{"apiVersion": "v1", "kind": "Config"}'
"""In place of a kubeconfig: one of no cluster. Another cluster's, and all that is in the cluster
would be made anew; what is none at all, the Kubernetes provider refuses."""


def main() -> int:
    """Parses the command line; returns the exit code."""
    parser = commands.Parser(prog="checks.offline", description=__doc__)
    parser.add_stack()
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    try:
        copy(args.stack, args.folder)
    except StackError as error:
        print(f"offline: {error}", file=sys.stderr)
        return 2
    return 0


def copy(stack: str, folder: Path, root: Path = ROOT) -> None:
    """Makes the folder; with `state.json` in it where a state is kept."""
    copy_program(root, stack, folder)
    state = root / ".github" / "states" / f"{stack}.json"
    if state.is_file():
        (folder / STATE).write_text(json.dumps(opened(json.loads(state.read_text()))))


def opened(state: Any, key: str = "") -> Any:
    """An exported state without secrets and without the way to their key."""
    if isinstance(state, dict):
        if state.get(_SIGNATURE) == _SECRET:
            if "plaintext" in state:  # as `--show-secrets` exports it
                return json.loads(state["plaintext"])
            return NOWHERE if key == "kubeconfig" else PLACEHOLDER
        return {
            name: opened(value, name)
            for name, value in state.items()
            if name != "secrets_providers"
        }
    if isinstance(state, list):
        return [opened(value, key) for value in state]
    return state


if __name__ == "__main__":
    sys.exit(commands.run(main))
