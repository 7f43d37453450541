"""The workflows of pull requests: what they may do, and that strangers cannot make them do more."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from checks import offline
from checks.stack import ROOT
from stacks.files import PLACEHOLDER

WORKFLOWS = {
    path.stem: yaml.load(path.read_text(), yaml.BaseLoader)
    for path in (ROOT / ".github" / "workflows").glob("*.yaml")
}


def steps(name: str) -> Iterator[dict[str, Any]]:
    for job in WORKFLOWS[name]["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_to_a_commit(name: str) -> None:
    """A tag is moved by whoever takes over an action's repository; a commit is not."""
    for step in steps(name):
        assert re.search(r"@[0-9a-f]{40}$", step["uses"]) if "uses" in step else step["run"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_nothing_is_pasted_into_a_script(name: str) -> None:
    """A branch's or file's name reaches a script as a variable of the environment alone."""
    assert not [step["run"] for step in steps(name) if "${{" in step.get("run", "")]


def test_a_fork_gets_neither_secret_nor_token() -> None:
    """The one job that can sign in is for branches of the repository; the other reads files."""
    workflow = WORKFLOWS["pull-request"]
    check, trusted = workflow["jobs"]["check"], workflow["jobs"]["trusted"]
    assert list(workflow["on"]) == ["pull_request"]
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in check
    assert "secrets." not in json.dumps(check)
    assert trusted["permissions"] == {"contents": "read", "id-token": "write"}
    assert "github.event.pull_request.head.repo.full_name == github.repository" in trusted["if"]


def test_who_writes_comments_runs_nothing_of_a_pull_request() -> None:
    """It has a right that a fork's own run has not, and so checks nothing out."""
    assert WORKFLOWS["comment"]["permissions"] == {"actions": "read", "pull-requests": "write"}
    assert [step for step in steps("comment") if "uses" in step] == []


def secret(**value: str) -> dict[str, str]:
    """A secret as the engine writes it into a state."""
    return {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", **value}


def test_an_offline_preview_needs_nobodys_key(tmp_path: Path) -> None:
    """Encrypted values are the same placeholder in the stack's file and in its state."""
    root, folder = tmp_path / "root", tmp_path / "copy"
    (root / "components").mkdir(parents=True)
    (root / ".venv").mkdir()
    (root / ".github" / "states").mkdir(parents=True)
    for name in ("Pulumi.yaml", "__main__.py", "requirements.txt"):
        (root / name).touch()
    (root / "Pulumi.x.yaml").write_text(
        "encryptionsalt: v1:a\nconfig: {'gpu-cluster:workloads': {w: {env: {T: {secure: v1:b}}}}}\n"
    )
    state = {
        "version": 3,
        "deployment": {
            "secrets_providers": {"type": "service"},
            "resources": [
                {
                    "inputs": {"kubeconfig": secret(ciphertext="v1:c"), "plain": [1]},
                    "outputs": {"env": [secret(ciphertext="v1:d")], "n": secret(plaintext="[7]")},
                }
            ],
        },
    }
    (root / ".github" / "states" / "x.json").write_text(json.dumps(state))
    offline.copy("x", folder, root)
    assert yaml.safe_load((folder / "Pulumi.x.yaml").read_text()) == {
        "config": {"gpu-cluster:workloads": {"w": {"env": {"T": PLACEHOLDER}}}}
    }
    assert json.loads((folder / "state.json").read_text()) == {
        "version": 3,
        "deployment": {
            "resources": [
                {
                    "inputs": {"kubeconfig": offline.NOWHERE, "plain": [1]},
                    "outputs": {"env": [PLACEHOLDER], "n": [7]},
                }
            ]
        },
    }
    assert "secure" in (root / "Pulumi.x.yaml").read_text()
