"""What an earlier revision has of a stack, or in one line why it cannot be rehearsed from."""

from pathlib import Path

import pytest
import yaml

from gpu_cluster.rehearsal.change import before, changes
from gpu_cluster.rehearsal.engine.engine import Outcome
from gpu_cluster.rehearsal.event_log import Event
from gpu_cluster.stacks.definition.files import EXAMPLES, ROOT
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.program import FILES, FOLDERS
from gpu_cluster.stacks.environments.project import init
from tests.integration.stacks.test_cost import git


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose last revision has dev."""
    for name in FILES:
        (tmp_path / name).write_text((ROOT / name).read_text())
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "earlier.py").write_text("")
    (tmp_path / "Pulumi.dev.yaml").write_text((EXAMPLES / "Pulumi.dev.yaml").read_text())
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def test_the_program_and_the_file_are_those_of_the_revision(root: Path, tmp_path: Path) -> None:
    """Whatever has been written since."""
    (root / "Pulumi.dev.yaml").write_text("config:\n  gpu-cluster:cluster: { platform: gke }\n")
    (root / "components" / "earlier.py").unlink()
    file = before("HEAD", "dev", root).copy(tmp_path / "copy")[0].file
    assert file.read_text() == (EXAMPLES / "Pulumi.dev.yaml").read_text()
    assert (tmp_path / "copy" / "components" / "earlier.py").is_file()
    assert (tmp_path / "copy" / ".venv").is_symlink()
    assert not (tmp_path / "copy-source").exists()


@pytest.mark.parametrize("folder", ["gpu_cluster/tools", "tools"])
def test_the_controllers_are_those_of_the_revision(root: Path, tmp_path: Path, folder: str) -> None:
    """Version 0.2.0 has them in `tools`."""
    module = root / folder / "kueue" / "go.mod"
    module.parent.mkdir(parents=True)
    module.write_text("earlier")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "second")
    pinned = before("HEAD", "dev", root).copy(tmp_path / "copy")[1]
    assert (pinned / "kueue" / "go.mod").read_text() == "earlier"


def test_a_project_that_uses_the_package_may_be_a_folder_of_a_repository(tmp_path: Path) -> None:
    """All files of the folder's program are the revision's, and no others of the repository."""
    folder = tmp_path / "repository" / "gpus"
    init(folder, wheel="https://example.com/gpu_cluster-0.2.0-py3-none-any.whl")
    (folder.parent / "other").write_text("")
    (folder / "network.py").write_text("earlier")
    git(folder.parent, "init", "--quiet")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "--quiet", "--message", "first")
    (folder / "network.py").unlink()
    copy = before("HEAD", "dev", folder).copy(tmp_path / "copy")[0]
    assert copy.settings is not None
    names = {"network.py", "__main__.py", "Pulumi.yaml", "Pulumi.dev.yaml", ".venv", "policy"}
    assert {path.name for path in copy.folder.iterdir()} == names | {
        "requirements.txt", "stack.schema.json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("revision", "stack", "says"),
    [
        ("nosuch", "dev", "'nosuch' is not a revision of this repository; give a tag or a commit"),
        ("--help", "dev", "'--help' is not a revision of this repository; give a tag or a commit"),
        ("HEAD", "new", "HEAD has no Pulumi.new.yaml: rehearse new without --from"),
        ("HEAD", "other", "there is no Pulumi.other.yaml: the stacks here are dev, new"),
    ],
)
def test_what_cannot_be_rehearsed_from(root: Path, revision: str, stack: str, says: str) -> None:
    """No such revision, or no such stack there or here."""
    (root / "Pulumi.new.yaml").write_text((root / "Pulumi.dev.yaml").read_text())
    with pytest.raises(StackError) as refused:
        before(revision, stack, root)
    assert str(refused.value) == says


def test_another_platform_is_another_cluster(root: Path) -> None:
    """No update makes the one of the other."""
    document = yaml.safe_load((root / "Pulumi.dev.yaml").read_text())
    document["config"]["gpu-cluster:cluster"]["platform"] = "gke-autopilot"
    (root / "Pulumi.dev.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(StackError, match="has platform gke, and here it has gke-autopilot: that "):
        before("HEAD", "dev", root)


def test_a_change_is_counted() -> None:
    """Each resource once, by what became of it, and the nodes that were recycled since."""
    urn = "urn:pulumi:dev::gpu-cluster::gcp:container/nodePool:NodePool::{}"
    up = Outcome(
        operation="up", ok=True, seconds=1.0,
        resources=(
            ("create-replacement", urn.format("a")), ("replace", urn.format("a")),
            ("delete-replaced", urn.format("a")), ("update", urn.format("b")),
        ),
    )  # fmt: skip
    events = [
        Event(at=at, kind="node", subject=name, what=what, detail={"forced": at > 3})
        for at, name, what in (
            (1.0, "x", "recycled"),
            (3.0, "y", "recycled"),
            (3.5, "z", "recycled"),
            (4.0, "z", "left"),
            (4.1, "kept", "drifted"),
            (4.2, "replaced", "drifted"),
            (4.3, "replaced", "left"),
        )
    ]
    assert changes("v1", up, events, 2.0) == {
        "from": "v1",
        "replaced": ["gcp:container/nodePool:NodePool a"],
        "updated": ["gcp:container/nodePool:NodePool b"],
        "created": [],
        "deleted": [],
        "recycled": ["y", "z", "replaced"],
        "drifted": ["kept"],
        "forced": ["z"],
    }
