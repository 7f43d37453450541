"""The engine for recovery: on a backend that a killed run may have left inconsistent."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from gpu_cluster.stacks.engine.pulumi import EngineError, Pulumi, errors, reason

_CONSEQUENCE = ("preview failed", "update failed", "an unhandled error occurred")


class RecoveryError(EngineError):
    """The stack cannot be recovered in its current state; one line that says what to do."""


class RecoveringPulumi(Pulumi):
    """Repairs the backend's files if the engine cannot read them."""

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        done = super().run(*arguments, **environment)
        if done.returncode and "EOF" in done.stderr and self._repair_files():
            done = super().run(*arguments, **environment)
        return done

    def preview(self) -> dict[str, Any]:
        """The output of `pulumi preview --json`; if it fails, raises RecoveryError with the errors,
        the cause first, after saving the whole output to a file."""
        done = self.run("preview", "--json")
        if not done.returncode:
            plan: dict[str, Any] = json.loads(done.stdout or "{}")
            return plan
        with tempfile.NamedTemporaryFile(
            "w", prefix="pulumi-preview-", suffix=".json", delete=False
        ) as file:  # Only this user can read the file.
            file.write(done.stdout or done.stderr)
        wrong = _causes_first(done.stdout) or [reason(done.stderr, "")]
        raise RecoveryError("\n".join([f"pulumi preview: {wrong[0]}", *wrong[1:],
                                       f"its complete output is in {file.name}"]))  # fmt: skip

    def backend_folder(self) -> Path | None:
        """The folder with the states of a file backend; None for any other backend."""
        url = json.loads(self.execute("whoami", "--json").stdout).get("url", "")
        if not url.startswith("file://"):
            return None
        return Path(url.removeprefix("file://").partition("?")[0]).expanduser() / ".pulumi"

    def _repair_files(self) -> bool:
        """Removes incomplete files from a file backend; returns whether there were any.

        Next to each file is one with attributes, not written atomically: if it is empty, the state,
        itself complete, cannot be read. `file://...?metadata=skip` does without them.
        """
        if (folder := self.backend_folder()) is None:
            return False
        empty = [file for file in folder.rglob("*.attrs") if not file.stat().st_size]
        for file in empty:
            file.unlink()
        return bool(empty)


def _causes_first(text: str) -> list[str]:
    """The errors in `pulumi preview --json`, one per line. A resource's error is the cause; the
    engine's own message that the preview failed comes last."""
    lines = [" ".join(error.split()).removeprefix("error: ") for error in errors(text)]
    unique = dict.fromkeys(line for line in lines if line)
    return sorted(unique, key=lambda line: line.startswith(_CONSEQUENCE))
