"""docs/getting-started, followed step by step in a fresh copy of the repository.

What needs a real cloud is asked of the simulated one that the page's own rehearsal left running:
`capacity`, `gpus`, `leftovers`, and what the engine is told, from `pulumi stack init` to `destroy`.
Only how one signs in (`gcloud auth login`, `aws sso login`) nobody does here.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster import tools
from gpu_cluster.cli.main import NAME
from gpu_cluster.tools.sections import ROOT
from tests.getting_started import PAGES, Command, Snippet, commands, steps
from tests.rehearsal.conftest import run_cli

LIVE = ("capacity", "gpus", "leftovers")
"""Verbs that ask a cloud or cluster, here the rehearsal that the page has kept."""
RUNNING = """
import sys, time
from kubernetes import client, config
config.load_kube_config(sys.argv[1])
for _ in range(120):
    pods = client.CoreV1Api().list_namespaced_pod("default").items
    if any(pod.status.phase in ("Running", "Succeeded") for pod in pods):
        sys.exit()
    time.sleep(1)
sys.exit(f"none of {len(pods)} pods runs")
"""
"""In the place of `kubectl get pods`, which shows what is there: a reader waits for the sample."""
EMPTIED = """
cp Pulumi.{stack}.yaml written
if ! grep -q "platform: existing" written; then
  pulumi config set -s {stack} --path gpu-cluster:cluster.deletionProtection false
  pulumi up --yes -s {stack}
fi
pulumi destroy --yes -s {stack}
pulumi stack rm --yes -s {stack}
mv written Pulumi.{stack}.yaml
"""
FRESH_NODE = {
    "metadata": {"name": "gpu-1", "labels": {"gpus": "true", "kubernetes.io/hostname": "gpu-1"}},
    "spec": {},
    "status": {"capacity": {"cpu": "64", "memory": "263849952Ki", "pods": "110"}},
}
"""What a node says before a device plugin runs on it: nothing about GPUs."""
NEEDS_A_CLUSTER = ("job", "recover", "test-gpus")
"""Verbs whose answer only a cluster of one's own has; their arguments are checked elsewhere."""


def clone(target: Path) -> Path:
    """What `git clone` would bring, with the packages of this machine, and the command."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    (target / ".venv").symlink_to(Path(sys.executable).parents[1])
    return target


def run(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """One of our commands, from the copy."""
    clean = {k: v for k, v in os.environ.items() if k != "GPU_CLUSTER_STACKS"}
    return run_cli(*words, folder=folder, env=clean)


def merged(old: Any, new: Any) -> Any:
    """Maps are merged, everything else is replaced, as a reader edits a file."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}
    return new


def write(folder: Path, stack: str, snippet: Snippet) -> None:
    """Puts a snippet where the page says: into the stack's inventory, or its file, whose whole
    content it is where it names the platform."""
    given = yaml.safe_load(snippet.text)
    file = folder / f"Pulumi.{stack}.yaml"
    if "config" not in given:
        (folder / "inventories" / f"{stack}.yaml").write_text(snippet.text)
    elif "platform" in given["config"].get("gpu-cluster:cluster", {}):
        file.write_text(snippet.text)
    else:
        document = merged(yaml.safe_load(file.read_text()), given)
        file.write_text(yaml.safe_dump(document, sort_keys=False))


def stack_of(page: Path) -> str:
    """The stack that the page is about."""
    names = re.findall(
        r"cp Pulumi\.[\w-]+\.yaml Pulumi\.(\w+)\.yaml|stack init (\w+)", page.read_text()
    )
    return next(filter(None, names[0])) if names else "dev"


@pytest.mark.prove
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_works(page: Path, tmp_path: Path) -> None:
    """Every command of ours does what the page says, in its order."""
    folder, stack, kept = clone(tmp_path / "clone"), stack_of(page), False
    try:
        for step in steps(page):
            if isinstance(step, Snippet):
                write(folder, stack, step)
                continue
            words = step.words
            if words[0] == "cp":
                shutil.copy(folder / words[1], folder / words[2])
            if kept and (told := as_told(step, folder, stack)):
                for command in told:
                    done = in_sandbox(folder, stack, *command)
                    assert done.returncode == 0, f"{step.text}: {done.stdout}{done.stderr}"
            if words[0] != NAME or words[1] in NEEDS_A_CLUSTER:
                continue
            verb, arguments = words[1], words[2:]
            if verb == "inventory":
                (tmp_path / "nodes.json").write_text(json.dumps({"items": [FRESH_NODE]}))
                arguments = [*arguments, "--nodes", str(tmp_path / "nodes.json")]
            if verb == "rehearse" and "--keep" not in arguments:
                arguments = [*arguments, "--keep"]
            if verb in LIVE and "--rehearsal" not in arguments:
                if not kept:
                    continue
                arguments = [*arguments, "--rehearsal"]
            done = run(folder, [verb, *arguments])
            assert done.returncode == 0, f"{step.text}: {done.stdout}{done.stderr}"
            kept = verb == "rehearse" or (kept and verb != "down")
    finally:
        if kept:
            run(folder, ["down", stack])


def as_told(step: Command, folder: Path, stack: str) -> list[list[str]]:
    """What a step does in the environment of the rehearsal that is kept; empty where it has nothing
    to do there. A page that makes its stack does so on an account that is empty again."""
    words = step.words
    if words[:3] == ["pulumi", "stack", "init"]:
        return [["sh", "-ec", EMPTIED.format(stack=stack)], ["sh", "-c", step.text]]
    if words[0] == "kubectl" and "--kubeconfig" in words:
        file = words[words.index("--kubeconfig") + 1]
        file = file if file.startswith("~") else str(folder / file)
        return [["sh", "-c", f'exec "$0" -c "$1" {file}', sys.executable, RUNNING]]
    if "pulumi" not in step.text.strip("(").replace(";", " ").split() or words[1] == "login":
        return []
    confirmed = " --yes" if words[1] in ("up", "destroy") else ""
    return [["sh", "-c", f"{step.text}{confirmed}"]]


def in_sandbox(folder: Path, stack: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command by the script that the kept rehearsal printed."""
    script = folder / ".rehearsal" / stack / "run"
    return subprocess.run([script, *words], capture_output=True, text=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_engine_knows_what_it_is_told(page: Path) -> None:
    """Each `pulumi` command with its flags, from the engine's own help."""
    engine, _ = tools.pulumi()
    for command in commands(page):
        for words in _pulumi(command):
            verbs = [word for word in words[1:3] if re.fullmatch("[a-z]+", word)]
            help_text = subprocess.run(
                [engine, *verbs, "--help"], capture_output=True, text=True, check=True
            ).stdout
            flags = [word for word in words if re.fullmatch("--?[a-z-]+", word)]
            assert [flag for flag in flags if not re.search(rf"(?<!\S){flag}\b", help_text)] == []


def _pulumi(command: Command) -> list[list[str]]:
    """The words of each `pulumi` in a command."""
    parts = re.split(r"&&|;|\||>", command.text.strip("()"))
    return [part.split() for part in parts if part.split()[:1] == ["pulumi"]]
