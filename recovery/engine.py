"""The engine's command line, as recovery uses it."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recovery.state import Deployment
from stacks.engine import said


class RecoveryError(Exception):
    """The stack cannot be recovered as it is; one line that says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulumi:
    """How the engine is called for one stack."""

    command: Path
    program: Path
    """The folder of `Pulumi.yaml`."""
    stack: str
    environment: Mapping[str, str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = self._once(*arguments)
        if done.returncode and "EOF" in done.stderr and self._mend_files():
            done = self._once(*arguments)
        return done

    def _once(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._once_anywhere(*arguments, "--stack", self.stack)

    def _once_anywhere(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.command, *arguments, "--non-interactive"],
            cwd=self.program,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def must(self, *arguments: str) -> str:
        """Its standard output; raises RecoveryError with the engine's own words."""
        done = self.run(*arguments)
        if done.returncode:
            raise RecoveryError(f"pulumi {arguments[0]}: {said(done.stderr, done.stdout)}")
        return done.stdout

    def export(self) -> Deployment:
        deployment: Deployment = json.loads(self.must("stack", "export"))
        return deployment

    def _mend_files(self) -> bool:
        """Removes what a kill left half written in a backend of files; whether there was any.

        Beside each file lies one with its attributes, which is not written in one go: left empty,
        the state, itself whole, cannot be read. `file://...?metadata=skip` does without them.
        """
        url = json.loads(self._once_anywhere("whoami", "--json").stdout).get("url", "")
        if not url.startswith("file://"):
            return False
        folder = Path(url.removeprefix("file://").partition("?")[0]).expanduser() / ".pulumi"
        empty = [file for file in folder.rglob("*.attrs") if not file.stat().st_size]
        for file in empty:
            file.unlink()
        return bool(empty)
