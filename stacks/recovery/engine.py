"""The engine's command line, as recovery uses it."""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stacks.engine import said
from stacks.state import Deployment


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

    def preview(self) -> dict[str, Any]:
        """What `pulumi preview --json` says; raises RecoveryError with what is wrong, the cause
        first, where it fails: all that it printed is then in a file."""
        done = self.run("preview", "--json")
        if not done.returncode:
            plan: dict[str, Any] = json.loads(done.stdout or "{}")
            return plan
        with tempfile.NamedTemporaryFile(
            "w", prefix="pulumi-preview-", suffix=".json", delete=False
        ) as file:  # readable by this user alone
            file.write(done.stdout or done.stderr)
        wrong = _errors(done.stdout) or [said(done.stderr, "")]
        raise RecoveryError("\n".join([f"pulumi preview: {wrong[0]}", *wrong[1:],
                                       f"all that it printed is in {file.name}"]))  # fmt: skip

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


def _errors(text: str) -> list[str]:
    """The diagnostics of severity error in `pulumi preview --json`, a line each. What a resource
    says is the cause; that the preview failed, which the engine adds, comes last."""
    try:
        diagnostics = json.loads(text).get("diagnostics") or ()
    except (ValueError, AttributeError):
        return []
    found = [each for each in diagnostics if each.get("severity") == "error"]
    lines = [" ".join(str(each.get("message", "")).split()) for each in found]
    lines = [line.removeprefix("error: ") for line in lines if line]
    return sorted(dict.fromkeys(lines), key=lambda line: line.startswith(_CONSEQUENCE))


_CONSEQUENCE = ("preview failed", "update failed", "an unhandled error occurred")
