"""The project's two totals of lines: what goes beyond them is paid for by a removal (ADR 13)."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("files", "limit"),
    [(["*.py", ":!tests"], 108_900), (["tests/*.py"], 70_300)],
    ids=["outside tests", "tests"],
)
def test_the_total_of_lines_is_within_its_limit(files: list[str], limit: int) -> None:
    """Counted are the lines of Python in tracked files and in those about to be added."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *files],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    paths = [ROOT / name for name in names]
    total = sum(
        len(path.read_bytes().splitlines())
        for path in paths
        if path.is_file() and not path.is_symlink()
    )
    assert 20_000 < total <= limit
