"""Pools that leave driver and device plugin to NVIDIA's GPU Operator, with it and without."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal.gpu_operator import NAMESPACE
from rehearsal.nodes.gpus import part
from rehearsal.sandbox import Sandbox, SandboxOptions
from rehearsal.scenario import Rehearsal
from rehearsal.simulators.inventory import inventory
from tests.rehearsal.conftest import configured

UBUNTU = {"osImage": "ubuntu", "driver": "none", "devicePlugin": "none", "secureBoot": False}
NO_PLUGIN: dict[str, Any] = {"devicePlugin": "none"}


def rehearsed(
    folder: Path, stack: str, pools: dict[str, Any], operator: str | None, *, whole: bool = False
) -> tuple[Rehearsal, list[str]]:
    """The stack with these settings of its pools, and the Operator `before`, `after` or never;
    beside it the DaemonSets that gave its nodes a driver or a device plugin."""
    given = inventory(stack) if stack == "onprem" else None
    described = {**({"machines": given} if given else {}), "gpuOperator": operator}
    inventories = folder / "inventories"
    inventories.mkdir()
    (inventories / f"{stack}.yaml").write_text(yaml.safe_dump(described))

    def change(config: dict[str, Any]) -> None:
        for pool in config["gpu-cluster:gpuPools"].values():
            pool.update(pools)

    with Sandbox(
        stack,
        folder=folder / "sandbox",
        mutate=configured(change),
        options=SandboxOptions(inventories=inventories, job_seconds=2),
    ) as sandbox:
        run = Rehearsal(sandbox=sandbox, deadline=90)
        if run.run_until_ready() if whole else run.run_up_only():
            owners = [
                f"{one['metadata']['namespace']}/{one['metadata']['name']}"
                for one in sandbox.cluster_cache.all("DaemonSet")
                if part(one["spec"]["template"])
            ]
            if whole:
                run.teardown()
            return run, sorted(owners)
        return run, []


def test_the_operator_gives_eks_nodes_their_gpus_after_up(tmp_path: Path) -> None:
    """The stack is up first, its pods wait, and run on the GPUs that the Operator's plugin offers;
    nothing changes twice, and everything goes."""
    pools = {**NO_PLUGIN, "discoveryLabels": True}
    run, owners = rehearsed(tmp_path, "train", pools, "after", whole=True)
    assert run.failures == []
    assert owners == [f"{NAMESPACE}/nvidia-device-plugin-daemonset"]
    assert [step.name for step in run.steps][1:3] == ["pulumi up", "GPU Operator installed"]


def test_the_operator_installs_the_driver_on_ubuntu_nodes_of_gke(tmp_path: Path) -> None:
    """It is in the cluster before the stack's pods are, and brings driver and device plugin."""
    run, owners = rehearsed(tmp_path, "train-gke", UBUNTU, "before")
    assert run.failures == []
    assert owners == [
        f"{NAMESPACE}/nvidia-device-plugin-daemonset",
        f"{NAMESPACE}/nvidia-driver-daemonset",
    ]


@pytest.mark.prove(reason="the diagnosis of a node without a device plugin is tested by itself")
def test_without_an_operator_no_gpu_ever_appears(tmp_path: Path) -> None:
    """The stack stands aside, and nobody takes its place: the report says what to write."""
    run, _ = rehearsed(tmp_path, "train", NO_PLUGIN, None)
    assert any(
        "the cloud does not install a device plugin there, and the stack has no device plugin "
        "DaemonSet" in line
        for line in run.failures
    ), run.failures
    assert any("there is no GPU Operator" in note for note in run.sandbox.notes)


@pytest.mark.prove(reason="test_gpus sees two device plugins on a node in every run")
@pytest.mark.parametrize(("stack", "own"), [("train", "nvidia-device-plugin"), ("onprem", "")])
def test_an_operator_beside_the_stack_s_plugin_is_found(
    tmp_path: Path, stack: str, own: str
) -> None:
    """Whichever came first: two plugins on a node disagree about who has which GPU."""
    run, _ = rehearsed(tmp_path, stack, {}, "before")
    found = [line for line in run.failures if "has two device plugins: " in line]
    assert found, run.failures
    assert all(f"{NAMESPACE}/nvidia-device-plugin-daemonset-" in line for line in found)
    assert all(f"kube-system/nvidia-device-plugin{own and '-'}" in line for line in found)
