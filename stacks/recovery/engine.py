"""The engine as recovery uses it: on a backend that a killed run has left half written."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from stacks.engine.pulumi import EngineError, Pulumi, errors, reason

_CONSEQUENCE = ("preview failed", "update failed", "an unhandled error occurred")


class RecoveryError(EngineError):
    """The stack cannot be recovered as it is; one line that says what to do."""


class RecoveringPulumi(Pulumi):
    """Repairs the backend's files where the engine cannot read them."""

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        done = super().run(*arguments, **environment)
        if done.returncode and "EOF" in done.stderr and self._repair_files():
            done = super().run(*arguments, **environment)
        return done

    def preview(self) -> dict[str, Any]:
        """What `pulumi preview --json` says; raises RecoveryError with what is wrong, the cause
        first, where it fails: all that it printed is then in a file."""
        done = self.run("preview", "--json")
        if not done.returncode:
            plan: dict[str, Any] = json.loads(done.stdout or "{}")
            return plan
        with tempfile.NamedTemporaryFile(
            "w", prefix="pulumi-preview-", suffix=".json", delete=False
        ) as file:  # readable only by this user
            file.write(done.stdout or done.stderr)
        wrong = _causes_first(done.stdout) or [reason(done.stderr, "")]
        raise RecoveryError("\n".join([f"pulumi preview: {wrong[0]}", *wrong[1:],
                                       f"its complete output is in {file.name}"]))  # fmt: skip

    def backend_folder(self) -> Path | None:
        """Where a backend of files has the states; None for any other backend."""
        url = json.loads(self.execute("whoami", "--json").stdout).get("url", "")
        if not url.startswith("file://"):
            return None
        return Path(url.removeprefix("file://").partition("?")[0]).expanduser() / ".pulumi"

    def _repair_files(self) -> bool:
        """Removes what a kill left half written in a backend of files; whether there was any.

        Beside each file lies one with its attributes, which is not written in one go: left empty,
        the state, itself whole, cannot be read. `file://...?metadata=skip` does without them.
        """
        if (folder := self.backend_folder()) is None:
            return False
        empty = [file for file in folder.rglob("*.attrs") if not file.stat().st_size]
        for file in empty:
            file.unlink()
        return bool(empty)


def _causes_first(text: str) -> list[str]:
    """The errors in `pulumi preview --json`, a line each. What a resource says is the cause; that
    the preview failed, which the engine adds, comes last."""
    lines = [" ".join(error.split()).removeprefix("error: ") for error in errors(text)]
    found = dict.fromkeys(line for line in lines if line)
    return sorted(found, key=lambda line: line.startswith(_CONSEQUENCE))
