"""Every command that a document names runs, on its smallest case, in a copy of the repository.

`documented_commands.yaml` says which case that is, or why there is none. Most meet a rehearsal that
is kept, which is seen here too.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml
from kubernetes import client, config

from gpu_cluster import tools
from gpu_cluster.rehearsal import processes
from gpu_cluster.rehearsal.lock import REPORT
from gpu_cluster.tools.sections import ROOT
from tests.documented import TABLE
from tests.rehearsal.test_getting_started import clone
from tests.rehearsal.test_sandbox import kill, marked, start, until_nothing_is_left

HIDDEN = ("GPU_CLUSTER_STACKS", "GPU_CLUSTER_POLICY_SETTINGS", "KUBECONFIG", "MAKEFLAGS")
"""What the tests set for themselves, and what a make that runs them hands on."""
MAKE = '#!/bin/sh\nexec "{make}" -o .venv/.ready "$@"\n'
"""The packages of the copy are this machine's."""
COMMAND = '#!/bin/sh\nexec "{python}" -m gpu_cluster.cli "$@"\n'
"""The `gpu-cluster` of `.venv` is this repository's, not the copy's."""


LOOPBACK = {"127.0.0.1", "::ffff:127.0.0.1"}


def listening(folder: Path) -> set[tuple[str, int]]:
    """The addresses and ports on which the processes that name a sandbox's folder listen."""
    addresses = set()
    for process in processes.visible():
        with suppress(psutil.Error):  # it has ended, or belongs to another user
            if str(folder) in " ".join([*process.cmdline(), *process.environ().values()]):
                connections = process.net_connections("tcp")
                addresses |= {c.laddr for c in connections if c.status == psutil.CONN_LISTEN}
    return addresses


class Copy:
    """A copy of the repository, in git, with a rehearsal of dev that is kept, where one that was
    killed left things."""

    def __init__(self, folder: Path) -> None:
        self.folder = clone(folder / "clone")
        self.kept = self.folder / ".rehearsal" / "dev"
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
            "RUN": str(self.kept / "run"),
        }
        kill(self.kept, "pulumi up ...")
        self.run("git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm a")
        self.said = self.run("make rehearse STACK=dev KEEP=1")
        sandbox = json.loads((self.kept / "sandbox.json").read_text())
        self.port = int(sandbox["apiServer"].split(":")[1])

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


def test_what_is_kept_runs_on(kept: Copy) -> None:
    """Only on loopback; what it printed leads into it, and a second one is refused."""
    assert f"export KUBECONFIG={kept.kept / 'kubeconfig'}" in kept.said
    assert f"  {kept.kept / 'run'} pulumi up --stack dev\n" in kept.said
    assert kept.run("cd / && $RUN pulumi stack output --stack dev clusterName") == "gpu-dev\n"
    (api_server,) = [line for line in marked(kept.kept) if "kube-apiserver" in line]
    assert f"--secure-port={kept.port} " in api_server
    second = start("rehearse", "dev", "--folder", str(kept.kept))
    refused, _ = second.communicate(timeout=60)
    assert second.returncode == 2
    assert re.fullmatch(
        r"rehearsal of dev: a kept rehearsal of dev \(pid \d+, since [-\d: ]+\) is running: "
        r"gpu-cluster down dev, or --replace\n",
        refused.splitlines(keepends=True)[-1],
    )
    addresses = listening(kept.kept)
    assert ("127.0.0.1", kept.port) in addresses
    assert {host for host, _ in addresses} <= LOOPBACK


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


def test_brought_down_it_leaves_nothing(kept: Copy) -> None:
    """The last test here: with its cluster, but for the report."""
    assert kept.run("make --no-print-directory down STACK=dev") == (
        f"rehearsal of dev: ended; its report is kept: {kept.kept / 'report.txt'}\n"
    )
    assert {file.name for file in kept.kept.iterdir()} == {"lock", *REPORT}
    until_nothing_is_left(kept.kept)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", kept.port)) != 0


def as_kept(command: str) -> str:
    """A command against the kept rehearsal instead of a real stack."""
    if command.startswith("gpu-cluster"):
        return f"{command} --rehearsal"
    return f"$RUN {command}" if command.startswith("pulumi") else command
