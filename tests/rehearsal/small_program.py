"""A small program of a test's own under the real engine, in a file backend of its own."""

import json
import os
from pathlib import Path
from typing import Any

from gpu_cluster import tools
from gpu_cluster.rehearsal.engine.fork_server import launcher
from gpu_cluster.stacks.definition.files import ROOT
from gpu_cluster.stacks.engine.state import resources
from gpu_cluster.stacks.engine.urn import Urn
from gpu_cluster.stacks.recovery.engine import RecoveringPulumi


class SmallStack:
    """A stack of the program; its backend is beside it."""

    def __init__(self, folder: Path, text: str, provider: str, config: str = "") -> None:
        """`text`: the program; `provider`: package:port of the plugin that runs; `config`: the
        stack's file."""
        program = folder / "program"
        for path in (program, folder / "state"):
            path.mkdir()
        (program / "__main__.py").write_text(text)
        (program / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
        if config:
            (program / "Pulumi.dev.yaml").write_text(config)
        self.environment = _environment(folder, provider)
        cli, _ = tools.pulumi()
        self.pulumi = RecoveringPulumi(
            command=cli,
            program=program,
            stack="dev",
            environment=self.environment,
            seconds=120,
        )
        self.pulumi.init()

    def run(self, *command: str, fails: bool = False) -> str:
        """What a command prints."""
        done = self.pulumi.execute(*command)
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def states(self) -> dict[str, dict[str, Any]]:
        """Resource name -> its state as it is stored."""
        exported = json.loads(self.run("stack", "export"))
        return {Urn.parse(resource["urn"]).name: resource for resource in resources(exported)}


def _environment(folder: Path, provider: str) -> dict[str, str]:
    """For the engine in this folder."""
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
