import threading
import typing
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from gpu_cluster.components.gke.node_identity import recycling_check
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.schema.effect import Sent
from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.control_plane.pods import STARTING
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.nodes.bounds import NODE_CLAIMS
from gpu_cluster.rehearsal.nodes.zones import Zones
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, NodeTaint, RefusedError
from gpu_cluster.rehearsal.simulators.google.api.server import Request
from gpu_cluster.rehearsal.simulators.google.container import machine_families
from gpu_cluster.rehearsal.simulators.google.errors import ApiError
from gpu_cluster.rehearsal.simulators.reservations import Reservation
from gpu_cluster.rehearsal.simulators.stock import Stock
from tests.unit.plugins.offline_engine import Refused
from tests.unit.refusals import one_line
from tests.unit.simulators.google_stack import (
    ACCOUNT,
    CLUSTER,
    NETWORK,
    POOL,
    SUBNETWORK,
    GoogleStack,
    cluster,
    pool,
    subnetwork,
    t4,
)

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""

GPU_TAINT = NodeTaint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
CPU = {"machineType": "e2-standard-2"}
ZONE = "us-central1-a"
OTHER = "us-central1-b"
TEAM = {"key": "team", "value": "ml", "effect": "NO_SCHEDULE"}
G4_ZONE = {"nodeLocations": ["us-central1-b"]}
FLEX_START = {
    "nodeConfig": t4(flexStart=True),
    "management": {"autoRepair": False, "autoUpgrade": True},
}
QUEUED = {
    **FLEX_START,
    "queuedProvisioning": {"enabled": True},
    "autoscaling": {"totalMaxNodeCount": 4},
}


def group_of(stack: GoogleStack, resource: str = "gpu") -> NodeGroup:
    name = stack.state[stack.urn(POOL, resource)][2]["name"]
    return next(group for group in stack.cloud.node_groups() if group.name == name)


def one_pool(**changes: Any) -> NodeGroup:
    stack = GoogleStack.with_cluster()
    stack.pool(**changes)
    return group_of(stack)


def test_a_pool_becomes_a_group_of_nodes() -> None:
    """Labels, taints, capacity and bounds are the stored pool's own."""
    group = one_pool()
    labels = group.node.labels
    assert labels["role"] == "train-gpu"
    assert labels["cloud.google.com/gke-accelerator"] == "nvidia-tesla-t4"
    assert labels["cloud.google.com/gke-nodepool"] == group.name
    assert labels["node.kubernetes.io/instance-type"] == "n1-standard-4"
    assert labels["topology.kubernetes.io/zone"] == "us-central1-a"
    assert group.node.taints == (GPU_TAINT,)
    assert group.node.capacity["nvidia.com/gpu"] == "1"
    assert group.node.capacity["cpu"] == "3920m"
    assert group.template == group.node
    assert (group.min_nodes, group.max_nodes, group.target_nodes) == (0, 3, 0)
    assert group.on_demand_per_hour == pytest.approx(0.19 + 0.35, abs=0.001)


@pytest.mark.parametrize(("machine", "arm"), [("t2a-standard-4", True), ("t2d-standard-4", False)])
def test_gke_taints_arm_nodes(machine: str, arm: bool) -> None:
    """A pod that does not tolerate it, and does not select the architecture, stays off them."""
    taint = NodeTaint(key="kubernetes.io/arch", value="arm64", effect="NoSchedule")
    group = one_pool(nodeConfig={"machineType": machine})
    assert group.node.taints == ((taint,) if arm else ())
    assert (group.node.labels["kubernetes.io/arch"] == "arm64") == arm


def driver(version: str | None, image: str = "COS_CONTAINERD") -> dict[str, Any]:
    accelerator: dict[str, Any] = {"type": "nvidia-tesla-t4", "count": 1}
    if version:
        accelerator["gpuDriverInstallationConfig"] = {"gpuDriverVersion": version}
    return t4(guestAccelerators=[accelerator], imageType=image)


@pytest.mark.parametrize(
    ("version", "doer", "label"),
    [
        ("INSTALLATION_DISABLED", "pod", None),
        ("DEFAULT", "cloud", "default"),
        ("LATEST", "cloud", "latest"),
        (None, "cloud", "default"),
    ],
)
def test_the_driver_setting_says_who_installs(
    version: str | None, doer: str, label: str | None
) -> None:
    """GKE installs the driver unless it is told not to, also where nothing is said."""
    group = one_pool(nodeConfig=driver(version))
    assert group.driver == doer
    assert group.node.labels.get("cloud.google.com/gke-gpu-driver-version") == label


def test_the_opt_out_label_leaves_the_plugin_to_a_pod() -> None:
    """GKE runs its device plugin unless the node carries the label that turns it off."""
    assert one_pool().plugin == "cloud"
    label = {"gke-no-default-nvidia-gpu-device-plugin": "true"}
    assert one_pool(nodeConfig=t4(labels=label)).plugin == "pod"


def test_without_gkes_plugin_nobody_installs_its_driver() -> None:
    """One DaemonSet does both, and the label turns it off."""
    label = {"gke-no-default-nvidia-gpu-device-plugin": "true"}
    assert one_pool(nodeConfig={**driver("DEFAULT"), "labels": label}).driver == "pod"


@pytest.mark.parametrize(
    ("image", "os"), [("COS_CONTAINERD", "cos"), ("UBUNTU_CONTAINERD", "ubuntu")]
)
def test_the_image_decides_the_os(image: str, os: str) -> None:
    """The installer must match it."""
    assert one_pool(nodeConfig=t4(imageType=image)).node_os == os


def test_sharing_multiplies_the_gpus() -> None:
    """A node offers GPUs times partitions times clients, and labels say so."""
    accelerator = {
        "type": "nvidia-tesla-a100",
        "count": 2,
        "gpuPartitionSize": "1g.5gb",
        "gpuSharingConfig": {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": 3},
    }
    config = {"machineType": "a2-highgpu-2g", "guestAccelerators": [accelerator]}
    group = one_pool(nodeConfig=config)
    assert group.node.capacity["nvidia.com/gpu"] == str(2 * 7 * 3)
    assert group.node.labels["cloud.google.com/gke-gpu-sharing-strategy"] == "time-sharing"
    assert group.node.labels["cloud.google.com/gke-max-shared-clients-per-gpu"] == "3"
    assert group.node.labels["cloud.google.com/gke-gpu-partition-size"] == "1g.5gb"


def test_a_machine_that_brings_gpus_needs_none_declared() -> None:
    """The accelerator follows from the machine type."""
    group = one_pool(nodeConfig={"machineType": "g2-standard-4"})
    assert group.node.labels["cloud.google.com/gke-accelerator"] == "nvidia-l4"
    assert group.node.capacity["nvidia.com/gpu"] == "1"


def test_gke_adds_its_taint_beside_a_cpu_pool() -> None:
    """An undeclared GPU taint is added, shows in effectiveTaints, and is no difference."""
    stack = GoogleStack.with_cluster()
    stack.pool("cpu", nodeConfig=CPU)
    undeclared = t4(taints=[])
    outputs = stack.pool(nodeConfig=undeclared)
    assert group_of(stack).node.taints == (GPU_TAINT,)
    assert outputs["nodeConfig"]["effectiveTaints"][0]["key"] == "nvidia.com/gpu"
    assert stack.diff(POOL, "gpu", pool(nodeConfig=undeclared))[0] == {}


def test_gke_adds_no_taint_where_all_pools_have_gpus() -> None:
    """Without a CPU pool the taint stays away, also when a CPU pool comes later."""
    stack = GoogleStack.with_cluster()
    stack.pool(nodeConfig=t4(taints=[]))
    stack.pool("cpu", nodeConfig=CPU)
    assert group_of(stack).node.taints == ()
    stack.pool(nodeConfig=t4(taints=[], labels={"role": "other"}))
    assert group_of(stack).node.taints == ()


def test_a_declared_taint_is_taken_as_it_is() -> None:
    """GKE does not add its own value beside one that is declared with the same key."""
    stack = GoogleStack.with_cluster()
    stack.pool("cpu", nodeConfig=CPU)
    taint = {"key": "nvidia.com/gpu", "value": "mine", "effect": "NO_EXECUTE"}
    stack.pool(nodeConfig=t4(taints=[taint]))
    expected = NodeTaint(key="nvidia.com/gpu", value="mine", effect="NoExecute")
    assert group_of(stack).node.taints == (expected,)


@pytest.mark.parametrize(
    ("autoscaling", "bounds"),
    [
        ({"minNodeCount": 1, "maxNodeCount": 2}, (2, 4)),
        ({"totalMinNodeCount": 1, "totalMaxNodeCount": 3}, (1, 3)),
    ],
)
def test_bounds_are_per_zone_or_in_total(
    autoscaling: dict[str, int], bounds: tuple[int, int]
) -> None:
    """minNodeCount and maxNodeCount count in each zone, the total ones in all together."""
    group = one_pool(autoscaling=autoscaling, nodeLocations=[ZONE, OTHER])
    assert (group.min_nodes, group.max_nodes) == bounds
    assert group.target_nodes == bounds[0]


def test_initial_nodes_are_per_zone() -> None:
    """Two nodes in each of two zones are four, and a refresh shows two per zone."""
    stack = GoogleStack.with_cluster()
    stack.pool(initialNodeCount=2, nodeLocations=[ZONE, OTHER])
    assert group_of(stack).target_nodes == 4
    outputs = stack.refresh(POOL, "gpu")
    assert outputs is not None
    assert outputs["nodeCount"] == 2


@pytest.mark.parametrize(("ignored", "seen"), [(None, 2), (True, 0)])
def test_a_refresh_after_autoscaling_shows_what_life_shows(ignored: bool | None, seen: int) -> None:
    """The node count moves, unless it is ignored; neither is a difference nor moves
    initialNodeCount."""
    stack = GoogleStack.with_cluster()
    stack.pool(ignoreNodeCountChanges=ignored)
    stack.cloud.set_size(group_of(stack).name, 2)
    outputs = stack.refresh(POOL, "gpu")
    assert outputs is not None
    assert (outputs["nodeCount"], outputs["initialNodeCount"]) == (seen, 0)
    assert stack.diff(POOL, "gpu", pool(ignoreNodeCountChanges=ignored))[0] == {}


def test_a_declared_node_count_reverts_the_autoscaler() -> None:
    """With nodeCount declared, the next update after a refresh takes the nodes away again."""
    stack = GoogleStack.with_cluster()
    declared = {"initialNodeCount": None, "nodeCount": 1}
    stack.pool(**declared)
    stack.cloud.set_size(group_of(stack).name, 2)
    stack.refresh(POOL, "gpu")
    assert stack.diff(POOL, "gpu", pool(**declared))[0] == {"nodeCount": "UPDATE"}
    assert stack.pool(**declared)["nodeCount"] == 1
    assert group_of(stack).target_nodes == 0, "the autoscaler's node stays, and is the one"


@pytest.mark.parametrize("metric", ["NVIDIA_T4_GPUS", "GPUS_ALL_REGIONS"])
def test_the_quota_limits_the_first_nodes(metric: str) -> None:
    """A pool that starts with nodes needs quota at once; one that starts at zero does not."""
    stack = GoogleStack.with_cluster(quota={metric: 0})
    stack.pool()
    with pytest.raises(Refused, match=f"GCE quota exceeded: Quota '{metric}' exceeded. Limit: 0.0"):
        stack.pool("second", initialNodeCount=1)


def test_the_autoscaler_ends_a_node_that_the_pool_began_with() -> None:
    """As many nodes in each of two zones are one more than the pool's own minimum."""
    stack = GoogleStack.with_cluster()
    scaling = {"totalMinNodeCount": 1, "totalMaxNodeCount": 4}
    stack.pool(initialNodeCount=1, nodeLocations=[ZONE, OTHER], autoscaling=scaling)
    found = group_of(stack)
    assert (found.min_nodes, found.target_nodes) == (1, 2)
    stack.cloud.release(found.name, "")
    assert group_of(stack).target_nodes == 1
    with pytest.raises(KeyError):
        stack.cloud.release("nobodys", "")


@pytest.mark.parametrize("suffices", [False, True])
def test_a_rehearsals_quota_suffices_for_its_pools_and_reservations(suffices: bool) -> None:
    """Two reserved machines of 8 GPUs use up the 16 that a simulated project has by itself; the
    first node of another pool would be one GPU too many."""
    reserved = Reservation(name="mine", type="a3-highgpu-8g", zone="us-central1-a", count=2)
    stack = GoogleStack.with_cluster(reservations=[reserved], quota_suffices=suffices)
    if not suffices:
        with pytest.raises(Refused, match="'GPUS_ALL_REGIONS' exceeded"):
            stack.pool(initialNodeCount=1)
        return
    stack.pool(initialNodeCount=1)
    assert stack.cloud.limit("GPUS_ALL_REGIONS") == 16 + group_of(stack).max_nodes


def test_the_quota_limits_growth() -> None:
    """The autoscaler's next node is refused where the GPUs of all pools together exceed it."""
    stack = GoogleStack.with_cluster(quota={"NVIDIA_T4_GPUS": 2})
    stack.pool()
    stack.pool("second")
    stack.cloud.set_size(group_of(stack).name, 1)
    stack.cloud.set_size(group_of(stack, "second").name, 1)
    with pytest.raises(RefusedError, match="GCE quota exceeded: Quota 'NVIDIA_T4_GPUS'"):
        stack.cloud.set_size(group_of(stack).name, 2)
    stack.cloud.set_size(group_of(stack, "second").name, 0)
    stack.cloud.set_size(group_of(stack).name, 2)


def test_a_boot_disk_that_the_machine_does_not_take_keeps_nodes_away() -> None:
    """GKE makes the pool, and only its first node fails to start, without any of another disk."""
    stack = GoogleStack.with_cluster()
    stack.pool(nodeConfig=t4(diskType="hyperdisk-balanced"))
    with pytest.raises(RefusedError, match="hyperdisk-balanced disk type cannot be used by n1-"):
        stack.cloud.set_size(group_of(stack).name, 1)
    right = {"machineType": "g4-standard-48", "diskType": "hyperdisk-balanced"}
    stack.pool("g4", nodeConfig=right, initialNodeCount=1, **G4_ZONE)
    assert group_of(stack, "g4").target_nodes == 1


@pytest.mark.parametrize(
    ("machine", "disk"),
    [
        ("g2-standard-4", "pd-standard"),
        ("g2-standard-4", "hyperdisk-balanced"),
        ("a2-highgpu-1g", "hyperdisk-balanced"),
        ("a3-highgpu-8g", "pd-standard"),
        ("a3-ultragpu-8g", "pd-balanced"),
        ("c3-standard-192-metal", "pd-balanced"),
    ],
)
def test_families_do_not_boot_from_every_disk(machine: str, disk: str) -> None:
    """By the table of GKE's own autoscaler."""
    with pytest.raises(ApiError, match=f"{disk} disk type cannot be used by {machine}"):
        machine_families.check_boot_disk({"machineType": machine, "diskType": disk})


@pytest.mark.parametrize(
    ("config", "gib", "label"),
    [
        ({}, 43, None),
        ({"ephemeralStorageLocalSsdConfig": {"localSsdCount": 2}}, 588, "ephemeral-storage-local"),
        ({"localNvmeSsdBlockConfig": {"localSsdCount": 2}}, 43, "local-nvme"),
        ({"ephemeralStorageLocalSsdConfig": {"localSsdCount": 2, "dataCacheCount": 2}}, 588,
         "ephemeral-storage-local"),
        ({"ephemeralStorageLocalSsdConfig": {"localSsdCount": 0, "dataCacheCount": 2}}, 43, None),
        ({"machineType": "a3-highgpu-2g"}, 1227, "ephemeral-storage-local"),
        ({"machineType": "a3-highgpu-2g", "localNvmeSsdBlockConfig": {"localSsdCount": 4}}, 43,
         "local-nvme"),
    ],
)  # fmt: skip
def test_pods_have_the_local_ssds_that_back_ephemeral_storage(
    config: dict[str, Any], gib: int, label: str | None
) -> None:
    """GKE uses those that a machine includes so by default."""
    node = one_pool(nodeConfig={**CPU, "machineType": "n1-standard-4", **config}).node
    assert int(node.capacity["ephemeral-storage"]) // 2**30 == gib
    found = [key for key in node.labels if key.startswith("cloud.google.com/gke-") and "ssd" in key]
    assert found == ([f"cloud.google.com/gke-{label}-ssd"] if label else [])


@pytest.mark.parametrize(
    ("machine", "pods", "cache", "refused"),
    [("n1-standard-4", 2, 2, False), ("n1-standard-4", 8, 1, True), ("n1-standard-4", 0, 2, False),
     ("a3-highgpu-2g", 2, 2, False), ("a3-highgpu-2g", 4, 2, True), ("a3-highgpu-2g", 0, 4, True)],
)  # fmt: skip
def test_local_ssds_for_data_cache_count_with_the_others(
    machine: str, pods: int, cache: int, *, refused: bool
) -> None:
    """With none for pods, GKE gives them all that a machine includes."""
    ssds = {"localSsdCount": pods, "dataCacheCount": cache}
    pool = {"config": {"machineType": machine, "ephemeralStorageLocalSsdConfig": ssds}}
    assert machine_families.ssd_labels(pool)["cloud.google.com/gke-data-cache-disk"] == str(cache)
    with pytest.raises(ApiError, match="should be one of") if refused else nullcontext():
        machine_families.check_ssds(pool)


@pytest.mark.parametrize(
    ("machine", "settings", "says"), TABLE["test_node_settings_beyond_gke_s_limits_are_refused"]
)
def test_node_settings_beyond_gke_s_limits_are_refused(
    machine: str, settings: dict[str, Any], says: str
) -> None:
    """The same settings at their limits are accepted."""
    pool = {"config": {"machineType": machine, "diskSizeGb": 100}}
    machine_families.check_node_settings(pool)
    pool["config"] |= settings
    with pytest.raises(ApiError, match=says):
        machine_families.check_node_settings(pool)


def test_node_settings_at_gke_s_limits_are_accepted() -> None:
    """On a machine that supports all of them."""
    kubelet = {
        "cpuCfsQuotaPeriod": "1s", "imageMinimumGcAge": "2m", "imageMaximumGcAge": "0s",
        "containerLogMaxSize": "100Mi", "containerLogMaxFiles": 10,
        "memoryManager": {"policy": "Static"}, "topologyManager": {"policy": "restricted"},
    }  # fmt: skip
    sysctls = {"vm.overcommit_memory": "2", "net.ipv4.tcp_wmem": "1 2 3", "kernel.shmmax": "0"}
    config = {
        "machineType": "a3-highgpu-8g", "diskSizeGb": 100, "maxRunDuration": "1209600s",
        "kubeletConfig": kubelet,
        "linuxNodeConfig": {"sysctls": sysctls, "hugepages": {"hugepageSize1g": 1400}},
    }  # fmt: skip
    machine_families.check_node_settings({"config": config, "placementPolicy": {"type": "COMPACT"}})


@pytest.mark.parametrize(
    ("ranges", "exhausted"),
    [
        ({"secondaryIpRanges": [{"rangeName": "pods", "ipCidrRange": "10.8.0.0/23"},
                                {"rangeName": "services", "ipCidrRange": "10.4.0.0/20"}]}, "-pods"),
        ({"ipCidrRange": "10.0.0.0/29"}, "/nodes-[0-9a-f]+"),
        ({}, None),
    ],
)  # fmt: skip
def test_nodes_take_addresses_of_the_cluster_s_ranges(
    ranges: dict[str, Any], exhausted: str | None
) -> None:
    """A /24 of the pods' range each, and one of the nodes' range, of which four are reserved."""
    stack = GoogleStack()
    network = stack.up(NETWORK, "net", {"autoCreateSubnetworks": False})
    within = stack.up(SUBNETWORK, "nodes", subnetwork(network["selfLink"], **ranges))
    stack.up(CLUSTER, "dev", cluster(within))
    stack.pool(initialNodeCount=1)
    stack.cloud.set_size(group_of(stack).name, 2)
    if exhausted is None:
        stack.cloud.set_size(group_of(stack).name, 5)
        return
    with pytest.raises(RefusedError, match=f"IP space of .*{exhausted}' is exhausted"):
        stack.cloud.set_size(group_of(stack).name, 5)


def test_spot_nodes_have_a_quota_of_their_own() -> None:
    """Spot GPUs count against the preemptible metric, and their nodes say so."""
    stack = GoogleStack.with_cluster(quota={"NVIDIA_T4_GPUS": 0})
    stack.pool(nodeConfig=t4(spot=True), initialNodeCount=1)
    group = group_of(stack)
    assert group.spot
    assert group.node.labels["cloud.google.com/gke-spot"] == "true"


def test_changes_are_announced() -> None:
    """The sandbox hears of every change of the groups, and only of those."""
    stack = GoogleStack()
    heard: list[int] = []
    stack.cloud.on_change(lambda: heard.append(len(stack.cloud.node_groups())))
    stack.cluster()
    assert heard == []
    stack.pool()
    stack.delete(POOL, "gpu")
    assert heard == [1, 0]


@pytest.mark.parametrize("changes", [FLEX_START, QUEUED], ids=["flex", "queued"])
def test_gke_upgrades_such_nodes_its_own_way(changes: dict[str, Any]) -> None:
    """SHORT_LIVED comes unasked; whoever asks for SURGE has a difference for ever."""
    stack = GoogleStack.with_cluster()
    declared = {**changes, "upgradeSettings": {"maxSurge": 0, "maxUnavailable": 1}}
    for _ in range(2):
        settings = stack.pool(**declared)["upgradeSettings"]
        assert settings == {"strategy": "SHORT_LIVED", "maxSurge": 0, "maxUnavailable": 0}
        found = stack.diff(POOL, "gpu", pool(**declared))[0]
        assert found["upgradeSettings.strategy"] == "UPDATE"
    assert stack.diff(POOL, "gpu", pool(**changes))[0] == {}


def test_image_streaming_left_out_after_it_was_on_stays_on() -> None:
    """The provider keeps what the pool has, so that off has to be said."""
    stack = GoogleStack.with_cluster()
    stack.pool(nodeConfig=t4(gcfsConfig={"enabled": True}))
    assert stack.diff(POOL, "gpu", pool())[0] == {}
    assert stack.pool()["nodeConfig"]["gcfsConfig"] == {"enabled": True}
    off = t4(gcfsConfig={"enabled": False})
    assert stack.diff(POOL, "gpu", pool(nodeConfig=off))[0] == {
        "nodeConfig.gcfsConfig.enabled": "UPDATE"
    }
    assert stack.pool(nodeConfig=off)["nodeConfig"]["gcfsConfig"] == {"enabled": False}


@pytest.mark.parametrize(
    ("disk", "streams", "says"),
    [
        ({"diskImage": "cuda"}, True, "diskImage 'cuda' is not a disk image"),
        ({"diskImage": "global/images/cuda", "mode": "CONTAINER_IMAGE_CACHE"}, False,
         "with mode CONTAINER_IMAGE_CACHE needs image streaming"),
    ],
    ids=["no image", "no streaming"],
)  # fmt: skip
def test_a_second_disk_comes_from_an_image(disk: dict[str, Any], streams: bool, says: str) -> None:
    """Container images on it are read by the plugin of image streaming."""
    stack = GoogleStack.with_cluster()
    config = t4(secondaryBootDisks=[disk], gcfsConfig={"enabled": streams})
    with pytest.raises(Refused, match=says):
        stack.pool(nodeConfig=config)


def test_a_second_disk_stays_as_it_is_and_its_change_replaces_the_pool() -> None:
    """The provider replaces the pool; GKE changes no disk of a running node."""
    stack = GoogleStack.with_cluster()
    disk = {"diskImage": "global/images/cuda", "mode": "CONTAINER_IMAGE_CACHE"}
    config = t4(secondaryBootDisks=[disk], gcfsConfig={"enabled": True})
    assert stack.pool(nodeConfig=config)["nodeConfig"]["secondaryBootDisks"] == [disk]
    other = disk | {"diskImage": "global/images/other"}
    changed = pool(nodeConfig=config | {"secondaryBootDisks": [other]})
    assert stack.diff(POOL, "gpu", changed)[0] == {
        "nodeConfig.secondaryBootDisks[0].diskImage": "UPDATE_REPLACE"
    }


def test_a_name_that_is_too_long_shows_when_the_pool_is_made() -> None:
    """The API alone knows the rule, so that a preview takes it; automatic names count as well."""
    stack = GoogleStack.with_cluster()
    name = "a" * 33  # and 8 more of the automatic name
    assert len(stack.preview(POOL, name, pool())["name"]) == 41
    with pytest.raises(Refused, match="must be no longer than 40 characters"):
        stack.pool(name)
    stack.pool(name[:-1])


def accelerator(kind: str = "nvidia-tesla-t4", count: int = 1, **more: Any) -> dict[str, Any]:
    return t4(guestAccelerators=[{"type": kind, "count": count, **more}])


@pytest.mark.parametrize(("changes", "reason"), TABLE["test_a_wrong_pool_is_refused"])
def test_a_wrong_pool_is_refused(changes: dict[str, Any], reason: str) -> None:
    """What GKE refuses is one line with the reason, and no pool is left."""
    stack = GoogleStack.with_cluster()
    with pytest.raises(Refused, match=one_line(reason)):
        stack.pool(**changes)
    assert stack.cloud.node_groups() == []


def test_a_queued_pool_starts_all_nodes_of_a_request_or_none() -> None:
    """Their taint keeps pods away that no request is for."""
    stack = GoogleStack.with_cluster()
    stack.pool(**QUEUED)
    name = group_of(stack).name
    stack.cloud.faults.quota["PREEMPTIBLE_NVIDIA_T4_GPUS"] = 3
    with pytest.raises(RefusedError, match="PREEMPTIBLE_NVIDIA_T4_GPUS") as refused:
        stack.cloud.start_together(name, 4, ZONE)
    assert refused.value.quota
    assert group_of(stack).target_nodes == 0
    stack.cloud.start_together(name, 3, ZONE)
    assert group_of(stack).target_nodes == 3
    assert group_of(stack).queued
    taint = NodeTaint(key="cloud.google.com/gke-queued", value="true", effect="NoSchedule")
    assert taint in group_of(stack).node.taints


@pytest.fixture
def scarce() -> GoogleStack:
    """A queued pool in two zones, each of which has two machines."""
    rows = [Stock(machine_type="n1-standard-4", zone=zone, nodes=2) for zone in (ZONE, OTHER)]
    stack = GoogleStack.with_cluster(quota_suffices=True, stock=rows)
    stack.pool(**QUEUED, nodeLocations=[ZONE, OTHER])
    return stack


def test_all_nodes_of_a_request_start_in_one_zone(scarce: GoogleStack) -> None:
    """Google recommends one that has the machines, and counts those that run there."""
    cloud, name = scarce.cloud, group_of(scarce).name
    assert group_of(scarce).zones == (ZONE, OTHER)
    assert cloud.recommend(name, 2, [ZONE, OTHER]) == ZONE
    cloud.start_together(name, 2, ZONE)
    assert cloud.recommend(name, 2, [ZONE, OTHER]) == OTHER
    assert cloud.recommend(name, 3, [ZONE, OTHER]) == ZONE
    with pytest.raises(RefusedError, match=f"zone 'projects/p/zones/{OTHER}'") as refused:
        cloud.start_together(name, 3, OTHER)
    assert not refused.value.quota
    cloud.start_together(name, 2, OTHER)


def test_the_nodes_of_every_pool_count_in_their_zone(scarce: GoogleStack) -> None:
    """A queued pool shares a zone's machines with others."""
    scarce.pool("plain", nodeLocations=[ZONE, OTHER])
    cloud, name, plain = scarce.cloud, group_of(scarce).name, group_of(scarce, "plain").name
    cloud.start_in(plain, 1, ZONE)
    cloud.in_zones[plain, ZONE] += 1
    cloud.start_together(name, 2, OTHER)
    assert cloud.recommend(name, 1, [OTHER, ZONE]) == ZONE
    cloud.start_together(name, 1, ZONE)
    with pytest.raises(RefusedError, match=f"EXHAUSTED: The zone 'projects/p/zones/{ZONE}'"):
        cloud.start_in(plain, 2, ZONE)


class Claims(Api):
    """An API server whose NodeClaims allow these zones."""

    def __init__(self, zones: list[str]) -> None:
        self.zones = zones

    def get(self, path: str, query: Any = None) -> dict[str, Any]:
        assert path.startswith(NODE_CLAIMS)
        requirement = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": self.zones}
        return {"spec": {"requirements": [requirement]}}


def requested(name: str, group: NodeGroup) -> dict[str, Any]:
    """A node of the group that the rehearsal's Karpenter has just created."""
    labels = {"karpenter.sh/nodepool": group.name, "kubernetes.io/hostname": name}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [STARTING]}}


@pytest.mark.parametrize(
    ("stock", "allowed", "started"),
    [
        ({}, [ZONE, OTHER], [ZONE, OTHER, ZONE, OTHER]),
        ({ZONE: 0}, [ZONE, OTHER], [OTHER, OTHER, OTHER, OTHER]),
        ({OTHER: 0}, [ZONE, OTHER], [ZONE, ZONE, ZONE, ZONE]),
        ({ZONE: 1}, [ZONE, OTHER], [ZONE, OTHER, OTHER, OTHER]),
        ({ZONE: 1, OTHER: 1}, [ZONE, OTHER], [ZONE, OTHER]),
        ({ZONE: 0}, [ZONE], []),
        ({}, [OTHER], [OTHER, OTHER, OTHER, OTHER]),
    ],
)
def test_a_pool_of_two_zones_grows_where_machines_are(
    stock: dict[str, int], allowed: list[str], started: list[str]
) -> None:
    """In both zones if it can, and in none in which its pods cannot run."""
    rows = [Stock(machine_type="n1-standard-4", zone=zone, nodes=n) for zone, n in stock.items()]
    stack = GoogleStack.with_cluster(quota_suffices=True, stock=rows)
    scaling = {"totalMinNodeCount": 0, "totalMaxNodeCount": 4}
    stack.pool(autoscaling=scaling, initialNodeCount=0, nodeLocations=[ZONE, OTHER])
    group, log = group_of(stack), EventLog()
    zones, seen = Zones(lambda: Claims(allowed), log, stack.cloud), list[str]()
    for number in range(4):
        refusal = zones.start(requested(f"n{number}", group), group, len(seen) + 1)
        assert bool(refusal) == (number >= len(started))
        if refusal:
            assert "ZONE_RESOURCE_POOL_EXHAUSTED" in refusal
            continue
        seen += zones.label(f"n{number}").values()
        zones.keep([f"n{number}" for number in range(4)])
    assert seen == started
    moved = replace(group, zones=(OTHER, "us-central1-c"))
    assert [zones.left(f"n{n}", moved) for n in range(len(seen))] == [z == ZONE for z in seen]


def test_the_nodes_of_a_regional_pool_start_in_all_zones() -> None:
    """GKE starts `initialNodeCount` nodes in each."""
    stack = GoogleStack.with_cluster()
    stack.pool(initialNodeCount=1, nodeLocations=[ZONE, OTHER])
    group = group_of(stack)
    zones = Zones(lambda: Claims([]), EventLog(), stack.cloud)
    kept = [zones.place(f"n{number}", group) for number in range(group.target_nodes)]
    assert [each.node.labels["topology.kubernetes.io/zone"] for each in kept] == [ZONE, OTHER]
    assert [each.provider_id for each in kept] == [f"gce://p/{zone}/" for zone in (ZONE, OTHER)]


def test_nodes_run_as_an_account_that_exists() -> None:
    """A service account of the stack, or of another project, is accepted."""
    stack = GoogleStack.with_cluster()
    email = stack.up(ACCOUNT, "gpu-nodes", {})["email"]
    stack.pool(nodeConfig=t4(serviceAccount=email))
    stack.pool("foreign", nodeConfig=t4(serviceAccount="x@other.iam.gserviceaccount.com"))
    stack.cloud.accounts = frozenset({"before@p.iam.gserviceaccount.com"})
    stack.pool("before", nodeConfig=t4(serviceAccount="before@p.iam.gserviceaccount.com"))


NODES: Sequence[tuple[dict[str, Any], str]] = [
    ({"nodeConfig": t4(machineType="n1-standard-8")}, "recreated"),
    ({"nodeConfig": t4(diskSizeGb=200)}, "recreated"),
    ({"nodeConfig": t4(diskType="pd-ssd")}, "recreated"),
    ({"nodeConfig": t4(imageType="UBUNTU_CONTAINERD")}, "recreated"),
    ({"nodeConfig": t4(gcfsConfig={"enabled": True})}, "recreated"),
    ({"nodeConfig": t4(kubeletConfig={"podPidsLimit": 4096})}, "recreated"),
    ({"nodeConfig": t4(linuxNodeConfig={"sysctls": {"net.core.somaxconn": "4096"}})}, "recreated"),
    ({"nodeConfig": t4(labels={"role": "other"})}, "kept"),
    ({"nodeConfig": t4(taints=[])}, "kept"),
    ({"nodeConfig": t4(tags=["one"])}, "kept"),
    ({"nodeLocations": [OTHER]}, "removed"),
    ({"autoscaling": {"totalMaxNodeCount": 4, "locationPolicy": "BALANCED"}}, "kept"),
    ({"upgradeSettings": {"maxSurge": 2, "maxUnavailable": 0}}, "kept"),
]
"""A change of a pool -> what happens to its nodes: GKE's reference of `UpdateNodePoolRequest`, and
https://cloud.google.com/kubernetes-engine/docs/concepts/managing-clusters."""


@pytest.mark.parametrize(("changes", "nodes"), NODES)
def test_gke_recreates_or_removes_nodes_for_some_changes(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], nodes: str
) -> None:
    """Labels and taints are set on the running nodes. The program warns of all other changes."""
    stack = GoogleStack.with_cluster()
    before = pool(nodeLocations=[ZONE, OTHER], nodeConfig=t4(taints=[TEAM]))
    stack.pool(**before)
    group = group_of(stack)
    after = before | changes
    stack.pool(**after)
    assert group_of(stack).revision - group.revision == (nodes == "recreated")
    assert ({*group.zones} - {*group_of(stack).zones} != set()) == (nodes == "removed")

    lines: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda line, *_: lines.append(line))
    monkeypatch.setattr(pulumi, "ResourceHook", lambda name, callback, opts: callback)
    (hook,) = recycling_check("pool", "gpuPools.gpu", (0, 3)).before_update or ()
    hook(
        pulumi.ResourceHookArgs(
            urn="u", id="", name="pool", type="", old_inputs=before, new_inputs=after
        )
    )
    assert [line.rpartition(" [")[2] for line in lines] == ["GPUC-RECYCLE-GPU-POOL]"] * (
        nodes != "kept"
    )


def test_each_setting_that_updates_a_pool_has_a_row() -> None:
    """Of the inputs that settings of a GPU pool set; a change of the others replaces the pool."""
    hints = typing.get_type_hints(GkeGpuNodePoolArgs, include_extras=True).values()
    markers = [each for hint in hints for each in getattr(hint, "__metadata__", ())]
    paths = {
        path.removeprefix("NodePool ")
        for marker in markers
        if isinstance(marker, Sent)
        for path in marker.inputs
        if path.startswith("NodePool ") and "(" not in path
    }
    replaces = facts.of(POOL).replaces
    rows = {
        f"nodeConfig.{key}" if name == "nodeConfig" else name
        for changes, _ in NODES
        for name, value in changes.items()
        for key in (value if name == "nodeConfig" else [""])
    }
    missing = [
        path
        for path in sorted(paths)
        if not replaces(path)
        and not any(f"{path}.".replace("[]", "").startswith(f"{row}.") for row in rows)
    ]
    assert missing == []


def test_an_update_that_outlasts_the_provider_fails() -> None:
    """Twenty nodes, one after the other, take more than the two hours that it waits by itself."""
    stack = GoogleStack.with_cluster(quota={"NVIDIA_T4_GPUS": 100, "GPUS_ALL_REGIONS": 100})
    settings = {"upgradeSettings": {"maxSurge": 0, "maxUnavailable": 1}}
    many = {"autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 20}, **settings}
    stack.pool(**many)
    stack.cloud.set_size(group_of(stack).name, 20)
    larger = pool(nodeConfig=t4(diskSizeGb=200), **many)
    with pytest.raises(Refused, match=r"takes some 140 minutes and goes on .*timeout: 120m0s"):
        stack.up(POOL, "gpu", larger)
    stack.up(POOL, "gpu", pool(nodeConfig=t4(diskSizeGb=300), **many), waits=6 * 3600)


def test_an_update_waits_for_the_operation_before_it() -> None:
    """GKE carries on when the client that began it is gone: the provider repeats its request."""
    ended = threading.Event()
    updates: list[bool] = []
    """For each request to update, whether the operation had ended."""

    def seen(request: Request) -> None:
        if request[0] == "PUT":
            updates.append(ended.is_set())

    stack = GoogleStack.with_cluster(seen=seen)
    stack.pool()
    scope = "projects/p/locations/us-central1-a"
    target = f"{scope}/clusters/dev/nodePools/{group_of(stack).name}"
    stack.cloud.operations.begin("container", scope, "UPGRADE_NODES", target, work=ended.wait)
    threading.Timer(0.3, ended.set).start()
    updates.clear()
    stack.pool(nodeConfig=t4(labels={"role": "other"}))
    assert len(updates) > 1
    assert (updates[0], updates[-1]) == (False, True)


def test_an_update_after_a_failed_one_counts_its_own_time() -> None:
    """The first one recreates twenty nodes and fails at the size; the next one recreates none."""
    stack = GoogleStack.with_cluster(quota={"NVIDIA_T4_GPUS": 20, "GPUS_ALL_REGIONS": 20})
    many = {"upgradeSettings": {"maxSurge": 0, "maxUnavailable": 1}, "autoscaling": None}
    stack.pool(nodeCount=20, initialNodeCount=None, **many)
    larger = pool(nodeConfig=t4(diskSizeGb=200), initialNodeCount=None, **many)
    with pytest.raises(Refused, match="GCE quota exceeded"):
        stack.up(POOL, "gpu", larger | {"nodeCount": 21})
    stack.up(POOL, "gpu", larger | {"nodeCount": 20})


def test_a_short_cluster_name_is_another_to_the_provider() -> None:
    """As `pulumi import` writes it; the command that recovers gives such a pool the full name."""
    stack = GoogleStack.with_cluster()
    whole = "projects/p/locations/us-central1-a/clusters/dev"
    stack.pool(cluster="dev")
    found, answer = stack.diff(POOL, "gpu", pool(cluster=whole))
    assert found == {"cluster": "UPDATE_REPLACE"}
    assert list(answer.replaces) == ["cluster"]
