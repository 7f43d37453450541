"""A rehearsal that was kept can be changed, updated and recovered by commands that it prints."""

import json
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from gpu_cluster.cli.main import main
from gpu_cluster.rehearsal.kept import how_to_use, write_runner
from gpu_cluster.rehearsal.lock import take_over
from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.stacks.definition.files import INSTEAD
from gpu_cluster.stacks.outcome import ExitCode


def kept(folder: Path, api: str | None) -> Sandbox:
    """A sandbox as far as its commands are concerned, with an engine that prints its backend."""
    (program := folder / "program").mkdir()
    (pulumi := folder / "bin" / "pulumi").parent.mkdir()
    pulumi.write_text("#!/bin/sh\necho $PULUMI_BACKEND_URL $PWD $HOME $SECRET $*\n")
    pulumi.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "PULUMI_BACKEND_URL": "file:///it's", "HOME": "/h"}
    engine = SimpleNamespace(program=program, command=pulumi, environment=environment)
    control_plane = SimpleNamespace(kubeconfig=folder / "kubeconfig")
    return cast(
        "Sandbox",
        SimpleNamespace(
            folder=folder, stack="a", engine=engine, cloud_api=api,
            control_plane=control_plane,
        ),
    )  # fmt: skip


def test_the_engine_runs_as_in_the_rehearsal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On its backend and its clouds alone, wherever the person stands; nobody else may read it."""
    monkeypatch.setenv("SECRET", "of the person's own shell")
    sandbox = kept(tmp_path, "http://127.0.0.1:1")
    said = how_to_use(sandbox, write_runner(sandbox), running=True)
    (line,) = (line for line in said.splitlines() if "pulumi up" in line)
    done = subprocess.run(["sh", "-c", line], cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout == f"file:///it's {tmp_path / 'program'} /h up --stack a\n"
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


def test_recovery_is_one_command_that_asks_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the rehearsal's backend and cloud, and with the exit code of what it runs."""
    said = how_to_use(kept(tmp_path, None), tmp_path / "run", running=False)
    assert said.startswith("It failed and was kept running, until `gpu-cluster down a`.")
    assert said.endswith("After an update that was killed:\n  gpu-cluster recover a --rehearsal")
    for module in ("gpu_cluster.cli.rehearsed", "gpu_cluster.stacks.capacity.stack_capacity"):
        monkeypatch.setattr(f"{module}.ROOT", tmp_path)
    assert main(["recover", "dev", "--rehearsal"]) == ExitCode.UNKNOWN
    assert "no rehearsal of dev is kept" in capfd.readouterr().err
    unlock = take_over(tmp_path / ".rehearsal" / "dev", "dev", kept=True)
    script = tmp_path / ".rehearsal" / "dev" / "run"
    script.write_text("#!/bin/sh\necho $*\nexit 2\n")
    script.chmod(0o700)
    with socket.create_server(("127.0.0.1", 0)) as cloud:
        url = f"http://127.0.0.1:{cloud.getsockname()[1]}"
        script.with_name("sandbox.json").write_text(json.dumps({"cloudApi": url}))
        assert main(["recover", "dev", "--rehearsal", "--yes"]) == ExitCode.UNKNOWN
    program = f"{INSTEAD}={script.with_name('program')}"
    ran = f"env {program} gpu-cluster recover dev --yes --endpoint {url}\n"
    assert capfd.readouterr().out == ran
    unlock()
    assert main(["recover", "dev", "--rehearsal"]) == ExitCode.UNKNOWN
    assert "no rehearsal of dev is kept" in capfd.readouterr().err
