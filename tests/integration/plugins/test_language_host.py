"""The language host, with a script in the place of the official executor."""

import os
import subprocess
import sys

from gpu_cluster.rehearsal.sandbox import ROOT


def test_it_is_started_without_the_rest_of_the_sdk() -> None:
    """The starter runs nothing of the SDK but the engine's messages, and says its port."""
    started = subprocess.Popen(
        [ROOT / "gpu_cluster" / "tools" / "bin" / "gpu-cluster-language-host", "127.0.0.1:2"],
        env={**os.environ, "GPU_CLUSTER_PYTHON": sys.executable, "PYTHONPROFILEIMPORTTIME": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert int(started.stdout.readline()) > 0
    started.terminate()
    _, said = started.communicate(timeout=30)
    imported = {line.rpartition("|")[2].strip() for line in said.splitlines()}
    assert "pulumi.runtime.proto.language_pb2" in imported
    assert not {"pulumi", "pulumi.output", "pulumi.runtime.stack"} & imported


def test_it_ends_whenever_it_is_told_to() -> None:
    """Also while it looks whether its engine runs: here it does nothing else."""
    script = (
        "import time; from gpu_cluster.rehearsal.plugins import language_host; "
        "language_host.LOOK_SECONDS = 1e-6; language_host.main()"
    )
    hosts = [
        subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE)
        for _ in range(8)
    ]
    for host in hosts:
        assert host.stdout is not None
        assert int(host.stdout.readline()) > 0
        host.terminate()
    assert [host.wait(timeout=60) for host in hosts] == [0] * len(hosts)
