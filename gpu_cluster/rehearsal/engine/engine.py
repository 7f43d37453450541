"""Runs the real `pulumi` CLI on a copy of the program, against simulated clouds."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_cluster import tools
from gpu_cluster.rehearsal import processes
from gpu_cluster.rehearsal.engine import secrets_key
from gpu_cluster.rehearsal.engine.fork_server import launcher
from gpu_cluster.rehearsal.processes import kill_tree, spawn_supervised
from gpu_cluster.stacks.engine.operation import Outcome as Outcome
from gpu_cluster.stacks.engine.operation import operate
from gpu_cluster.stacks.engine.pulumi import Pulumi
from gpu_cluster.stacks.engine.state import Row, in_backend

BIN = Path(__file__).with_name("bin")
"""Credential plugins that return the rehearsal's token."""


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
        base = processes.base_env()
        path = [BIN, *in_front, *plugins, base.get("PATH", os.defpath)]
        own = {
            **base,
            "PATH": os.pathsep.join(map(str, path)),
            "HOME": str(folder / "home"),
            # The language host looks for its executor in the cache, and HOME is not the usual one.
            "GPU_CLUSTER_CACHE": str(tools.programs.cache_folder()),
            "PULUMI_HOME": str(folder / "pulumi"),
            "PULUMI_BACKEND_URL": (folder / "state").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "rehearsal",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
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
        flags = ["--parallel", "32", *more]
        if policy_pack is not None:
            flags += ["--policy-pack", str(policy_pack)]
        return operate(self, operation, log, flags,
                       start=self._start, end=self._end, on_event=self._on_event)  # fmt: skip

    def _start(self, command: Sequence[str | Path], **options: Any) -> subprocess.Popen[bytes]:
        self._process = spawn_supervised(command, **options)
        return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """The rehearsal itself is being stopped."""
        self.interrupt()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _python(program: Path) -> Path:
    """The program's interpreter; if it is this one, a launcher with the SDKs already imported."""
    own = program / ".venv"
    return launcher() if own.resolve() == Path(sys.prefix).resolve() else own / "bin" / "python"


def run_in_thread(run: Callable[[], Outcome]) -> tuple[threading.Thread, list[Outcome]]:
    """Starts a run of the engine in a thread; the list has its outcome once the thread ends."""
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run()), name="engine", daemon=True)
    thread.start()
    return thread, outcomes
