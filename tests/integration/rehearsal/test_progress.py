"""What a rehearsal says: plain lines in a pipe, colour and a status line on a terminal."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_cluster.rehearsal.report.progress import Progress

ROOT = Path(__file__).parents[3]
SCRIPT = """
import time
from gpu_cluster.rehearsal.report.progress import Progress
with Progress() as progress:
    progress.say("pulumi up ...")
    time.sleep(1.2)
    progress.say("  node a joined")
    progress.say("pulumi up: FAILED: no quota [red] :boom: (1.2 s)")
    progress.stop()
    progress.print("x" * 200)
"""


def shown(script: str = SCRIPT, **environment: str) -> str:
    """What the script writes to a terminal of 80 columns."""
    reading, writing = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT, stdout=writing,
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm", **environment},
    )  # fmt: skip
    os.close(writing)
    found = b""
    try:
        while part := os.read(reading, 4096):
            found += part
    except OSError:  # the end of a terminal
        assert child.wait() == 0
    return found.decode()


def test_in_a_pipe_each_line_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    """With the seconds since the start, and the steps that begin."""
    with Progress() as progress:
        progress.say("pulumi up ...")
        progress.say("  node a joined")
        progress.say("pulumi up: 3 created (1.2 s)")
        progress.print("[red]report[/red]", "bold")
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"^ +\d+\.\d s  ", "", line) for line in lines] == [
        "pulumi up ...",
        "  node a joined",
        "pulumi up: 3 created (1.2 s)",
        "[red]report[/red]",
    ]


def test_a_terminal_shows_the_step_and_its_time() -> None:
    """Below what has been said, and gone at the end; words in brackets stay what they are."""
    text = shown(NO_COLOR="")
    assert "pulumi up ..." not in text
    assert re.search(r"0:01  .*pulumi up, 0:01", text)
    assert "FAILED: no quota [red] :boom: (1.2 s)" in text
    assert "\x1b[31m" in text
    assert "x" * 200 in text


def test_no_color_is_respected() -> None:
    """The status line stays; nothing is coloured."""
    text = shown(NO_COLOR="1")
    assert "pulumi up, 0:01" in text
    assert not re.search(r"\x1b\[(?:\d+;)*3\dm", text)


def test_a_terminal_that_can_do_nothing_gets_plain_lines() -> None:
    """Such as an editor's."""
    assert "\x1b" not in shown(TERM="dumb")


def test_only_a_terminal_has_a_width() -> None:
    """What is read by programs, or by nobody yet, is not cut."""
    with Progress() as progress:
        assert progress.width is None
    script = (
        "from gpu_cluster.rehearsal.report.progress import Progress\n"
        "with Progress() as p: print(p.width)"
    )
    assert "80" in shown(script)
