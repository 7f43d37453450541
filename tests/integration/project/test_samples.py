"""The stack files at the root are the samples, until a user makes them his own."""

import subprocess

import pytest

from gpu_cluster.stacks.definition.files import EXAMPLES, ROOT, SAMPLES


def said(text: str) -> str:
    """What a stack file says, without the line that tells an editor where its schema is."""
    return "".join(
        line for line in text.splitlines(True) if not line.startswith("# yaml-language-server:")
    )


def versions(name: str) -> set[str]:
    """Every version of a sample in the history that this checkout has; none without one."""
    file = f"examples/stacks/{name}"
    line = ["git", "-C", str(ROOT), "log", "--format=%H", "--diff-filter=d", "--", file]
    commits = subprocess.run(line, capture_output=True, text=True).stdout.split()
    found = set()
    for commit in commits:
        line = ["git", "-C", str(ROOT), "show", f"{commit}:{file}"]
        found.add(said(subprocess.run(line, capture_output=True, text=True, check=True).stdout))
    return found


@pytest.mark.parametrize("stack", SAMPLES)
def test_a_stack_file_that_nobody_has_edited_is_the_newest_sample(stack: str) -> None:
    """An earlier version of the sample at the root was forgotten when the sample changed. Any other
    text is a user's, which is none of the developers' business; and so is a file that is gone."""
    name = f"Pulumi.{stack}.yaml"
    sample = said((EXAMPLES / name).read_text())
    shipped = ROOT / name
    if shipped.is_file():
        assert said(shipped.read_text()) not in versions(name) - {sample}
