"""The language host, with a script in the place of the official executor."""

import os
import subprocess
import sys

from rehearsal.sandbox import ROOT


def test_it_is_started_without_the_rest_of_the_sdk() -> None:
    """The starter runs nothing of the SDK but the engine's messages, and says its port."""
    started = subprocess.Popen(
        [ROOT / "tools" / "bin" / "gpu-cluster-language-host", "127.0.0.1:2"],
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
