"""The whole way without a fork: a wheel, a new environment and home, a project, its rehearsal."""

import json
import subprocess
from pathlib import Path

import pytest

from gpu_cluster.tools.programs import cache_folder
from quality import release
from tests import packaged

OWN = """
pulumi.export("owner", pulumi.Config().require("owner"))
pulumi.export("name", cluster.name)
"""


@pytest.mark.prove
def test_a_project_lives_from_the_wheel_alone(tmp_path: Path) -> None:
    """With a key and outputs of its own in the program: it is kept, asked, and ended. Only the
    programs that are built from Go modules are this machine's."""
    python = packaged.environment(tmp_path / "venv", release.wheel(tmp_path))
    folder, home = tmp_path / "gpus", tmp_path / "home"
    home.mkdir()
    environment = {
        "HOME": str(home), "PATH": "/usr/bin:/bin", "GPU_CLUSTER_CACHE": str(cache_folder()),
    }  # fmt: skip

    def command(line: str) -> str:
        done = subprocess.run(
            [str(python.parent / "gpu-cluster"), *line.split()],
            cwd=folder if folder.exists() else tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    command("init gpus")
    with (folder / "__main__.py").open("a") as program:
        program.write(OWN)
    with (folder / "Pulumi.dev.yaml").open("a") as stack:
        stack.write("  gpus:owner: me\n")
    command("validate dev")
    try:
        command("rehearse dev --keep")
        nodes = json.loads(command("gpus dev --rehearsal --json"))
        assert nodes["exit"] == 0
        for line in ("leftovers dev --rehearsal", "capacity dev --rehearsal"):
            command(line)
        assert "dev: a kept rehearsal" in command("list")
        run = [str(folder / ".rehearsal/dev/run"), "pulumi", "stack", "output", "-s", "dev", "-j"]
        outputs = json.loads(subprocess.run(run, capture_output=True, check=True).stdout)
        assert (outputs["owner"], outputs["name"]) == ("me", "gpu-dev")
    finally:
        command("down dev")
    report = json.loads((folder / ".rehearsal" / "dev" / "report.json").read_text())
    assert report["ok"]
    assert {step["name"]: step["ok"] for step in report["steps"]}["pulumi up"]
