"""`gpu-cluster rehearse --from REV`: an earlier revision is up, and the change comes on top."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal.change import ChangeRehearsal, before
from rehearsal.report import text
from rehearsal.run import POLICIES, make_report
from rehearsal.sandbox import ROOT, Sandbox
from stacks.files import EXAMPLES
from stacks.program import FILES, FOLDERS
from tests.integration.stacks.test_cost import git


def repository(folder: Path, stack: str = "dev") -> Path:
    """The program and a stack under version control, as a user has them."""
    root = folder / "repository"
    root.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, root / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(EXAMPLES / f"Pulumi.{stack}.yaml", root)
    (root / ".venv").symlink_to(ROOT / ".venv")
    git(root, "init", "--quiet")
    git(root, "add", *FILES, *FOLDERS, f"Pulumi.{stack}.yaml")
    git(root, "commit", "--quiet", "--message", "as it is up")
    return root


def rehearsed(
    tmp_path: Path, pool: dict[str, Any], stack: str = "dev"
) -> tuple[ChangeRehearsal, dict[str, Any], str]:
    """A stack with a change of its pool that nobody has committed; what the report has of it."""
    root = repository(tmp_path, stack)
    file = root / f"Pulumi.{stack}.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["gpu-cluster:gpuPools"]["train-gpu"] |= pool
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    earlier = before("HEAD", stack, root)
    folder = tmp_path / "sandbox"
    with Sandbox(stack, source=root, folder=folder) as sandbox:
        run = ChangeRehearsal(before=earlier, sandbox=sandbox, policy_pack=POLICIES)
        assert run.run_until_ready(), run.failures
        report = make_report(run, 1.0)
        assert run.teardown(), run.failures
    found = report.change
    assert found is not None
    return run, dict(found), text(report)


def test_a_change_in_place_recycles_nodes(tmp_path: Path) -> None:
    """GKE gives a pool another machine type in place, node by node; the report counts them."""
    run, found, shown = rehearsed(tmp_path, {"machineType": "n1-standard-8", "maxNodes": 4})
    assert found["replaced"] == []
    assert found["updated"] == ["gcp:container/nodePool:NodePool train-gpu"]
    assert len(found["recycled"]) == 1
    assert "changes since HEAD: 0 replaced, 1 updated, 0 created, 0 deleted, 1 recycled" in shown
    assert [step.name for step in run.steps][:3] == [
        "pulumi up of HEAD",
        "workloads of HEAD run",
        "pulumi preview",
    ]
    assert run.failures == []


@pytest.mark.prove
def test_a_change_that_replaces_a_pool(tmp_path: Path) -> None:
    """It is said before, as a warning, and counted after; the workload runs on the new pool."""
    run, found, shown = rehearsed(tmp_path, {"capacityType": "spot"})
    assert "gcp:container/nodePool:NodePool train-gpu" in found["replaced"]
    assert "replaced: gcp:container/nodePool:NodePool train-gpu" in shown
    assert [line for line in run.warnings if "replaces the GPU pool" in line]
    assert run.failures == []


def test_a_pool_whose_job_is_done_is_tried_again_after_a_change(tmp_path: Path) -> None:
    """The node of before is gone, or still has the labels of before; a node of the change is what
    the Auto Scaling group's tags are compared with, and it comes up for a probe pod."""
    labels = {"role": "train-gpu", "cost-center": "vision"}
    run, _, shown = rehearsed(tmp_path, {"labels": labels, "maxNodes": 2}, "train")
    assert run.failures == []
    assert "train-gpu: no pod of the stack started a node there, so a probe pod did" in shown
    (check,) = [one for one in run.template_checks if one["node"]]
    probed = next(e for e in run.sandbox.event_log.events
                  if e.subject == "default/probe-train-gpu" and e.what == "ready")  # fmt: skip
    assert check["node"] == probed.detail["node"]
    assert check["real"]["k8s.io/cluster-autoscaler/node-template/label/cost-center"] == "vision"
