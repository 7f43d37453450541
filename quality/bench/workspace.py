"""Programs in one sandbox, each with its own state, all with the same clouds."""

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Literal

from rehearsal.sandbox import Sandbox
from stacks.engine.pulumi import Pulumi

PROBE = Path(__file__).with_name("probe")
Operation = Literal["preview", "up"]


class Program:
    """A program folder with its own state, run by the sandbox's engine."""

    def __init__(self, sandbox: Sandbox, name: str, program: Path) -> None:
        self._folder = sandbox.folder / "bench" / name
        for part in ("home", "pulumi", "state"):
            (self._folder / part).mkdir(parents=True)
        self._pulumi = Pulumi(
            command=sandbox.engine.command,
            program=program,
            stack=sandbox.stack,
            environment={
                **sandbox.engine.environment,
                "HOME": str(self._folder / "home"),
                "PULUMI_HOME": str(self._folder / "pulumi"),
                "PULUMI_BACKEND_URL": f"file://{self._folder / 'state'}",
                # A user's program imports the SDKs itself; the rehearsal's fork server has them.
                "GPU_CLUSTER_PYTHON": sys.executable,
                "PYTHONPATH": str(PROBE),
                "BENCH_PROBE": str(self._folder / "probe.json"),
            },
        )
        self._pulumi.init()

    def load(self, deployment: Any) -> None:
        """Imports an exported state with secrets in plain text."""
        self._pulumi.load(deployment)

    def run(self, operation: Operation) -> dict[str, float]:
        """Returns the seconds of the whole command (`wall`) and of the program (`program`), and the
        program's peak memory in MiB (`memory`). Raises RuntimeError if the command fails or changes
        anything."""
        probe = self._folder / "probe.json"
        probe.unlink(missing_ok=True)
        flags = ["--parallel", "32", "--suppress-progress", "--color", "never"]
        flags += ["--yes", "--skip-preview"] if operation == "up" else []
        began = time.perf_counter()
        done = self._pulumi.run(operation, "--expect-no-changes", *flags)
        wall = time.perf_counter() - began
        if done.returncode:
            said = f"{done.stdout}\n{done.stderr}".strip()
            raise RuntimeError(f"pulumi {operation} in {self._folder}: {said[-3000:]}")
        return {"wall": wall, **json.loads(probe.read_text())}


def exported(sandbox: Sandbox) -> Any:
    """The sandbox's own state, with secrets in plain text."""
    return sandbox.engine.export(secrets=True)


def copied(sandbox: Sandbox, name: str) -> Path:
    """Creates another copy of the sandbox's program, which may be changed."""
    target = sandbox.folder / "bench" / f"{name}-program"
    shutil.copytree(sandbox.folder / "program", target, symlinks=True)
    return target
