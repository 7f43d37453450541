"""`gpu-cluster rehearse --from REV`: an earlier revision is up, and the change comes on top."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.rehearsal.change import ChangeRehearsal, before
from gpu_cluster.rehearsal.report.report import report_text
from gpu_cluster.rehearsal.run import POLICIES, make_report
from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.definition.files import EXAMPLES
from gpu_cluster.stacks.definition.program import FILES, FOLDERS, Mutation
from tests.integration.stacks.test_cost import git
from tests.rehearsal.conftest import configured, pools


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


CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
VOLUME = "kubernetes:core/v1:PersistentVolume"
VOLUMES = "/api/v1/persistentvolumes"


def with_claim(*, bucket: str = "read", **claim: str) -> Mutation:
    """The job of the stack train writes to the claim `results`, with these settings, and has this
    right on a bucket."""

    def change(config: dict[str, Any]) -> None:
        out = {"mountPath": "/out", "claim": "results", "readOnly": False}
        config["gpu-cluster:volumeClaims"] = {"results": {"size": "10Gi", **claim}}
        data = {"mountPath": "/data", "bucket": "data"}
        config["gpu-cluster:serviceAccounts"] = {"trainer": {"buckets": {"data": bucket}}}
        config["gpu-cluster:workloads"]["sample-gpu-job"] |= {
            "serviceAccount": "trainer", "volumes": {"out": out, "data": data}
        }  # fmt: skip
        config["gpu-cluster:gpuPools"]["train-gpu"]["zones"] = [claim.get("zone", "us-east-1a")]

    return configured(change)


def volumes_of(sandbox: Sandbox) -> list[tuple[str, str]]:
    """The PersistentVolumes of disks, with the volume in the cloud that each stands for."""
    specs = {one["metadata"]["name"]: one["spec"]["csi"]
             for one in sandbox.control_plane.api.items(VOLUMES)}  # fmt: skip
    return [(name, csi["volumeHandle"]) for name, csi in specs.items() if "ebs" in csi["driver"]]


def refuses_to_delete_a_disk(sandbox: Sandbox) -> None:
    """An update with the settings of now: nothing happens to the one volume."""
    held = volumes_of(sandbox)
    assert len(held) == 1
    outcome = sandbox.engine.up()
    assert not outcome.ok
    assert any("[GPUC-CLAIMS]" in line for line in outcome.errors), outcome.errors
    assert not [urn for what, urn in outcome.resources if "delete" in what or "replace" in what]
    assert volumes_of(sandbox) == held
    described = sandbox.cloud.list_resources()
    assert any(held[0][1] in line for line in described), described


@pytest.mark.prove
def test_other_access_modes_replace_a_volume_with_its_claim(tmp_path: Path) -> None:
    """Of a disk, which stays, and of a bucket; the new claims are bound."""
    root = repository(tmp_path, "train")
    with_claim()(root)
    git(root, "commit", "--quiet", "--all", "--message", "with a claim")
    earlier = before("HEAD", "train", root)
    with_claim(bucket="write", accessMode="ReadWriteOncePod")(root)
    with Sandbox("train", source=root, folder=tmp_path / "sandbox") as sandbox:
        run = ChangeRehearsal(before=earlier, sandbox=sandbox, policy_pack=POLICIES)
        assert run.run_until_ready(), run.failures
        found = run.change()
        assert found is not None
        assert {
            f"{CLAIM} results",
            f"{VOLUME} default.results",
            f"{CLAIM} default.trainer.data-claim",
            f"{VOLUME} default.trainer.data",
        } <= {*found["replaced"]}
        assert not any("ebs" in label for label in found["replaced"])


def rehearsed(
    tmp_path: Path, pool: Mapping[str, Any], *, second: Mapping[str, Any] = {}
) -> tuple[ChangeRehearsal, dict[str, Any], str]:
    """Dev with an uncommitted change of its pool; what the report has of it.
    `second`: changes of another pool, in which the same workload runs again."""
    root = repository(tmp_path)

    def with_second(config: dict[str, Any]) -> None:
        declared, workloads = config["gpu-cluster:gpuPools"], config["gpu-cluster:workloads"]
        declared["second"] = dict(declared["train-gpu"])
        (workload,) = workloads.values()
        workloads["second"] = {**workload, "pool": "second"}

    if second:
        configured(with_second)(root)
        git(root, "commit", "--quiet", "--all", "--message", "with a second pool")
        configured(lambda config: config["gpu-cluster:gpuPools"]["second"].update(second))(root)
    pools(**pool)(root)
    earlier = before("HEAD", "dev", root)
    with Sandbox("dev", source=root, folder=tmp_path / "sandbox") as sandbox:
        run = ChangeRehearsal(before=earlier, sandbox=sandbox, policy_pack=POLICIES)
        assert run.run_until_ready(), run.failures
        report = make_report(run, 1.0)
        assert run.teardown(), run.failures
    found = report.change
    assert found is not None
    return run, dict(found), report_text(report)


def test_a_change_in_place_recycles_nodes(tmp_path: Path) -> None:
    """GKE gives a pool another machine type in place, node by node, before `up` ends; the report
    counts them. A pool whose node gets other labels instead starts another one for a probe."""
    larger, labels = {"machineType": "n1-standard-8", "maxNodes": 4}, {"role": "second"}
    run, found, shown = rehearsed(tmp_path, larger, second={"labels": labels})
    assert found["replaced"] == []
    assert sorted(found["updated"]) == [
        f"gcp:container/nodePool:NodePool {name}" for name in ("second", "train-gpu")
    ]
    (node,) = found["recycled"]
    assert "changes since HEAD: 0 replaced, 2 updated, 0 created, 0 deleted, 1 recycled" in shown
    events = [(e.subject, e.what) for e in run.sandbox.event_log.events]
    assert events.index((node, "left")) < events.index(("workloads run", "began"))
    assert "second: no pod of the stack started a node there, so a probe pod started one" in shown
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


@pytest.mark.prove
def test_a_new_kubernetes_minor_goes_to_the_control_plane_and_then_to_the_nodes(
    tmp_path: Path,
) -> None:
    """In place, in one update that names the addons it leaves behind."""
    root = repository(tmp_path, "train")
    earlier = before("HEAD", "train", root)

    def upgraded(config: dict[str, Any]) -> None:
        assert config["gpu-cluster:cluster"]["version"] == "1.35"
        addons = {"kube-proxy": "v1.36.0-eksbuild.1"}
        config["gpu-cluster:cluster"] |= {"version": "1.36", "addonVersions": addons}

    configured(upgraded)(root)
    with Sandbox("train", source=root, folder=tmp_path / "sandbox") as sandbox:
        run = ChangeRehearsal(before=earlier, sandbox=sandbox, policy_pack=POLICIES)
        assert run.run_until_ready(), run.failures
        found = run.change()
        assert found is not None
        assert (found["replaced"], found["deleted"]) == ([], [])
        order = [
            "aws:eks/cluster:Cluster k8s-ml",
            "aws:eks/addon:Addon k8s-ml-kube-proxy",
            "aws:eks/nodeGroup:NodeGroup k8s-ml-system",
        ]
        assert [label for label in found["updated"] if label in order] == order
        assert "aws:eks/nodeGroup:NodeGroup train-gpu" in found["updated"]
        # Each node of the system pool has a successor before it is drained.
        system = [
            event.what
            for event in sandbox.event_log.events
            if run.began and event.at >= run.began and event.what in ("member", "recycled")
            and event.detail["group"].startswith("system-")
        ]  # fmt: skip
        assert system == ["member", "recycled"] * (len(system) // 2) != []
        (warning,) = {line for line in run.warnings if "[GPUC-ADDONS]" in line}
        assert "1.35 -> 1.36" in warning
        assert "coredns" in warning
        assert "kube-proxy" not in warning
        assert run.teardown(), run.failures
    assert run.failures == []


@pytest.mark.prove(reason="20 s of a processor")
def test_a_pool_whose_job_is_done_is_tried_again_after_a_change(
    tmp_path: Path,
) -> None:
    """The node of before is gone, or still has the labels of before; a node of the change is what
    the Auto Scaling group's tags are compared with, and it comes up for a probe pod."""
    with Sandbox("train", folder=tmp_path / "sandbox") as sandbox:
        first = Rehearsal(sandbox=sandbox)
        assert first.run_until_ready(), first.failures
        labels = {"role": "train-gpu", "cost-center": "vision"}
        pools(labels=labels, maxNodes=2)(sandbox.folder / "program")
        run = Rehearsal(sandbox=sandbox)
        assert run.run_until_ready(), run.failures
    assert "train-gpu: no pod of the stack started a node there, so a probe pod started one" in {
        step.detail for step in run.steps
    }
    (check,) = [one for one in run.template_checks if one["node"]]
    probed = next(e for e in sandbox.event_log.events
                  if e.subject == "default/probe-train-gpu" and e.what == "ready")  # fmt: skip
    assert check["node"] == probed.detail["node"]
    assert check["real"]["k8s.io/cluster-autoscaler/node-template/label/cost-center"] == "vision"
