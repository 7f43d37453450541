"""`python -m gpu_cluster.stacks.definition.changed REV`: what a pull request has changed since REV.

Prints `code=true` if anything except stacks' own files has changed, and `stacks=...` with the
affected environments. Standard library only: it runs before anything is installed.
"""

import re
import subprocess
import sys
from collections.abc import Sequence

from gpu_cluster.stacks.definition.names import ROOT, StackError, stack_name

_OF_A_STACK = re.compile(
    r"Pulumi\.(?P<file>[^/]+)\.yaml"
    r"|\.github/states/(?P<state>[^/]+)\.json"
    r"|inventories/(?P<inventory>[^/]+)\.yaml"
)
_OF_EVERY_STACK = re.compile(
    r"(components|policy|wheels|gpu_cluster/(policy|rehearsal|stacks|clouds|tools))/"
    r"|([^/]+\.py|Pulumi\.yaml|requirements.*)$"
)

_SETTINGS_OF_POLICIES = "policy/config.json"
"""A user's own values, such as a monthly ceiling: they affect stacks, not the program's tests."""


def changed_lines(revision: str) -> str:
    """The two lines; raises StackError if git does not have the revision, or if the name of a stack
    file is invalid."""
    done = _git("diff", "--name-only", "--relative", f"{revision}...HEAD", "--")
    if done.returncode:
        raise StackError(
            f"{revision}: this repository has no such revision; fetch it, or name another"
        )
    # Not other files in the folder: a pull request contains what is committed.
    here = _git("ls-files", "--", ":(glob)Pulumi.*.yaml").stdout.splitlines()
    code, stacks = touched(done.stdout.splitlines(), here)
    return f"code={str(code).lower()}\nstacks={' '.join(stacks)}"


def _git(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *command], capture_output=True, text=True)


def touched(files: Sequence[str], stack_files: Sequence[str]) -> tuple[bool, list[str]]:
    """Whether these files affect the developers' tests, and the stacks to rehearse.

    `stack_files`: the existing ones. Raises StackError if one has an invalid name.
    """
    named: set[str] = set()
    code = every = False
    for file in files:
        if match := _OF_A_STACK.fullmatch(file):
            named.add(next(filter(None, match.groups())))
        elif file == _SETTINGS_OF_POLICIES:
            every = True
        else:
            code = True
            every = every or _OF_EVERY_STACK.match(file) is not None
    here = [stack_name(file.removeprefix("Pulumi.").removesuffix(".yaml")) for file in stack_files]
    return code, sorted(stack for stack in here if every or stack in named)


if __name__ == "__main__":
    try:
        print(changed_lines(sys.argv[1]))
    except StackError as error:
        print(f"changed: {error}", file=sys.stderr)
        sys.exit(2)
