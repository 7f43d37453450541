"""Operations on a rehearsal that was kept: query, change, update, recover."""

import os
import shlex
from pathlib import Path

from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.stacks.definition.files import ROOT
from gpu_cluster.stacks.definition.program import environment


def write_runner(sandbox: Sandbox) -> Path:
    """Writes a script to the rehearsal's folder that runs a command as the rehearsal runs the
    engine: with its backend, clouds and credentials, in its copy of the program."""
    engine = sandbox.engine
    found = [str(engine.command.parent), engine.environment["PATH"], str(environment(ROOT) / "bin")]
    given = {**engine.environment, "PATH": os.pathsep.join(found)}
    pairs = " ".join(shlex.quote(f"{name}={value}") for name, value in given.items())
    script = sandbox.folder / "run"
    script.touch(mode=0o700)
    script.write_text(
        "#!/bin/sh\n"
        f"cd {shlex.quote(str(engine.program))} || exit\n"
        f'exec env -i TERM="$TERM" {pairs} "$@"\n'
    )
    return script


def how_to_use(sandbox: Sandbox, script: Path, *, running: bool) -> str:
    """Commands to copy; `script` runs them."""
    stack, run = sandbox.stack, shlex.quote(str(script))
    kubeconfig = shlex.quote(str(sandbox.control_plane.kubeconfig))
    state = "It is running" if running else "It failed and was kept running"
    return (
        f"{state}, until `gpu-cluster down {stack}`. To inspect it:\n  export "
        f"KUBECONFIG={kubeconfig}\n  kubectl get nodes,pods "
        f"--all-namespaces\nTo change it, edit {sandbox.engine.program / f'Pulumi.{stack}.yaml'}, "
        f"and then:\n  {run} pulumi up --stack {stack}\nAfter an update that was killed:\n  "
        f"gpu-cluster recover {stack} --rehearsal"
    )
