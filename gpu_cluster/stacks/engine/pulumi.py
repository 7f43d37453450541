"""The only driver of the engine's command line: its arguments, and the reasons for its errors.

`rehearsal.engine.engine` adds events and killing, `stacks.recovery.engine` the repair of a backend.

Why not `pulumi.automation` (tried with 3.259, `onprem` on 2 busy cores): each of its `up`s queries
the outputs twice and the history, 1.5 to 2.0 s in addition to 4.1 to 4.8 s, and reading an output
takes two commands instead of one; it selects the stack, so that the user's next `pulumi up` applies
to another one than before; it exports a state with its secrets in plain text, and writes those to a
file to import it; its command adds this process's environment, with its cloud credentials, and can
be neither killed nor interrupted; an operation that its events do not list is an error. With all
that overridden, only the flags of four commands would be left to it.
"""

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gpu_cluster import tools
from gpu_cluster.stacks.engine.state import Deployment

LONGEST_LINE = 500
"""Maximum length of a readable line."""
_INSTALL = "https://www.pulumi.com/docs/install"
_SIGN_IN = "run `pulumi login`"
_REMEDIES = (
    ("PULUMI_ACCESS_TOKEN must be set", f"you are not signed in to a backend: {_SIGN_IN}"),
    ("passphrase must be set", "set PULUMI_CONFIG_PASSPHRASE, the passphrase of the backend"),
)
"""Part of the engine's message -> what to do."""


class EngineError(Exception):
    """The engine failed; one line that says why, or what to do."""


@dataclass(kw_only=True)
class Pulumi:
    """How the engine is called for one stack."""

    command: Path
    program: Path
    """The folder of `Pulumi.yaml`."""
    stack: str
    environment: dict[str, str]
    """The engine's whole environment: nothing of this process's own is added."""
    seconds: float | None = None
    """Timeout of a command; None for no limit."""
    secrets_provider: str = "passphrase"
    """What encrypts the secrets of a stack that `init` creates."""

    @classmethod
    def signed_in(cls, program: Path, stack: str, *, seconds: float | None = None) -> Self:
        """The engine with the user's environment. Raises EngineError if there is none."""
        try:
            command, in_front = tools.pulumi()
        except tools.ToolError:
            raise EngineError(f"pulumi is not on PATH; install it: {_INSTALL}") from None
        path = os.pathsep.join([*map(str, in_front), os.environ.get("PATH", os.defpath)])
        environment = {**os.environ, "PATH": path, "PULUMI_SKIP_UPDATE_CHECK": "true"}
        return cls(
            command=command, program=program, stack=stack, environment=environment, seconds=seconds
        )

    def execute(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs one command; `environment` is added to its own. Raises EngineError after a
        timeout."""
        try:
            return subprocess.run(
                [self.command, *arguments, "--non-interactive"],
                cwd=self.program,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=self.seconds,
            )
        except subprocess.TimeoutExpired:
            command = " ".join(arguments[:2])
            raise EngineError(
                f"pulumi {command}: no response within {self.seconds:.0f} s"
            ) from None

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a command on the stack."""
        return self.execute(*arguments, "--stack", self.stack, **environment)

    def must(self, *arguments: str) -> str:
        """Returns its standard output; raises EngineError with the engine's own message."""
        return self._output(self.run(*arguments), arguments[0])

    def init(self) -> None:
        """Creates the stack, empty."""
        command = ("stack", "init", self.stack, "--secrets-provider", self.secrets_provider)
        self._output(self.execute(*command), "stack init")

    def export(self) -> Deployment:
        """The state, with encrypted secrets."""
        deployment: Deployment = json.loads(self.must("stack", "export"))
        return deployment

    def write(self, deployment: Deployment) -> subprocess.CompletedProcess[str]:
        """Replaces the state, through a file that only this user can read."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(deployment, file)
            file.flush()
            return self.run("stack", "import", "--file", file.name)

    def load(self, deployment: Deployment) -> None:
        """Replaces the state; raises EngineError with the engine's own message."""
        self._output(self.write(deployment), "stack import")

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs, with secrets in plain text."""
        outputs: dict[str, Any] = json.loads(
            self.must("stack", "output", "--json", "--show-secrets")
        )
        return outputs

    def _output(self, done: subprocess.CompletedProcess[str], command: str) -> str:
        if done.returncode:
            raise EngineError(f"pulumi {command}: {reason(done.stderr, done.stdout)}")
        return done.stdout


def remedy(text: str) -> str:
    """What to do about the engine's message; empty if that is not known."""
    how = next((how for part, how in _REMEDIES if part in text), "")
    # The engine that a rehearsal has built is on nobody's PATH.
    install = "" if shutil.which("pulumi") else f"install Pulumi ({_INSTALL}), then "
    return how.replace(_SIGN_IN, f"{install}{_SIGN_IN}")


def reason(stderr: str, stdout: str = "") -> str:
    """One line: why the engine failed, from its output, which may be JSON (`preview --json`)."""
    text = "; ".join(errors(stdout)) or stderr or stdout
    line = " ".join(text.split()).removeprefix("error: ")
    if how := remedy(line):
        return how
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE].rstrip()} ..."


def errors(stdout: str) -> list[str]:
    """The errors among the diagnostics of JSON output; empty if it is something else."""
    try:
        document = json.loads(stdout)
    except ValueError:
        return []
    diagnostics: Any = document.get("diagnostics") if isinstance(document, dict) else None
    lines = diagnostics if isinstance(diagnostics, list) else []
    return [str(line.get("message", "")) for line in lines if line.get("severity") == "error"]
