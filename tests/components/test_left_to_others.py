"""Pools whose driver and device plugin belong to somebody else, such as NVIDIA's GPU Operator."""

from typing import Any

import pytest

from gpu_cluster.components.gke.cluster_args import GkeClusterArgs
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from tests.components.recording import record
from tests.program.environments import (
    ANSWERS,
    ROOT,
    as_engine_config,
    run_program,
    values_of,
)

DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
NONE: dict[str, dict[str, str]] = {
    "dev": {"driver": "none", "devicePlugin": "none"},
    "train": {"devicePlugin": "none"},
    "onprem": {"devicePlugin": "none"},
}


@pytest.mark.parametrize("stack", NONE)
def test_the_stack_installs_neither(monkeypatch: pytest.MonkeyPatch, stack: str) -> None:
    """Nothing of the stack runs on every GPU node, and its pods take no driver from the host."""
    monkeypatch.setenv("KUBECONFIG", str(ROOT / "tests" / "program" / "kubeconfig.yaml"))
    values: dict[str, Any] = values_of(stack)
    for pool in values["gpu-cluster:gpuPools"].values():
        pool.update(NONE[stack])
    recording = record(run_program, config=as_engine_config(values), outputs=ANSWERS)
    assert [one.name for one in recording.of(DAEMON_SET)] == []
    pools = recording.outputs["gpuPools"].values()
    assert [pool.get("driverLibraries") for pool in pools] == [None] * len(pools)


@pytest.mark.parametrize(("image", "warned"), [("cos", True), ("ubuntu", False)])
def test_a_driver_that_the_operator_cannot_install_is_a_warning(image: Any, warned: bool) -> None:
    """NVIDIA's driver container is made for Ubuntu; on COS Google's installer has to come."""
    pool = GkeGpuNodePoolArgs(
        machine_type="g2-standard-4", os_image=image, driver="none", device_plugin="none"
    )
    cluster = GkeClusterArgs(
        name="c", location="us-central1-a", authorized_networks={"office": "198.51.100.0/24"}
    )
    warnings = pool.resolve("l4", cluster).warnings
    assert [line.startswith("gpuPools.l4.driver: ") for line in warnings] == [True] * warned
