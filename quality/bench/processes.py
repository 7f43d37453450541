"""Starts `child`, each time in a fresh process."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from quality.bench.child import ROOT

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: nowhere
clusters: [{name: nowhere, cluster: {server: "https://192.0.2.1"}}]
users: [{name: nowhere, user: {token: nobody}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: nowhere}}]
"""
"""A kubeconfig without a cluster: a program with mocks contacts none."""


def child(mode: str, given: Any) -> Any:
    """The child's result for `given`. Raises RuntimeError with the end of its output."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        file = Path(folder) / "given.json"
        file.write_text(json.dumps(given))
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG)
        done = subprocess.run(
            [sys.executable, "-m", "quality.bench.child", mode, str(file)],
            cwd=ROOT,
            env={**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(f"quality.bench.child {mode}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
