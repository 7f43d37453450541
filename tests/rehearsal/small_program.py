"""A small program of a test's own under the real engine, in a file backend of its own."""

import os
from pathlib import Path

from gpu_cluster import tools
from gpu_cluster.rehearsal.engine.fork_server import launcher
from gpu_cluster.stacks.definition.files import ROOT


def write_program(folder: Path, text: str) -> Path:
    """The program's folder, with its project file; its backend is beside it."""
    program = folder / "program"
    for path in (program, folder / "state"):
        path.mkdir()
    (program / "__main__.py").write_text(text)
    (program / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
    return program


def engine_environment(folder: Path, provider: str) -> dict[str, str]:
    """For the engine in this folder. `provider`: package:port of the plugin that runs."""
    _, in_front = tools.pulumi()
    return {
        **os.environ,
        "PATH": os.pathsep.join([*map(str, in_front), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "GPU_CLUSTER_PYTHON": str(launcher()),
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # The state names a plugin version, which the engine would otherwise try to download.
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_DEBUG_PROVIDERS": provider,
    }
