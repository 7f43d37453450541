"""Pools that leave driver and device plugin to NVIDIA's GPU Operator: without one, and with it.

Each takes a rehearsal; test_storage_and_operator.py has the Operator's GPUs.
"""

from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.rehearsal.existing.gpu_operator import NAMESPACE
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.rehearsal.simulators.inventory import inventory
from tests.rehearsal.conftest import all_pools, rehearsed, with_inventory

NO_PLUGIN: dict[str, Any] = {"devicePlugin": "none"}


def with_operator(
    folder: Path, stack: str, pools: dict[str, Any], operator: str | None
) -> Rehearsal:
    """The stack with these settings of its pools, and the Operator `before`, `after` or never."""
    given = inventory(stack) if stack == "onprem" else None
    described = {**({"machines": given} if given else {}), "gpuOperator": operator}
    options = with_inventory(folder, stack, described, job_seconds=2)
    return rehearsed(stack, folder / "sandbox", all_pools(**pools), whole=False, options=options)


@pytest.mark.prove(reason="the diagnosis of a node without a device plugin is tested by itself")
def test_without_an_operator_no_gpu_ever_appears(tmp_path: Path) -> None:
    """The stack stands aside, and nobody takes its place: the report says what to write."""
    run = with_operator(tmp_path, "train", NO_PLUGIN, None)
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
    run = with_operator(tmp_path, stack, {}, "before")
    found = [line for line in run.failures if "has two device plugins: " in line]
    assert found, run.failures
    assert all(f"{NAMESPACE}/nvidia-device-plugin-daemonset-" in line for line in found)
    assert all(f"kube-system/nvidia-device-plugin{own and '-'}" in line for line in found)
