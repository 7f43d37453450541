"""The comment on a pull request: what would be lost comes first, no value is shown."""

from pathlib import Path

from gpu_cluster.cli.ci.preview_comment import comment, sections_of
from gpu_cluster.stacks.definition.files import EXAMPLES
from tests.integration.stacks.test_cost import committed_dev, git
from tests.unit.cli.test_preview_comment import preview


def test_cost_before_and_after(tmp_path: Path) -> None:
    """Two more nodes at full cost two nodes more, and the table says so."""
    root = tmp_path / "repository"
    root.mkdir()
    committed_dev(root)
    (tmp_path / "dev.json").write_text(preview())
    (section,) = sections_of(tmp_path, "HEAD~1", root)
    assert section.cost is not None
    before, after = (bill.total("configured", "full").month for bill in section.cost if bill)
    assert f"| $131.59 | ${after:,.2f} (+${after - before:,.2f}) |" in comment([section])
    (alone,) = sections_of(tmp_path, None, root)
    assert f"| $131.59 | ${after:,.2f} |" in comment([alone])


def test_a_new_stack_is_called_new(tmp_path: Path) -> None:
    """A stack that the base does not have has a cost, and nothing to compare it with."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "empty")
    (root / "Pulumi.dev.yaml").write_text((EXAMPLES / "Pulumi.dev.yaml").read_text())
    (tmp_path / "dev.json").write_text(preview())
    assert "| $131.59 (new) |" in comment(sections_of(tmp_path, "HEAD", root))
