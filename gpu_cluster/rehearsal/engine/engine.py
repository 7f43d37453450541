"""Runs the real `pulumi` CLI on a copy of the program, against simulated clouds."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_cluster import tools
from gpu_cluster.rehearsal import processes
from gpu_cluster.rehearsal.engine import secrets_key
from gpu_cluster.rehearsal.engine.fork_server import launcher
from gpu_cluster.rehearsal.processes import kill_tree, spawn_supervised
from gpu_cluster.stacks.engine.pulumi import Pulumi
from gpu_cluster.stacks.engine.state import ROOT_TYPE, Row, in_backend
from gpu_cluster.stacks.engine.urn import Urn

BIN = Path(__file__).with_name("bin")
"""Credential plugins that return the rehearsal's token."""

_WRAPPED = re.compile(r"^(?:1 error occurred:\s+\* |creating urn:pulumi:\S+: )+")
"""Prefixes that a provider and the engine put before the reason when a create fails partway."""

QUIET = frozenset({"same", "read", "refresh"})
"""Operations that change nothing."""

HINTS = (
    "preview failed",
    "update failed",
    "destroy failed",
    "refresh failed",
    "an unhandled error occurred: Program exited with non-zero exit code: 1",
)
"""Text that the engine adds to an error without giving a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one run of the engine."""

    operation: str
    ok: bool
    seconds: float
    changes: Mapping[str, int] = field(default_factory=dict)
    """Operation (`create`, `same`, `replace`, ...) -> number of resources."""
    resources: tuple[tuple[str, str], ...] = ()
    """(operation, URN) of each changed resource, in the order of the changes."""
    errors: tuple[str, ...] = ()
    """Errors of the engine and the program, as the user sees them."""
    warnings: tuple[str, ...] = ()

    @property
    def changed(self) -> int:
        """How many resources were created, updated, replaced or deleted."""
        return sum(count for what, count in self.changes.items() if what not in QUIET)


class Engine(Pulumi):
    """The engine, with its state, home and environment in one folder."""

    def __init__(
        self,
        folder: Path,
        program: Path,
        stack: str,
        *,
        providers: Mapping[str, int],
        token_file: Path,
        mark: str,
        plugins: tuple[Path, ...] = (),
        environment: Mapping[str, str] | None = None,
        on_event: Callable[[str, str, str], None] = lambda operation, what, urn: None,
    ) -> None:
        self._folder = folder
        self._on_event = on_event
        """Called with the command, the operation on a resource and its URN, once it is done."""
        self._process: subprocess.Popen[bytes] | None = None
        self._runs = 0
        command, in_front = tools.pulumi()
        for name in ("home", "pulumi", "state"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        # In a folder of this name the engine writes down, encrypted, each of its steps with all
        # properties, which takes up to a fifth of its time. It goes on if it cannot.
        (folder / "pulumi" / "logs").touch()
        kept = processes.kept()
        path = [BIN, *in_front, *plugins, kept.get("PATH", os.defpath)]
        own = {
            **kept,
            "PATH": os.pathsep.join(map(str, path)),
            "HOME": str(folder / "home"),
            # The language host looks for its executor in the cache, and HOME is not the usual one.
            "GPU_CLUSTER_CACHE": str(tools.programs.cache_folder()),
            "PULUMI_HOME": str(folder / "pulumi"),
            "PULUMI_BACKEND_URL": (folder / "state").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "rehearsal",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DEBUG_COMMANDS": "true",  # shows --event-log
            "PULUMI_DEBUG_PROVIDERS": ",".join(
                f"{name}:{port}" for name, port in providers.items()
            ),
            "GPU_CLUSTER_PYTHON": str(_python(program)),
            "REHEARSAL_TOKEN_FILE": str(token_file),
            "REHEARSAL": mark,
            **secrets_key.environment(),
            **(environment or {}),
        }
        super().__init__(command=command, program=program, stack=stack, environment=own)
        self.secrets_provider = secrets_key.PROVIDER

    def preview(self, policy_pack: Path | None = None) -> Outcome:
        """`pulumi preview`, with a policy pack if given."""
        return self._operate("preview", policy_pack)

    def up(self, policy_pack: Path | None = None, *, refresh: bool = False) -> Outcome:
        """`pulumi up`; with `refresh`, first reads the actual state of clouds and cluster."""
        return self._operate("up", policy_pack, *(["--refresh"] if refresh else []))

    def refresh(self) -> Outcome:
        """`pulumi refresh`."""
        return self._operate("refresh")

    def destroy(self) -> Outcome:
        """`pulumi destroy`."""
        return self._operate("destroy")

    def resources(self) -> list[Row]:
        """The resources in the state, read from its file."""
        return in_backend(self._folder / "state", self.stack)

    def version(self) -> str:
        """The engine's version; also works after the sandbox is gone."""
        done = subprocess.run(
            [self.command, "version"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    @property
    def working(self) -> bool:
        """Whether a command is running."""
        return self._process is not None and self._process.poll() is None

    def interrupt(self) -> None:
        """Asks a running command to stop, as Ctrl-C does; a second call aborts it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kills a running command and everything it started (SIGKILL), as a power failure would."""
        if self._process is not None and self._process.poll() is None:
            kill_tree(self._process.pid)

    def _operate(self, operation: str, policy_pack: Path | None = None, *more: str) -> Outcome:
        self._runs += 1
        log = self._folder / "logs" / f"pulumi-{self._runs}-{operation}.log"
        events = log.with_suffix(".events.jsonl")
        log.parent.mkdir(parents=True, exist_ok=True)
        events.touch()
        flags = ["--stack", self.stack, "--non-interactive", "--parallel", "32", *more]
        flags += ["--event-log", str(events), "--suppress-progress", "--color", "never"]
        if operation != "preview":
            flags += ["--yes", "--skip-preview"]
        if policy_pack is not None:
            flags += ["--policy-pack", str(policy_pack)]
        reader = _EventReader(operation, events, self._on_event)
        started = time.monotonic()
        with log.open("wb") as output:
            self._process = spawn_supervised(
                [self.command, operation, *flags],
                cwd=self.program,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            while self._process.poll() is None:
                reader.read()
                time.sleep(0.05)
        finally:
            if self._process.poll() is None:  # the rehearsal itself is being stopped
                self.interrupt()
                try:
                    self._process.wait(2)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
        reader.read()
        errors = reasons(reader.errors)
        if self._process.returncode and not errors:
            errors = [log.read_text(errors="replace").strip() or "pulumi said nothing"]
        return Outcome(
            operation=operation,
            ok=self._process.returncode == 0,
            seconds=round(time.monotonic() - started, 2),
            changes=reader.changes,
            resources=tuple(reader.resources),
            errors=tuple(errors),
            warnings=tuple(dict.fromkeys(reader.warnings)),
        )


def reasons(errors: Sequence[str]) -> list[str]:
    """The errors that give a reason, without repetitions; if none does, all errors."""
    return [error for error in dict.fromkeys(errors) if error not in HINTS] or [*errors]


class _EventReader:
    """Follows the engine's event log while the engine writes it."""

    def __init__(
        self, operation: str, file: Path, on_event: Callable[[str, str, str], None]
    ) -> None:
        self._operation = operation
        self._file = file.open("rb")
        self._on_event = on_event
        self._rest = b""
        self.changes: dict[str, int] = {}
        self.resources: list[tuple[str, str]] = []
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def read(self) -> None:
        """Processes the events written since the last call."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            if line.strip():
                self._take(json.loads(line))

    def _take(self, event: Mapping[str, Any]) -> None:
        if done := event.get("resOutputsEvent") or event.get("resOpFailedEvent"):
            metadata = done["metadata"]
            failed = "resOpFailedEvent" in event
            what = f"{metadata['op']} failed" if failed else metadata["op"]
            # A component is reported again when it registers its outputs.
            known = (what, metadata["urn"]) in self.resources
            if metadata["op"] not in QUIET and not known:
                self.resources.append((what, metadata["urn"]))
                self._on_event(self._operation, what, metadata["urn"])
        elif diagnostic := event.get("diagnosticEvent"):
            message = diagnostic["message"].strip()
            if diagnostic["severity"] == "error" and message:
                self.errors.append(_with_subject(diagnostic.get("urn"), message))
            elif diagnostic["severity"] == "warning" and message:
                self.warnings.append(_with_subject(diagnostic.get("urn"), message))
        elif policy := event.get("policyEvent"):
            # The message begins with the policy's description.
            found = policy["message"].strip().rpartition("\n")[2]
            text = f"policy {policy['policyName']}: {found}"
            kept = self.errors if policy["enforcementLevel"] == "mandatory" else self.warnings
            kept.append(_with_subject(policy.get("resourceUrn"), text))
        elif summary := event.get("summaryEvent"):
            self.changes = dict(summary.get("resourceChanges") or {})


def _python(program: Path) -> Path:
    """The program's interpreter; if it is this one, a launcher with the SDKs already imported."""
    own = program / ".venv"
    return launcher() if own.resolve() == Path(sys.prefix).resolve() else own / "bin" / "python"


def _with_subject(urn: str | None, message: str) -> str:
    if not urn:
        return message
    of = Urn.parse(urn)
    message = _WRAPPED.sub("", message)
    return message if of.type == ROOT_TYPE else f"{of.label}: {message}"


def run_in_thread(run: Callable[[], Outcome]) -> tuple[threading.Thread, list[Outcome]]:
    """Starts a run of the engine in a thread; the list has its outcome once the thread ends."""
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run()), name="engine", daemon=True)
    thread.start()
    return thread, outcomes
