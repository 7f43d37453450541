"""What settings of nodes become, where the program and the cloud count differently."""

import json
import tomllib
from pathlib import Path
from typing import Literal

import googleapiclient
import pytest

from gpu_cluster.components.eks.node_args import EksKubeletArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.eks.user_data import al2023, bottlerocket
from gpu_cluster.components.gke.node_args import SYSCTLS, GkeLinuxArgs, _kept_whole
from gpu_cluster.components.schema.on_change import Kept

DOCUMENT = (
    Path(googleapiclient.__file__).parent / "discovery_cache" / "documents" / "container.v1.json"
)


def test_thresholds_that_are_left_out_stay_on_bottlerocket() -> None:
    """It writes what it is given, and the kubelet takes the others for zero."""
    pool = EksGpuNodeGroupArgs(instance_types=["g4dn.xlarge"]).gpu_pool("a")
    text = bottlerocket(EksKubeletArgs(eviction_hard={"memory.available": "500Mi"}), pool, (), None)
    assert tomllib.loads(text or "")["settings"]["kubernetes"]["eviction-hard"] == {
        "memory.available": "500Mi",
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
        "imagefs.available": "15%",
    }


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ("#!/bin/bash\n", "text/x-shellscript"),
        ("#cloud-config\n", "text/cloud-config"),
        ("# Ours.\nkind: NodeConfig\n", "application/node.eks.aws"),
        ('{"kind": "NodeConfig"}', "application/node.eks.aws"),
    ],
)
def test_each_part_of_user_data_has_the_type_of_its_reader(part: str, kind: str) -> None:
    """cloud-init reads scripts, nodeadm the rest."""
    assert f"Content-Type: {kind}\n\n{part.rstrip()}\n" in str(al2023(None, [part], None))


@pytest.mark.parametrize(("device_plugin", "off"), [("nvidia", False), ("none", True)])
def test_the_device_plugin_of_bottlerocket_is_turned_off(
    device_plugin: Literal["nvidia", "none"], off: bool
) -> None:
    """Its host would run it next to the user's own."""
    args = EksGpuNodeGroupArgs(
        instance_types=["g4dn.xlarge"], os="bottlerocket", device_plugin=device_plugin
    )
    found = tomllib.loads(bottlerocket(None, args.gpu_pool("a"), (), None) or "")
    plugin = {"nvidia": {"enabled": False}}
    assert found == ({"settings": {"kubelet-device-plugins": plugin}} if off else {})


def test_huge_pages_are_no_memory_for_pods() -> None:
    """The kubelet takes both sizes off what it offers."""
    assert GkeLinuxArgs(hugepages_2m=512, hugepages_1g=2).hugepages_mib == 3072


def test_kernel_parameters_are_those_of_the_api() -> None:
    """As the API's own description of the field lists them."""
    schemas = json.loads(DOCUMENT.read_text())["schemas"]
    said = schemas["LinuxNodeConfig"]["properties"]["sysctls"]["description"]
    assert said.partition(" supported. ")[2].split() == list(SYSCTLS)


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ({"cpu_cfs_quota": True}, None, True),
        (None, {"cpu_cfs_quota": False}, True),
        ({"cpu_cfs_quota": False}, {"cpu_cfs_quota": False, "pod_pids_limit": 2048}, False),
        ({"cgroup_mode": "v2", "sysctls": {}}, {"cgroup_mode": None, "sysctls": {}}, True),
        ({"pod_pids_limit": 2048}, {"pod_pids_limit": None}, False),
    ],
)
def test_what_the_provider_does_not_send_is_called_kept(
    old: object, new: object, kept: bool
) -> None:
    """Keys that it computes when they are missing, and a false in an update."""
    assert isinstance(_kept_whole(json.dumps(old), json.dumps(new)), Kept) is kept
