"""What a killed run leaves in the state, and what recovery makes of it."""

import socket
import subprocess

import pytest

from gpu_cluster.stacks.recovery import lock
from gpu_cluster.stacks.recovery.command import recover
from tests.unit.stacks.test_recovery import FakePulumi, Nobody, locked, state


def test_the_lock_of_a_dead_run_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the container that it ran in nobody is asked. Its last words may have come late, so the
    state is read again after that, and once more for what failed in the cloud."""
    monkeypatch.setattr(lock, "_own_container", socket.gethostname)
    child = subprocess.Popen(["true"])
    child.wait()
    pulumi = FakePulumi(state(), url="{}", **{"stack import": locked(child.pid)})
    said: list[str] = []
    recover(pulumi, clouds=Nobody(), confirm_unlock=lambda holder: False, log=said.append)
    assert [" ".join(call) for call in pulumi.calls] == [
        "stack export", "stack import", "whoami --json", "cancel --yes", "stack export",
        "stack import", "stack export",
    ]  # fmt: skip
    assert f"(pid {child.pid})" in said[0]
