"""Users' own environments, rehearsed: a copy of dev, existing networks, four machines."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.run import POLICIES
from gpu_cluster.rehearsal.sandbox import Sandbox, SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES as OURS
from gpu_cluster.stacks.capacity import eks
from gpu_cluster.stacks.definition.files import EXAMPLES
from quality.faults.changes import STACKS as MORE
from tests.program.everything import EVERYTHING, config_of
from tests.rehearsal.conftest import rehearsed
from tests.rehearsal.own_stacks import INVENTORIES, folder_of


def rehearse(
    stack: str,
    folder: Path,
    inventories: Path,
    text: str | None = None,
    policies: Path | None = POLICIES,
    deadline: float = 90,
) -> Rehearsal:
    """The whole of it: up, workloads run, everything away again."""
    return rehearsed(
        stack, folder / "sandbox", deadline=deadline, policy_pack=policies,
        source=folder_of(stack, folder, text), options=SandboxOptions(inventories=inventories),
    )  # fmt: skip


@pytest.mark.prove
def test_machines_without_an_inventory(tmp_path: Path) -> None:
    """A second stack on premises passes: its machines are derived, and the report says so."""
    run = rehearse("lab", tmp_path, tmp_path)
    assert run.failures == []
    left_out, derived = run.sandbox.notes
    assert left_out.startswith("cluster.kubeconfigFile, cluster.context left out")
    assert derived.startswith("these machines are simulated: control, machines-1, machines-2, ")


@pytest.mark.prove
def test_a_cluster_in_an_existing_vpc(tmp_path: Path) -> None:
    """Private endpoint, private networks, a Capacity Block, an on-demand reservation, deletion
    protection: all of it passes, and the VPC stands when the stack is gone."""
    run = rehearse("prod", tmp_path, INVENTORIES, policies=None)  # its Capacity Block is too dear
    assert run.failures == []
    assert run.sandbox.notes == []


@pytest.mark.prove
@pytest.mark.parametrize("stack", ["shared", "shared-autopilot"])
def test_a_cluster_in_a_shared_vpc(stack: str, tmp_path: Path) -> None:
    """The subnetwork of a host project does for GKE Standard and Autopilot, nothing is made in that
    project, and the network stands with its NAT and grants when the stack is gone."""
    text = (MORE / f"Pulumi.{stack}.yaml").read_text()
    run = rehearse(stack, tmp_path, MORE / "inventories", text)
    assert run.failures == []
    assert run.sandbox.notes == []


@pytest.mark.prove
def test_pools_out_of_reservations_on_gke(tmp_path: Path) -> None:
    """The project's own reservation and a block of one that another project shares."""
    run = rehearse("reserved", tmp_path, INVENTORIES)
    assert run.failures == []
    assert run.sandbox.notes == []


@pytest.mark.prove
def test_a_copy_of_dev(tmp_path: Path) -> None:
    """What somebody begins with passes under another name."""
    text = (EXAMPLES / "Pulumi.dev.yaml").read_text().replace("name: gpu-dev", "name: gpu-staging")
    run = rehearse("staging", tmp_path, OURS, text)
    assert run.failures == []


def test_a_preview_judges_a_capacity_block_and_a_way_out_counts(tmp_path: Path) -> None:
    """Eight GPUs a node pass with advice to confirm what they cost; and what the inventory says
    counts: nodes in a subnet without a way out do not join, and the check before it finds that."""
    written = (INVENTORIES / "prod.yaml").read_text().replace("/19 }", "/19, out: none }")
    (tmp_path / "prod.yaml").write_text(written)
    source, options = folder_of("prod", tmp_path), SandboxOptions(inventories=tmp_path)
    with Sandbox("prod", source=source, folder=tmp_path / "sandbox", options=options) as sandbox:
        previewed = sandbox.engine.preview(POLICIES)
        outcome = sandbox.engine.up()
        settings = sandbox.program.settings
        assert settings is not None
        asked = eks.questions(settings, sandbox.cloud_api).findings
    assert any(
        "subnet-0aaaaaaaaaaaaaaa1 has no route to the internet" in one.reason for one in asked
    ), asked
    assert not any("monthly-ceiling" in error for error in previewed.errors)
    assert any("pool training accounts for the largest part" in line for line in previewed.warnings)
    assert not outcome.ok
    assert any(
        "the subnet subnet-0aaaaaaaaaaaaaaa1 has no route to the internet" in e
        for e in outcome.errors
    )


ADDED = ["aws-mountpoint-s3-csi-driver", "eks-node-monitoring-agent"]


def owners(stack: str) -> dict[str, Any] | list[dict[str, Any]]:
    """What the owner of an existing cluster has in it for a stack with everything, as an inventory.

    On EKS, something removes the taint that the pools have at first.
    """
    if stack == "existing":
        machines = {"a100": (8, 3), "l4": (4, 6), "t4": (1, 2), "": (0, 3)}
        return [
            {"name": f"{gpu or 'cpu'}-{number}", "capacity": {"cpu": "128", "memory": "1Ti"}}
            | ({"labels": {"gpus": gpu}, "gpus": gpus} if gpu else {})
            for gpu, (gpus, count) in machines.items()
            for number in range(count)
        ]
    if stack == "gke-existing":
        return {"cluster": {"addons": ["GcsFuseCsiDriver"]}}
    taint = "node.cilium.io/agent-not-ready"
    described: dict[str, Any] = {"startupTaints": [taint]}
    if not stack.startswith("eks-existing"):
        return described if stack.startswith("eks") else {}
    karpenter, scaler = stack.endswith("owners-karpenter"), stack.endswith("owners-autoscaler")
    sample = "on-eks-karpenter" if karpenter else "on-eks"
    text = (OURS / f"{sample}.yaml").read_text()
    for before in ("value: platform", "enabled,k8s.io/cluster-autoscaler/platform"):
        text = text.replace(before, before.replace("platform", "everything"))
    flag = "--skip-nodes-with-local-storage=false"
    described |= yaml.safe_load(text.replace(flag, f"--startup-taint={taint}"))
    cluster = described["cluster"]
    cluster.setdefault("addons", ["vpc-cni", "kube-proxy", "eks-pod-identity-agent", "coredns"])
    cluster["addons"] += ["aws-ebs-csi-driver", *ADDED]
    cluster["addonConfiguration"] = {
        ADDED[0]: {"node": {"tolerateAllTaints": True}},
        ADDED[1]: {"dcgmAgent": {"tolerations": [{"operator": "Exists"}]}},
    }
    if karpenter:
        cluster["karpenterNodeRole"] = "KarpenterNodeRole"
    elif not scaler:
        del described["objects"], cluster["podIdentities"]
    disks = (
        "CreateVolume",
        "AttachVolume",
        "DetachVolume",
        "DeleteVolume",
        "CreateTags",
        "Describe*",
    )
    cluster.setdefault("podIdentities", {})["kube-system/ebs-csi-controller-sa"] = [
        f"ec2:{action}" for action in disks
    ]
    if stack.endswith("auto-mode"):
        del cluster["nodeGroups"], cluster["podIdentities"]
        cluster["addons"] = ADDED[:1]
        cluster["autoMode"] = ["system"]
    return described


@pytest.mark.prove
@pytest.mark.parametrize("stack", EVERYTHING)
def test_all_that_a_scaler_can_do(stack: str, tmp_path: Path) -> None:
    """In one stack: claims, buckets, queues, teams, services, sharing, an order of fallback."""
    inventories = tmp_path / "inventories"
    inventories.mkdir()
    if described := owners(stack):
        (inventories / f"{stack}.yaml").write_text(yaml.safe_dump(described))
    config = config_of(stack)
    if stack == "existing":  # a rehearsal has no storage of one's own machines
        for entry in (
            *config["gpu-cluster:workloads"].values(),
            *config["gpu-cluster:services"].values(),
        ):
            entry.pop("volumes", None)
        del config["gpu-cluster:volumeClaims"]
    text = yaml.safe_dump({"config": config})
    run = rehearse(stack, tmp_path, inventories, text, policies=None, deadline=300)
    assert run.failures == []
