"""Every command that a page shows is one that there is."""

import subprocess
from pathlib import Path

import pytest

from tests import getting_started
from tools.sections import ROOT


@pytest.mark.parametrize("page", getting_started.PAGES, ids=lambda page: page.stem)
def test_every_make_target_is_there(page: Path) -> None:
    """`make -n` knows it, with the variables that it is given."""
    for command in getting_started.commands(page):
        if command.words[0] == "make":
            done = subprocess.run(
                ["make", "-n", "-o", ".venv/.ready", *command.words[1:]],
                cwd=ROOT,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
