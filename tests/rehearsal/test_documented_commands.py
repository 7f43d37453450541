"""Every command that a document names runs, on its smallest case, in a copy of the repository.

`documented_commands.yaml` says which case that is, or why there is none.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes import client, config

import tools
from tests.documented import TABLE
from tests.rehearsal.test_getting_started import clone
from tools.sections import ROOT

HIDDEN = ("GPU_CLUSTER_STACKS", "GPU_CLUSTER_POLICY_SETTINGS", "KUBECONFIG", "MAKEFLAGS")
"""What the tests set for themselves, and what a make that runs them hands on."""
MAKE = '#!/bin/sh\nexec "{make}" -o .venv/.ready "$@"\n'
"""The packages of the copy are this machine's."""
COMMAND = '#!/bin/sh\nexec "{python}" -m cli "$@"\n'
"""The `gpu-cluster` of `.venv` is this repository's, not the copy's."""


class Copy:
    """A copy of the repository, in git, with a rehearsal of dev that is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = clone(folder / "clone")
        (folder / "bin").mkdir()
        programs = {
            "make": MAKE.format(make=shutil.which("make")),
            "gpu-cluster": COMMAND.format(python=sys.executable),
            "python": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n',
        }
        for name, text in programs.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        path = [str(folder / "bin"), str(tools.pulumi()[0].parent), os.environ["PATH"]]
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in HIDDEN},
            "PATH": os.pathsep.join(path),
            "RUN": str(self.folder / ".rehearsal" / "dev" / "run"),
        }
        self.run("git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm a")
        self.run("make rehearse STACK=dev KEEP=1")

    def run(self, command: str) -> str:
        """What a command prints; fails the test where the command fails."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    copy = Copy(tmp_path_factory.mktemp("documented"))
    yield copy
    copy.run("make down STACK=dev && make clean")


def test_a_report_of_a_real_run_has_no_secret(kept: Copy) -> None:
    """The commands that the page shows, word for word, where they meet the kept rehearsal."""
    page = (ROOT / "docs" / "explanation" / "reliability.md").read_text()
    section = page.partition("<!-- real-cloud-run -->")[2].partition("<!-- /real-cloud-run -->")[0]
    shown = re.findall(r"^\$ (.+)$", section, re.MULTILINE)
    assert len(shown) == 3
    said = "\n".join(kept.run(as_kept(command)) for command in shown)
    assert re.search(r"^Version +\d", said, re.MULTILINE)
    assert "nvidia-tesla-t4" in said
    state = kept.run("$RUN pulumi stack export -s dev --show-secrets")
    settings = yaml.safe_load((kept.folder / "Pulumi.dev.yaml").read_text())["config"]
    secrets = {
        *re.findall(r"[\w+/=-]{40,}", state),  # certificates, keys, tokens, digests
        settings["gcp:project"],
        "organization/gpu-cluster",
        "file://",
        str(kept.folder),
        "PULUMI_CONFIG_PASSPHRASE",
    }
    assert [secret for secret in secrets if secret in said] == []


def test_the_inventory_of_a_cluster(kept: Copy) -> None:
    """`gpu-cluster inventory` writes the nodes of the kept rehearsal down."""
    api = config.new_client_from_config(str(kept.folder / ".rehearsal" / "dev" / "kubeconfig"))
    nodes = client.CoreV1Api(api).list_node(_preload_content=False).data
    (kept.folder / "nodes.json").write_bytes(nodes)
    (kept.folder / "inventories" / "onprem.yaml").unlink()
    kept.run("gpu-cluster inventory onprem --nodes nodes.json")
    written = yaml.safe_load((kept.folder / "inventories/onprem.yaml").read_text())
    assert sorted(one["gpus"] for one in written if "gpus" in one)


@pytest.mark.parametrize("command", dict.fromkeys(TABLE["run"].values()))
def test_it_runs(kept: Copy, command: str) -> None:
    """In the order of the table."""
    kept.run(command)


@pytest.mark.prove  # a fault in a sandbox of its own takes a quarter of a minute
@pytest.mark.parametrize("command", dict.fromkeys(TABLE["slow"].values()))
def test_it_runs_for_longer(kept: Copy, command: str) -> None:
    """As the others."""
    kept.run(command)


def as_kept(command: str) -> str:
    """A command against the kept rehearsal instead of a real stack."""
    if command.startswith("gpu-cluster"):
        return f"{command} --rehearsal"
    return f"$RUN {command}" if command.startswith("pulumi") else command
