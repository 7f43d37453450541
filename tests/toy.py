"""A copy of the tree with one platform more: `fixtures/toy`, a folder, and a row of the table."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from stacks.files import INSTEAD, ROOT

TOY = ROOT / "tests" / "fixtures" / "toy"
ROW = """    "toy": Platform(
        title="Toy",
        folder="toy",
        cloud="toy",
        cost="stacks.cost.toy",
        capacity="stacks.capacity.toy",
        rehearsal="rehearsal.platforms.toy",
    ),
"""
_ROOMS = ("cli", "components", "policy", "rehearsal", "stacks", "tools")


def tree(folder: Path) -> tuple[Path, list[str]]:
    """The copy, and which of the files that were there before the platform changed for it."""
    copy = folder / "tree"
    ignored = shutil.ignore_patterns("__pycache__", "tests")
    for room in _ROOMS:
        shutil.copytree(ROOT / room, copy / room, ignore=ignored)
    for name in ("Pulumi.yaml", "__main__.py", "requirements.txt"):
        shutil.copy2(ROOT / name, copy / name)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    before = _contents(copy)
    shutil.copytree(TOY, copy, dirs_exist_ok=True, ignore=ignored)
    table = copy / "components" / "platforms.py"
    head, end, tail = table.read_text().rpartition("})")
    table.write_text(head + ROW + end + tail)
    after = _contents(copy)
    return copy, [name for name, content in before.items() if after[name] != content]


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for room in (".", *_ROOMS)
        for path in (folder / room).glob("*" if room == "." else "**/*")
        if path.is_file()
    }


def python(copy: Path, *arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs Python in the copy; after so long, it and all that it started are killed."""
    environment = {key: value for key, value in os.environ.items() if key != INSTEAD}
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=copy,
        env={**environment, "PYTHONPATH": str(copy)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
