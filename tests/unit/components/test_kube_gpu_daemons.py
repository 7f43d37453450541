"""Who installs NVIDIA's driver and who is its device plugin: one answer in every room."""

from typing import Any

import pytest

from gpu_cluster.components.kube.gpu_daemons import (
    installer_made_for,
    installs_driver,
    is_device_plugin,
)
from gpu_cluster.components.kube.partial import UNKNOWN
from gpu_cluster.policy import pods as policy_pods
from gpu_cluster.policy.reading import Resource
from gpu_cluster.rehearsal.nodes import gpus
from gpu_cluster.stacks.live import gpu_nodes
from tests.unit.components.gpu_daemons import INSTALLERS, NEITHER, PLUGINS, spec

RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def answers(pod_spec: Any) -> list[tuple[bool, bool]]:
    """(installs the driver, is the device plugin) as policy, checks and rehearsal see the pod."""
    pod = {"metadata": {"name": "x", "namespace": "n"}, "spec": pod_spec, "status": RUNNING}
    daemon_set = Resource(
        type="kubernetes:apps/v1:DaemonSet", name="x", props={"spec": {"template": pod}}
    )
    (declared,) = policy_pods.pods_of(daemon_set)
    return [
        (bool(policy_pods.installs_driver(declared)), bool(policy_pods.plugs_devices(declared))),
        (bool(gpu_nodes.installer_pods([pod])), bool(gpu_nodes.plugin_pods([pod]))),
        (gpus.installs_driver_on(pod) is not None, gpus.is_device_plugin(pod)),
    ]


@pytest.mark.parametrize("name", NEITHER)
def test_storage_and_network_daemons_are_neither(name: str) -> None:
    """A CSI driver installs no NVIDIA driver, EFA's device plugin registers no GPU."""
    assert answers(NEITHER[name]) == [(False, False)] * 3


@pytest.mark.parametrize("name", INSTALLERS)
def test_installers(name: str) -> None:
    """Google's, the GPU operator's and a mirrored one are found, with the image they are for."""
    pod_spec, made_for = INSTALLERS[name]
    assert answers(pod_spec) == [(True, False)] * 3
    assert installer_made_for(pod_spec) == made_for


@pytest.mark.parametrize("name", PLUGINS)
def test_device_plugins(name: str) -> None:
    """NVIDIA's own, GKE's and a mirrored one are found."""
    assert answers(PLUGINS[name]) == [(False, True)] * 3


def test_an_installer_has_the_powers_to_install() -> None:
    """A container that is called so and is not privileged installs nothing."""
    assert installs_driver(spec("nvidia-driver-installer", "x", "/", privileged=False)) is False


def test_what_decides_may_not_be_known_yet() -> None:
    """None, never a guess, while image, privileges, path or containers are unknown."""
    installer, plugin = INSTALLERS["COS"][0], PLUGINS["mirrored"]
    unknown = {"name": "x", "image": UNKNOWN, "securityContext": {"privileged": True}}
    assert installs_driver({**installer, "initContainers": UNKNOWN}) is None
    assert installs_driver({"containers": [unknown]}) is None
    assert installs_driver({"containers": [{**unknown, "name": "nvidia-driver"}]}) is True
    assert installs_driver({"containers": [{**unknown, "securityContext": UNKNOWN}]}) is None
    assert is_device_plugin({**plugin, "containers": [unknown]}) is None
    assert is_device_plugin({**plugin, "volumes": UNKNOWN}) is None
    assert is_device_plugin({**plugin, "volumes": [{"hostPath": {"path": UNKNOWN}}]}) is None
