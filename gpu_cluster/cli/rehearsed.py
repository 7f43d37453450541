"""Runs a command in a kept rehearsal."""

import signal
import subprocess

from gpu_cluster.stacks.definition.names import ROOT, not_kept


def in_rehearsal(command: str, stack: str, *options: str) -> int:
    """Runs a command with the backend, the clouds and the credentials of a kept rehearsal; returns
    its exit code. Raises StackError if none is kept."""
    from gpu_cluster.rehearsal.lock import is_running
    from gpu_cluster.stacks.capacity.stack_capacity import rehearsed_endpoint
    from gpu_cluster.stacks.definition.files import INSTEAD

    folder = ROOT / ".rehearsal" / stack
    script = folder / "run"
    if not script.exists() or not is_running(folder):
        raise not_kept(stack)
    words = [str(script), "env", f"{INSTEAD}={folder / 'program'}"]
    words += ["gpu-cluster", command, stack, *options]
    if endpoint := rehearsed_endpoint(stack):
        words += ["--endpoint", endpoint]
    # A terminal's Ctrl-C reaches the command itself, which may have something to clean up.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(words).returncode
    finally:
        signal.signal(signal.SIGINT, before)
