"""`examples/own-vpc` in a simulated account: its own VPC, and a `GpuStack` in it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox
from gpu_cluster.stacks.definition.program import Mutation
from gpu_cluster.stacks.engine.urn import Urn
from tests.rehearsal.conftest import entered
from tests.rehearsal.test_documented_commands import COMMAND, HIDDEN
from tests.rehearsal.test_getting_started import clone

pytestmark = pytest.mark.prove(reason="a whole life in the cloud, of a program like the others")
EXAMPLE = ROOT / "examples" / "own-vpc"


def as_the_example(program: Path) -> None:
    """Replaces the program of the sandbox, whose account has nothing, and adds its config."""
    for name in ("__main__.py", "Pulumi.yaml"):
        shutil.copy2(EXAMPLE / name, program / name)
    file = program / "Pulumi.train.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"] |= yaml.safe_load((EXAMPLE / "Pulumi.dev.yaml").read_text())["config"]
    file.write_text(yaml.safe_dump(document))


@contextmanager
def life_of(folder: Path, program: Mutation) -> Iterator[Sandbox]:
    """The sandbox of a program after its first `up`, which did what the preview had said. At the
    end a second one changes nothing, and nothing remains."""
    with entered("train", folder, program) as sandbox:
        planned = sandbox.engine.preview()
        assert planned.ok, planned.errors
        done = sandbox.engine.up()
        assert done.ok, done.errors
        assert planned.changes == done.changes
        yield sandbox
        again = sandbox.engine.up()
        assert again.ok, again.errors
        assert not again.changed
        gone = sandbox.engine.destroy()
        assert gone.ok, gone.errors
        assert sandbox.cloud.list_resources() == []


def test_a_program_creates_its_vpc_and_two_pools_in_it(tmp_path: Path) -> None:
    """The preview knows none of the subnets and lists what `up` creates. A second one changes
    nothing, and nothing remains."""
    with life_of(tmp_path / "sandbox", as_the_example) as sandbox:
        rows = {
            Urn.parse(row["urn"]).name: row
            for row in sandbox.engine.resources()
            if row["type"] in ("aws:ec2/subnet:Subnet", "aws:eks/nodeGroup:NodeGroup")
        }
        for pool, subnet in (("train", "private-a"), ("serve", "private-b")):
            assert rows[pool]["outputs"]["subnetIds"] == [rows[subnet]["id"]]


def test_the_page_rehearses_the_program_in_a_kept_rehearsal(tmp_path: Path) -> None:
    """The commands of docs/how-to/use-the-package.md, as printed, in a copy of the repository."""
    page = (ROOT / "docs" / "how-to" / "use-the-package.md").read_text()
    section = page.partition("## Rehearse your program")[2].partition("\n## ")[0]
    commands = re.findall(r"^[$] (.+)$", section, re.MULTILINE)
    folder, programs = clone(tmp_path / "clone"), tmp_path / "bin"
    programs.mkdir()
    (programs / "gpu-cluster").write_text(COMMAND.format(python=sys.executable))
    (programs / "gpu-cluster").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    environment["PATH"] = os.pathsep.join([str(programs), os.environ["PATH"]])

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    *before, down = commands
    try:
        printed = {command: run(command) for command in before}
    finally:
        run(down)
    (up,) = [text for command, text in printed.items() if " up " in command]
    assert "aws:ec2:Vpc" in up
    assert "gpu-cluster:index:GpuStack" in up
