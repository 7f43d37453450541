"""A copy of the program that needs no key.

Secrets of the stack's file and of its kept state, `.github/states/STACK.json`, are replaced by the
same placeholders in both, so that a secret that is passed on is not a change.
"""

import json
import sys
from pathlib import Path

from gpu_cluster.cli.ci.kept_state import opened
from gpu_cluster.stacks.definition.files import read_stack
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.program import copy_program
from gpu_cluster.stacks.definition.settings import CLUSTER, ROOT

STATE = "state.json"
_KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: none, user: {token: none}}]
contexts: [{name: CONTEXT, context: {cluster: none, user: none}}]
current-context: CONTEXT
"""


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
    """Creates the folder, with the kubeconfig of a cluster that does not exist, and with
    `state.json` if a state is kept."""
    copy_program(root, stack, folder)
    config = read_stack(root, stack).get("config")
    cluster = config.get(CLUSTER) if isinstance(config, dict) else None
    context = str(cluster.get("context") or "none") if isinstance(cluster, dict) else "none"
    (folder / "kubeconfig").write_text(_KUBECONFIG.replace("CONTEXT", json.dumps(context)))
    state = root / ".github" / "states" / f"{stack}.json"
    if state.is_file():
        (folder / STATE).write_text(json.dumps(opened(export(state))))
