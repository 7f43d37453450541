"""A copy of the program that needs nobody's key.

Secrets of the stack's file and of its kept state, `.github/states/STACK.json`, are placeholders in
it: the same in both, so that passing on a secret is not a change.
"""

import json
import sys
from pathlib import Path

from cli.ci.kept_state import opened
from stacks.definition.names import StackError
from stacks.definition.program import copy_program
from stacks.definition.settings import ROOT

STATE = "state.json"


def export(file: Path) -> object:
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
        (folder / STATE).write_text(json.dumps(opened(export(state))))
