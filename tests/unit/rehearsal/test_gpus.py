"""Who has installed driver and device plugin on a node, read from the pods there."""

from typing import Any
from unittest.mock import MagicMock

import pytest

from gpu_cluster.rehearsal.control_plane.pods import installs_driver_on, is_device_plugin
from gpu_cluster.rehearsal.existing.gpu_operator import GpuOperator, daemon_set
from gpu_cluster.rehearsal.nodes.gpus import conflicts, gpu_parts
from tests.unit.rehearsal.rehearsed import (
    COS_INSTALLER,
    DEVICE_PLUGIN,
    UBUNTU_INSTALLER,
    daemon_pod,
    group,
    pod,
    shape,
)

COS_POD = daemon_pod("cos", COS_INSTALLER, on="n1")
UBUNTU_POD = daemon_pod("ubuntu", UBUNTU_INSTALLER, on="n1")
PLUGIN_POD = daemon_pod("plugin", DEVICE_PLUGIN, on="n1")


def test_a_cloud_that_does_both_needs_no_pod() -> None:
    """GKE with its managed driver offers the GPUs by itself."""
    assert gpu_parts(group(), []).complete


@pytest.mark.parametrize(
    ("fields", "pods", "complete"),
    [
        ({"driver": "pod", "node_os": "cos"}, [], False),
        ({"driver": "pod", "node_os": "cos"}, [COS_POD], True),
        ({"driver": "pod", "node_os": "cos"}, [UBUNTU_POD], False),
        ({"driver": "pod", "node_os": "ubuntu"}, [UBUNTU_POD], True),
        ({"driver": "pod", "node_os": "ubuntu"}, [COS_POD], False),
        ({"plugin": "pod"}, [], False),
        ({"plugin": "pod"}, [PLUGIN_POD], True),
        ({"plugin": "pod", "driver": "pod", "node_os": "cos"}, [PLUGIN_POD], False),
        ({"plugin": "pod", "driver": "pod", "node_os": "cos"}, [PLUGIN_POD, COS_POD], True),
    ],
)
def test_every_part_needs_its_doer(fields: dict, pods: list[dict], complete: bool) -> None:
    """GPUs are complete only once the right pods run for every part that the cloud leaves out."""
    assert gpu_parts(group(**fields), pods).complete is complete


@pytest.mark.parametrize("phase", ["Pending", "Failed"])
def test_a_pod_that_does_not_run_has_done_nothing(phase: str) -> None:
    """An installer counts once it is ready, not when it is scheduled."""
    starting = daemon_pod("cos", COS_INSTALLER, on="n1", phase=phase)
    assert not gpu_parts(group(driver="pod", node_os="cos"), [starting]).complete


def test_two_device_plugins_are_a_conflict() -> None:
    """NVIDIA's plugin beside GKE's own would register the same GPUs twice."""
    of = group()
    assert conflicts("n1", of, gpu_parts(of, [PLUGIN_POD])) == [
        "pool train-gpu: node n1 has two device plugins: kube-system/plugin-x and the cloud"
    ]


CDI = [{"name": "DEVICE_LIST_STRATEGY", "value": "cdi-cri"}]
SYS_ADMIN = {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}


@pytest.mark.parametrize(
    ("node_os", "container", "runtime_class", "message"),
    [
        ("al2023", {"securityContext": SYS_ADMIN, "env": CDI}, None, ""),
        ("al2023", {"securityContext": {"privileged": True}, "env": CDI}, None, ""),
        ("al2023", {"env": CDI}, None, "whose container gets no GPU"),
        ("al2023", {"securityContext": SYS_ADMIN}, None, "whose DEVICE_LIST_STRATEGY envvar names"),
        ("al2023", {}, "nvidia", ""),  # the GPU Operator's own runtime
        ("other", {}, None, ""),
        ("cos", {}, None, ""),
    ],
)
def test_a_plugin_that_relies_on_its_variables_fails_on_al2023(
    node_os: str, container: dict, runtime_class: str | None, message: str
) -> None:
    """Its NVIDIA runtime ignores NVIDIA_VISIBLE_DEVICES of containers without SYS_ADMIN, both the
    plugin's and those to which the plugin gives a GPU."""
    spec = {
        **DEVICE_PLUGIN,
        "containers": [{**DEVICE_PLUGIN["containers"][0], **container}],
        "runtimeClassName": runtime_class,
    }
    of = group(plugin="pod", node_os=node_os)
    parts = gpu_parts(of, [daemon_pod("plugin", spec, on="n1")])
    assert parts.complete is not bool(message)
    found = conflicts("n1", of, parts)
    assert len(found) == bool(message)
    assert all(message in line for line in found)


@pytest.mark.parametrize(
    ("toolkit", "env", "message"),
    [
        ("", CDI, ""),
        ("1.17.8", CDI, "which the node's nvidia-ctk 1.17.8 does not know"),
        ("1.17.8", [*CDI, {"name": "CDI_DISABLE_HOOKS", "value": "all"}], ""),
    ],
)
def test_an_old_toolkit_starts_no_pod_with_cdi(toolkit: str, env: list, message: str) -> None:
    """The plugin itself runs: it is the pods' containers that do not start."""
    container = {**DEVICE_PLUGIN["containers"][0], "securityContext": SYS_ADMIN, "env": env}
    of = group(plugin="pod", node_os="al2023", toolkit=toolkit)
    parts = gpu_parts(
        of, [daemon_pod("plugin", {**DEVICE_PLUGIN, "containers": [container]}, on="n1")]
    )
    assert parts.complete is not bool(message)
    found = conflicts("n1", of, parts)
    assert len(found) == bool(message)
    assert all(message in line for line in found)


def test_two_drivers_are_a_conflict() -> None:
    """An installer where the cloud installs the driver as well."""
    of = group(node_os="cos")
    assert conflicts("n1", of, gpu_parts(of, [COS_POD])) == [
        "pool train-gpu: node n1 has two driver installers: kube-system/cos-x and the cloud"
    ]


def test_an_installer_for_another_image_is_a_conflict() -> None:
    """It does nothing there, or harm."""
    of = group(driver="pod", node_os="cos")
    assert conflicts("n1", of, gpu_parts(of, [UBUNTU_POD])) == [
        "pool train-gpu: kube-system/ubuntu-x installs a driver for another node image than "
        "the node's, which is cos"
    ]


@pytest.mark.parametrize(
    ("node_os", "complete"), [("ubuntu", True), ("cos", False), ("al2023", False)]
)
def test_the_operator_gives_ubuntu_nodes_both(node_os: Any, complete: bool) -> None:
    """Its driver container is made for Ubuntu, says the image's tag, and does nothing on COS."""
    specs = [daemon_set(part)["spec"]["template"]["spec"] for part in ("driver", "device-plugin")]
    pods = [daemon_pod(str(number), spec, on="n1") for number, spec in enumerate(specs)]
    of = group(driver="pod", plugin="pod", node_os=node_os)
    assert gpu_parts(of, pods).complete is complete
    assert bool(conflicts("n1", of, gpu_parts(of, pods))) is not complete


def test_the_operator_labels_gpu_nodes_unless_it_is_kept_off() -> None:
    """Once it is installed; a driver that the node has already is not installed again."""
    api = MagicMock()
    operator = GpuOperator(lambda: api, None)
    pool = group(gpus=1)
    assert operator.labels(pool) == {}
    operator.install()
    assert operator.labels(pool)["nvidia.com/gpu.deploy.driver"] == "pre-installed"
    assert operator.labels(group(gpus=1, driver="pod"))["nvidia.com/gpu.deploy.driver"] == "true"
    assert operator.labels(group()) == {}
    kept_off = shape(labels={"nvidia.com/gpu.deploy.operands": "false"})
    assert operator.labels(group(gpus=1, template=kept_off)) == {}


def test_an_ordinary_pod_is_neither() -> None:
    """A workload that mounts the driver's libraries, unprivileged, installs nothing."""
    libraries = {"name": "d", "hostPath": {"path": "/home/kubernetes/bin/nvidia"}}
    reader = pod(volumes=[libraries, {"name": "r", "hostPath": {"path": "/"}}])
    assert installs_driver_on(reader) is None
    assert not is_device_plugin(reader)


PARTITIONER = "gcr.io/gke-release/nvidia-partition-gpu@sha256:"
PINNED = "de12f85ebfb4fb6c1893cd30c23aab662a72fa0448f97ef74fccb82d7522ef17"


@pytest.mark.parametrize(
    ("size", "digest", "crashes"),
    [("1g.5gb", PINNED, False), ("1g.24gb", PINNED, True), ("1g.24gb", "0" * 64, False)],
)
def test_an_installer_crashes_on_partitions_that_its_image_does_not_know(
    size: str, digest: str, crashes: bool
) -> None:
    """The published partitioner is older than the sizes of the newest GPUs."""
    selected = shape(labels={"cloud.google.com/gke-gpu-partition-size": size})
    of = group(driver="pod", node_os="cos", template=selected)
    image = {"name": "partition", "image": PARTITIONER + digest}
    spec = {**COS_INSTALLER, "initContainers": [*COS_INSTALLER["initContainers"], image]}
    parts = gpu_parts(of, [daemon_pod("cos", spec, on="n1")])
    assert parts.complete is not crashes
    assert conflicts("n1", of, parts) == (
        [
            "pool train-gpu: kube-system/cos-x, whose image does not know partitions of "
            "1g.24gb: fails on node n1"
        ]
        if crashes
        else []
    )
