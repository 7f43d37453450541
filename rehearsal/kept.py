"""What people can do with a rehearsal that was kept: look, change, update, recover."""

import os
import shlex
from pathlib import Path

from components.platforms import PLATFORMS
from rehearsal.sandbox import Sandbox
from stacks.files import ROOT


def write_runner(folder: Path, program: Path, pulumi: Path, environment: dict[str, str]) -> Path:
    """A script in the rehearsal's folder that runs a command as the rehearsal runs the engine: with
    its backend, its clouds and its credentials, in its copy of the program."""
    path = os.pathsep.join([str(pulumi.parent), environment["PATH"], str(ROOT / ".venv" / "bin")])
    given = {**environment, "PATH": path}
    pairs = " ".join(shlex.quote(f"{name}={value}") for name, value in given.items())
    script = folder / "run"
    script.touch(mode=0o700)
    script.write_text(
        "#!/bin/sh\n"
        f"cd {shlex.quote(str(program))} || exit\n"
        f'exec env -i TERM="$TERM" {pairs} "$@"\n'
    )
    return script


def how_to_use(sandbox: Sandbox, *, running: bool) -> str:
    """Commands to copy, once `write_runner` has written what they run."""
    engine, stack = sandbox.engine, sandbox.stack
    script = write_runner(sandbox.folder, engine.program, engine.command, engine.environment)
    run = shlex.quote(str(script))
    state = "It is running" if running else "It failed and is left as it is"
    recover = ""
    # Recovery asks a cloud by its own client: it finds a simulated AWS, and no simulated Google.
    if (cloud := PLATFORMS[sandbox.platform].cloud) != "google":
        endpoint = f" --endpoint {sandbox.cloud_api}" if cloud else ""
        recover = (
            f"\nAfter an update that was killed:\n  {run} gpu-cluster recover {stack}{endpoint}"
        )
    return (
        f"{state}, until `gpu-cluster down {stack}`. To look around:\n"
        f"  export KUBECONFIG={sandbox.control_plane.kubeconfig}\n"
        "  kubectl get nodes,pods --all-namespaces\n"
        f"To change it, edit {engine.program / f'Pulumi.{stack}.yaml'}, and then:\n"
        f"  {run} pulumi up --stack {stack}{recover}"
    )
