"""A copy of the program that needs no key.

Secrets of the stack's file and of its kept state, `.github/states/STACK.json`, are replaced by the
same placeholders in both, so that a secret that is passed on is not a change.
"""

import json
import sys
from pathlib import Path

from gpu_cluster.cli.ci.kept_state import opened
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.program import copy_program
from gpu_cluster.stacks.definition.settings import ROOT

STATE = "state.json"


def export(file: Path) -> object:
    """The output of `pulumi stack export`; raises StackError if the file is not one."""
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
    """Creates the folder; with `state.json` in it if a state is kept."""
    copy_program(root, stack, folder)
    state = root / ".github" / "states" / f"{stack}.json"
    if state.is_file():
        (folder / STATE).write_text(json.dumps(opened(export(state))))
