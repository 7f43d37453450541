"""The workflows of pull requests: what they may do, and that strangers cannot make them do more."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_cluster.stacks.definition import changed
from gpu_cluster.stacks.definition.settings import ROOT
from tests.integration.stacks.test_cost import git
from tests.unit.project.test_workflows import steps


@pytest.mark.parametrize(
    ("source", "artifacts", "asked", "first"),
    [
        ("us/gpu", {"comment": "offline", "comment-trusted": "real"}, ["comment-trusted"], "real"),
        ("us/gpu", {"comment": "offline"}, ["comment-trusted", "comment"], "offline"),
        ("them/gpu", {"comment": "offline", "comment-trusted": "forged"}, ["comment"], "offline"),
        ("them/gpu", {"comment-trusted": "forged"}, ["comment"], None),
    ],
)
def test_a_forks_comment_does_not_pass_for_a_trusted_one(
    tmp_path: Path, source: str, artifacts: dict[str, str], asked: list[str], first: str | None
) -> None:
    """The script itself, with a `gh` that hands out what a run has and notes what it is asked."""
    (step,) = steps("comment")
    for name, text in artifacts.items():
        (tmp_path / "artifacts" / name).mkdir(parents=True)
        (tmp_path / "artifacts" / name / "comment.md").write_text(f"<!-- mark -->\n{text}\n")
    gh = tmp_path / "bin" / "gh"
    gh.parent.mkdir()
    gh.write_text(
        '#!/bin/bash\necho "$*" >> "$LOG"\n'
        'if [ "$2" = download ]; then cp "$ARTIFACTS/$5/comment.md" "$7" 2>/dev/null; exit; fi\n'
        'case "$*" in *pulls*) echo 7;; *--paginate*) ;; *) cp comment.md "$POSTED";; esac\n'
    )
    gh.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    posted, log = tmp_path / "posted", tmp_path / "log"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=work,
        env={
            "PATH": f"{gh.parent}:/usr/bin:/bin", "RUN": "1", "FROM": source, "GH_REPO": "us/gpu",
            "HEAD": "x:y", "MARK": "<!-- mark -->", "LOG": str(log), "POSTED": str(posted),
            "ARTIFACTS": str(tmp_path / "artifacts"),
        },
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    calls = log.read_text()
    assert re.findall(r"run download 1 --name (\S+)", calls) == asked
    if first is None:
        assert not posted.exists()
        return
    text = posted.read_text()
    assert text.startswith("<!-- mark -->\n")
    assert first in text
    assert ("Written by the code of a fork" in text) is (source != "us/gpu")


def test_only_committed_stacks_are_rehearsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that lies beside them is of nobody's pull request."""
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    git(tmp_path, "init", "--quiet")
    (tmp_path / "Pulumi.dev.yaml").write_text("config: {}")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    (tmp_path / "Pulumi.yaml").write_text("name: gpu-cluster")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "two")
    (tmp_path / "Pulumi.mine.yaml").write_text("config: {}")
    assert changed.changed_lines("HEAD~1") == "code=true\nstacks=dev"


def test_what_changed_is_known_before_anything_is_installed() -> None:
    """The first job has a Python and nothing else."""
    command = [sys.executable, "-I", "-S", "-c"]
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    code = f"{path}; import gpu_cluster.stacks.definition.changed"
    assert subprocess.run([*command, code], capture_output=True, text=True).stderr == ""
