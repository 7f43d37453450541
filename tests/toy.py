"""Copies of the tree with one platform more, or one block of settings more."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.stacks.definition.files import INSTEAD, ROOT

_ROOMS = ("components", "gpu_cluster", "policy", "quality")
_FIXTURES = ROOT / "tests" / "fixtures"
POLICIES = _FIXTURES / "toy_policies.json"
"""The machines of the toy always run, which the policies allow its stacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Something that a contributor adds."""

    folder: Path
    """Its new files, as they lie in the tree."""
    rows: Mapping[str, tuple[str, str]]
    """File -> the text before which a row is inserted, and the row."""

    def add(self, copy: Path) -> tuple[list[str], list[str]]:
        """Adds it to a copy of the tree; returns the new files, and the files that changed."""
        before = _contents(copy)
        shutil.copytree(self.folder, copy, dirs_exist_ok=True, ignore=_IGNORED)
        for name, (place, row) in self.rows.items():
            head, found, tail = (copy / name).read_text().partition(place)
            assert found, f"{name} has no {place!r}"
            (copy / name).write_text(head + row + found + tail)
        after = _contents(copy)
        changed = [name for name, content in before.items() if after[name] != content]
        return sorted(after.keys() - before.keys()), changed


PLATFORM = Addition(
    folder=_FIXTURES / "toy",
    rows={
        "components/platforms.py": (
            '})  # fmt: skip\n"""`cluster.platform`',
            """    "toy": Platform(
        title="Toy",
        folder="toy",
        cloud="toy",
        cost="gpu_cluster.stacks.cost.toy",
        capacity="gpu_cluster.stacks.capacity.toy",
        environment="gpu_cluster.stacks.environments.toy",
        rehearsal="gpu_cluster.rehearsal.platforms.toy",
    ),
""",
        ),
        "components/catalog/clouds.py": (
            '})  # fmt: skip\n"""The cloud\'s name',
            """    "toy": Cloud(
        title="Toy",
        package="toy",
        cluster="toy:index:Cluster",
        node_pool="toy:index:Pool",
        price_region="toy",
        endpoint="TOY_ENDPOINT",
        recovers="gpu_cluster.stacks.recovery.toy",
        policies=("gpu_cluster.policy.toy",),
        command="toyctl",
        arguments=Arguments(words=("token",)),
        install="buy toyctl",
        creates={},
    ),
""",
        ),
    },
)
BLOCK = Addition(
    folder=_FIXTURES / "toy_block",
    rows={
        "components/settings/blocks.py": (
            '})  # fmt: skip\n"""Key -> the block',
            """    "sites": RunningBlock(
        args=import_module("gpu_cluster.components.batch.site_args").SiteArgs,
        page="workloads",
        names=[DNS_LABEL],
        read=import_module("gpu_cluster.components.batch.site_args").read_sites,
        module="gpu_cluster.components.batch.site",
    ),
""",
        )
    },
)
_IGNORED = shutil.ignore_patterns("__pycache__", "tests")


def tree(folder: Path) -> Path:
    """A copy of the tree."""
    copy = folder / "tree"
    for room in _ROOMS:
        shutil.copytree(ROOT / room, copy / room, symlinks=True, ignore=_IGNORED)
    for name in ("Pulumi.yaml", "__main__.py", "requirements.txt"):
        shutil.copy2(ROOT / name, copy / name)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    return copy


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for room in (".", *_ROOMS)
        for path in (folder / room).glob("*" if room == "." else "**/*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _started(
    copy: Path, *arguments: str, stdin: int | None = None, stderr: int | None = None
) -> subprocess.Popen[str]:
    """Python in the copy."""
    environment = {key: value for key, value in os.environ.items() if key != INSTEAD}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=copy,
        env={**environment, "PYTHONPATH": str(copy), "GPU_CLUSTER_POLICY_SETTINGS": str(POLICIES)},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
    )


SERVE = """
import contextlib, io, json, sys
from gpu_cluster.cli.main import main
for line in sys.stdin:
    asked, printed, said = json.loads(line), io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        code = exec(asked, {}) if isinstance(asked, str) else main(asked)
    print(json.dumps([int(code or 0), printed.getvalue(), said.getvalue()]), flush=True)
"""


class Session:
    """Python in a copy, which has imported there what commands need; it ends with its input."""

    def __init__(self, copy: Path) -> None:
        self.copy = copy
        self._process = _started(copy, "-c", SERVE, stdin=subprocess.PIPE)

    def close(self) -> None:
        self._process.communicate(timeout=60)

    def run(self, asked: str | list[str]) -> tuple[int, str, str]:
        """Exit code, output and errors of a command's arguments, or of a program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        code, printed, said = json.loads(self._process.stdout.readline())
        return code, printed, said


def python(copy: Path, *arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs Python in the copy; after so long, it and all that it started are killed."""
    with _started(copy, *arguments, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
