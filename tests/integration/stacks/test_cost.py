"""What a stack costs: every figure follows from the catalogue, and what is unknown is never 0."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.catalog.prices import HOURS_PER_MONTH
from gpu_cluster.stacks.cost import stack_cost as cost
from gpu_cluster.stacks.definition.files import EXAMPLES
from gpu_cluster.stacks.outcome import CheckError, ExitCode
from tests.unit.stacks.test_cost import changed, item


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with dev at one node, then at three, and a stack `new` since."""
    document = committed_dev(tmp_path)
    document["config"]["gpu-cluster:cluster"]["name"] = "gpu-new"
    (tmp_path / "Pulumi.new.yaml").write_text(yaml.safe_dump(document))
    return tmp_path


def committed_dev(folder: Path) -> Any:
    """Makes the folder a git repository with dev at one node, then at three; returns the file's
    contents."""
    document = yaml.safe_load((EXAMPLES / "Pulumi.dev.yaml").read_text())
    git(folder, "init", "--quiet")
    for most in (1, 3):
        document["config"]["gpu-cluster:gpuPools"]["train-gpu"]["maxNodes"] = most
        (folder / "Pulumi.dev.yaml").write_text(yaml.safe_dump(document))
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", f"{most} nodes")
    return document


def git(folder: Path, *command: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *who, *command], check=True)


def test_compares_with_an_earlier_revision(repository: Path) -> None:
    """Two more nodes cost twice a node more at full, and nothing more idle."""
    code, document, text = cost.answer("dev", compare="HEAD~1", root=repository)
    (pool,) = [one for one in document["compared"]["changes"] if one["name"] == "train-gpu"]
    node = item(changed("dev", maxNodes=1), "train-gpu").cost("configured", "full")
    assert node is not None
    assert code == ExitCode.OK
    assert pool["idle"]["change"] == 0
    assert pool["full"]["change"] == pytest.approx(2 * node * HOURS_PER_MONTH, abs=0.01)
    assert f"+${pool['full']['change']:,.2f}" in text
    assert {change["name"] for change in document["compared"]["changes"]} == {"train-gpu", "NAT"}


def test_the_same_revision_changes_nothing(repository: Path) -> None:
    """Without a difference in the stack's file there is none in its cost."""
    _, document, text = cost.answer("dev", compare="HEAD", root=repository)
    assert document["compared"]["changes"] == []
    assert "no cost changes" in text


def test_a_stack_that_did_not_exist_cost_nothing(repository: Path) -> None:
    """A new environment is compared with nothing, and the text says so."""
    _, document, text = cost.answer("new", compare="HEAD", root=repository)
    assert document["compared"]["existed"] is False
    assert "changes since HEAD (in which this stack does not exist):" in text


@pytest.mark.parametrize("revision", ["nosuch", "--output=x"])
def test_an_unknown_revision_is_an_error(repository: Path, revision: str) -> None:
    """A revision that git does not know ends with one line, and is never taken for an option."""
    with pytest.raises(CheckError, match=f"{revision}: this repository has no such revision"):
        cost.answer("dev", compare=revision, root=repository)
