"""The table of how long onboarding takes, with other commands in the place of make's."""

import sys
from pathlib import Path

import pytest

from quality.bench import onboarding
from quality.bench.onboarding import Step, Took
from stacks.definition.names import StackError
from stacks.outcome import ExitCode


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two steps; the second begins with a home of its own."""
    (tmp_path / "first.sh").write_text("set -e; test ! -e ~/again; touch ~/again; test -e Makefile")
    (tmp_path / "second.sh").write_text(
        'set -e; test ! -e ~/again; test "$GPU_CLUSTER_CACHE" != ~/.cache/gpu-cluster'
    )
    monkeypatch.setattr(onboarding, "FILE", tmp_path / "bench" / "onboarding.json")
    monkeypatch.setattr(onboarding.os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(onboarding, "STEPS", (
        Step(name="first", command=f"sh {tmp_path}/first.sh", limit=60),
        Step(name="second", command=f"sh {tmp_path}/second.sh", limit=60, afresh=True),
    ))  # fmt: skip


@pytest.mark.usefixtures("steps")
def test_each_step_is_timed_in_the_home_that_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """And the table keeps what an earlier run measured of another revision."""
    onboarding.FILE.parent.mkdir()
    onboarding.FILE.write_text('{"older": {"first": {"seconds": 700.4, "cpu": 1200}}}')
    assert onboarding.bench([], docs=False) is ExitCode.OK
    *_, head, _, first, second, _, file = capsys.readouterr().out.splitlines()
    assert head.startswith("|  | limit | older | ")
    assert first.startswith("| first | 60 s | 700 s (1200 s) | 0 s (0 s) |")
    assert second.startswith("| second | 60 s |  | 0 s (0 s) |")
    assert file == str(onboarding.FILE)


@pytest.mark.usefixtures("steps")
def test_a_missed_limit_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last revision counts."""
    slow = {step.name: Took(seconds=61, cpu=1) for step in onboarding.STEPS}
    monkeypatch.setattr(onboarding, "measure", lambda revision, python: slow)
    assert onboarding.bench(["HEAD"], docs=False) is ExitCode.FINDING


def test_a_step_that_fails_says_why(tmp_path: Path) -> None:
    """With the end of what it printed."""
    (tmp_path / "clone").mkdir()
    with pytest.raises(StackError, match="no-such-target"):
        onboarding._run(
            f"{sys.executable} -c raise(SystemExit('no-such-target'))",
            tmp_path / "clone",
            {},
            sys.executable,
        )


@pytest.mark.usefixtures("steps")
def test_an_unknown_revision_is_one_line() -> None:
    """Before anything is cloned."""
    with pytest.raises(StackError, match="there is no revision v9"):
        onboarding.bench(["v9"], docs=False)
