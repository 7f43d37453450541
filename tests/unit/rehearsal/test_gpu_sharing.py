"""How a device plugin shares out a node's GPUs, read from its pod, its ConfigMap or user data."""

import base64
from copy import deepcopy
from typing import Any

import pytest

from gpu_cluster.rehearsal.nodes.gpu_sharing import Reader, refused, sharing_of
from gpu_cluster.rehearsal.simulators.aws.ami_types import drives
from gpu_cluster.rehearsal.simulators.aws.user_data import host_sharing, runs_plugin
from gpu_cluster.rehearsal.simulators.cloud import GpuSharing
from tests.unit.rehearsal.rehearsed import (
    CONFIG,
    DEVICE_PLUGIN,
    GPU,
    SHARING_PLUGIN,
    config_map,
    daemon_pod,
    group,
    pod,
    sharing_config,
)

SLICED = GpuSharing(strategy="time-slicing", replicas=4, most=1)
PLUGIN = daemon_pod("plugin", SHARING_PLUGIN, on="n1")
WHO = "DaemonSet kube-system/plugin"
SHARES = "ConfigMap kube-system/shares"
DAEMON = daemon_pod(
    "mps", {"containers": [{"name": "d", "command": ["mps-control-daemon"]}]}, on="n1"
)


class ConfigMaps(dict[str, Any]):
    """By `namespace/name`."""

    def find(self, namespace: str, name: str) -> Any:
        return self.get(f"{namespace}/{name}")


def config_maps(config: dict[str, Any] | None = None) -> ConfigMaps:
    return ConfigMaps({"kube-system/shares": config_map(config or sharing_config())})


def changed(**fields: Any) -> Any:
    """The plugin's pod with another container."""
    made = deepcopy(PLUGIN)
    made["spec"]["containers"][0] |= fields
    return made


def test_without_a_config_file_every_pod_gets_a_whole_gpu() -> None:
    """A ConfigMap that is mounted and not read changes nothing."""
    bare = daemon_pod("plugin", DEVICE_PLUGIN, on="n1")
    assert sharing_of(bare, config_maps().find) == GpuSharing()
    assert sharing_of(changed(env=[]), config_maps().find) == GpuSharing()


@pytest.mark.parametrize(
    ("config", "sharing"),
    [
        (sharing_config(failRequestsGreaterThanOne=True), SLICED),
        (sharing_config(), GpuSharing(strategy="time-slicing", replicas=4)),
        (sharing_config("mps"), GpuSharing(strategy="mps", replicas=4, most=1)),
        (
            sharing_config("mps", failRequestsGreaterThanOne=False),
            GpuSharing(strategy="mps", replicas=4),
        ),
        ({"version": "v1"}, GpuSharing()),
    ],
)
def test_the_config_says_how_often_a_gpu_is_offered(
    config: dict[str, Any], sharing: GpuSharing
) -> None:
    """MPS refuses more than one share for a container by itself, time-slicing only if told."""
    assert sharing_of(PLUGIN, config_maps(config).find) == sharing


def test_where_both_are_configured_mps_wins() -> None:
    """As the plugin's own SharingStrategy has it."""
    both = sharing_config(replicas=4)
    both["sharing"] |= sharing_config("mps", 3)["sharing"]
    assert sharing_of(PLUGIN, config_maps(both).find).replicas == 3


@pytest.mark.parametrize(
    ("plugin", "config", "fault"),
    [
        (PLUGIN, sharing_config(replicas=1),
         f"{WHO} does not start with {SHARES}: sharing.timeSlicing has 1 replicas, but needs at "
         "least 2"),
        (PLUGIN, sharing_config("mps", 49),
         f"{WHO} does not start with {SHARES}: sharing.mps has 49 replicas, at most 48"),
        (PLUGIN, {**sharing_config(), "version": "v2"},
         f"{WHO} does not start with {SHARES}: its version is not v1"),
        (PLUGIN, {"version": "v1", "sharing": {"mps": {}}},
         f"{WHO} does not start with {SHARES}: sharing.mps names no resources"),
        (PLUGIN, sharing_config(renameByDefault=True),
         f"{WHO} advertises shared GPUs as {GPU}.shared (renameByDefault), and no {GPU}"),
        (changed(env=[{"name": "CONFIG_FILE", "value": "/etc/plugin/shares.yaml"}]),
         sharing_config(), f"{WHO} reads shares.yaml of {SHARES}, which has config.yaml"),
        (changed(volumeMounts=[]), sharing_config(),
         f"{WHO} reads {CONFIG}, where no ConfigMap is mounted"),
    ],
)  # fmt: skip
def test_a_plugin_that_offers_nothing_says_why(
    plugin: Any, config: dict[str, Any], fault: str
) -> None:
    """It does not start, or offers another resource than pods ask for."""
    assert sharing_of(plugin, config_maps(config).find).fault == fault


def test_a_config_map_in_another_namespace_is_none() -> None:
    """The kubelet looks in the pod's own namespace, and does not start the pod without it."""
    elsewhere = ConfigMaps({"default/shares": config_map(sharing_config())})
    assert (
        sharing_of(PLUGIN, elsewhere.find).fault == f"{WHO} mounts {SHARES}, which does not exist"
    )


def test_a_plugin_keeps_the_config_that_it_started_with() -> None:
    """Another ConfigMap reaches the next pod alone; one that is still missing is waited for."""
    held = ConfigMaps()
    reader = Reader(held.find)
    assert reader.of(PLUGIN, []).fault
    held |= config_maps()
    assert reader.of(PLUGIN, []).replicas == 4
    held |= config_maps(sharing_config(replicas=8))
    assert reader.of(PLUGIN, []).replicas == 4
    successor = deepcopy(PLUGIN)
    successor["metadata"]["uid"] = "another"
    assert reader.of(successor, []).replicas == 8


def test_mps_waits_for_its_control_daemon_on_the_node() -> None:
    """Without the daemon the plugin offers nothing; one that is not ready is none."""
    reader = Reader(config_maps(sharing_config("mps")).find)
    starting = {**DAEMON, "status": {"phase": "Pending"}}
    for on_node in ([PLUGIN], [PLUGIN, starting]):
        assert reader.of(PLUGIN, on_node).fault == (
            f"{WHO} waits for an MPS control daemon, but none is ready on the node"
        )
    assert reader.of(PLUGIN, [PLUGIN, DAEMON]) == GpuSharing(strategy="mps", replicas=4, most=1)


def test_a_container_that_asks_for_two_shares_is_refused() -> None:
    """The scheduler finds room for it, and the plugin turns it away."""
    two = pod(on="n1", phase="Running", gpus=2)
    (line,) = refused("n1", group(), SLICED, [two, pod(on="n1", gpus=1)])
    assert line == (
        "pool train-gpu: Deployment default/sample requests 2 nvidia.com/gpu in one container, "
        "but the device plugin of node n1, where 4 pods share a GPU, allows at most 1: the "
        "kubelet fails the pod with UnexpectedAdmissionError"
    )
    assert refused("n1", group(), GpuSharing(), [two]) == []
    assert refused("n1", group(), GpuSharing(strategy="mps", replicas=4), [two]) == []


def test_gkes_mps_daemon_is_out_of_reach_without_the_hosts_ipc() -> None:
    """A pod that has it is served."""
    sharing = GpuSharing(strategy="mps", replicas=4, host_ipc=True)
    (line,) = refused("n1", group(), sharing, [pod(on="n1")])
    assert "has no hostIPC: true" in line
    assert refused("n1", group(), sharing, [pod(on="n1", hostIPC=True), pod(on="n1", gpus=0)]) == []


PLUGINS = "[settings.kubelet-device-plugins.nvidia]\n"


def user_data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def settings(strategy: str, *lines: str) -> str:
    """Bottlerocket's settings as a launch template has them."""
    block = f"[settings.kubelet-device-plugins.nvidia.{strategy}]"
    words = [f'{PLUGINS}device-sharing-strategy = "{strategy}"', block, *lines]
    return user_data("\n".join(words))


SAME_NAME = "rename-by-default = false"


@pytest.mark.parametrize(
    ("given", "sharing"),
    [
        (None, GpuSharing()),
        (user_data("[settings.kubernetes]\n"), GpuSharing()),
        (user_data(f'{PLUGINS}device-sharing-strategy = "none"'), GpuSharing()),
        (settings("time-slicing", "replicas = 4", SAME_NAME), SLICED),
        (settings("time-slicing", SAME_NAME),
         GpuSharing(strategy="time-slicing", replicas=2, most=1)),
        (settings("time-slicing", SAME_NAME, "fail-requests-greater-than-one = false"),
         GpuSharing(strategy="time-slicing", replicas=2)),
        (settings("mps", "replicas = 8", SAME_NAME),
         GpuSharing(strategy="mps", replicas=8, most=1)),
    ],
)  # fmt: skip
def test_bottlerockets_settings_say_how_its_plugin_shares(
    given: str | None, sharing: GpuSharing
) -> None:
    """What is left out has Bottlerocket's default: two replicas, one for a container."""
    assert host_sharing(given) == sharing


@pytest.mark.parametrize(
    ("text", "release", "runs", "boots"),
    [
        ("", "1.62.0-0be31b34", True, True),
        (f"{PLUGINS}enabled = true", "1.63.0-0be31b34", True, True),
        (f"{PLUGINS}enabled = false", "1.63.0-0be31b34", False, True),
        (f"{PLUGINS}enabled = false", "1.35.6-20260714", False, True),
        (f"{PLUGINS}enabled = false", "1.62.0-0be31b34", False, False),
    ],
)
def test_bottlerockets_plugin_can_be_turned_off(
    text: str, release: str, runs: bool, boots: bool
) -> None:
    """Since 1.63; an earlier release does not know the setting."""
    assert runs_plugin(text) == runs
    assert (not host_sharing(user_data(text), release).fault) == boots


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (settings("time-slicing", "replicas = 4"), "shared GPUs as nvidia.com/gpu.shared"),
        (settings("time-slicing", "replicas = 1", SAME_NAME), "does not take"),
        (settings("mps", "replicas = 49", SAME_NAME), "does not take"),
        (settings("slices", SAME_NAME), "knows no"),
        (user_data("a = "), "the node does not boot: its user data is not valid TOML"),
        ("%%%", "the node does not boot: its user data is not valid TOML"),
        (user_data(f'{PLUGINS}device-partitioning-strategy = "mig"\n'
                   'device-sharing-strategy = "mps"'), "and MPS excludes partitions"),
    ],
)  # fmt: skip
def test_settings_with_which_bottlerocket_offers_nothing_say_why(given: str, fault: str) -> None:
    """Its resource is renamed unless told otherwise, so that a forgotten line costs every GPU."""
    assert fault in host_sharing(given).fault


@pytest.mark.parametrize(
    ("kind", "version", "release", "has"),
    [
        ("g7.2xlarge", "1.35", "1.67.0-0be31b34", False),
        ("g7.2xlarge", "1.35", "1.68.0-0be31b34", True),
        ("g7.2xlarge", "1.35", "1.35.9-20260917", True),
        ("g7.2xlarge", "1.35", "-1.67.0", False),
        ("g7.2xlarge", "1.36", "1.69.0-0be31b34", False),
        ("g7.2xlarge", "1.37", "1.66.0-0be31b34", True),
        ("g6.2xlarge", "1.36", "1.54.0-0be31b34", True),
    ],
)
def test_bottlerockets_driver_is_chosen_at_boot(
    kind: str, version: str, release: str, has: bool
) -> None:
    """Of two branches, in images of some clusters since some release; a date is the newest."""
    image = {"amiType": "BOTTLEROCKET_x86_64_NVIDIA", "version": version}
    assert drives({**image, "instanceTypes": [kind], "releaseVersion": release}) == has
