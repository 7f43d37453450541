"""GKE Standard: what follows from the less usual choices, on which the API would say no."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.components.catalog import room
from gpu_cluster.components.gke.cluster_args import GkeClusterArgs
from gpu_cluster.components.gke.immutable import POOL
from gpu_cluster.components.gke.network_args import GkeNetworkArgs
from gpu_cluster.components.gke.node_args import GkeUpgradeArgs
from gpu_cluster.components.gke.node_identity import account_id
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.gke.sharing_args import GkeSharingArgs
from gpu_cluster.components.gke_autopilot.pool_args import GkeAutopilotPoolArgs
from gpu_cluster.components.schema.on_change import change_rules
from tests.components.recording import Registration
from tests.components.test_gke import CLUSTER, NODE_POOL, declare, pool_of
from tests.components.test_gke_control_plane import autopilot_cluster

LONG = "gpu-cluster-of-the-research-group-europe"
API_LIMIT = 40
SUFFIX = 8
"""What auto-naming appends to a logical name."""


def in_zone(args: GkeGpuNodePoolArgs) -> Registration:
    """The pool in a cluster at us-central1-b, where the newest machines are."""
    return declare({"pool": args}, location="us-central1-b").one(NODE_POOL, "pool")


@pytest.mark.parametrize(
    ("upgrade", "minutes"),
    [
        ({}, 135),
        ({"strategy": "blue-green"}, 195),
        ({"strategy": "blue-green", "soak_seconds": 7200}, 255),
        (
            {
                "strategy": "blue-green", "soak_seconds": 0,
                "batch_node_count": 2, "batch_soak_seconds": 610,
            },
            166,
        ),
    ],
)  # fmt: skip
def test_an_upgrade_has_the_time_in_which_it_only_waits(
    upgrade: dict[str, Any], minutes: int
) -> None:
    """In addition to that of its five nodes: after each batch, and before the old ones go."""
    args = GkeGpuNodePoolArgs(
        machine_type="g2-standard-4", max_nodes=5, upgrade=GkeUpgradeArgs(**upgrade)
    )
    assert pool_of(args).update_timeout == f"{minutes}m"


def test_a_queued_pool_starts_the_nodes_of_a_request_together() -> None:
    """How long its nodes live each request says; its pods tolerate what GKE taints them with."""
    args = GkeGpuNodePoolArgs(
        machine_type="g2-standard-4",
        capacity_type="flex-start",
        queued=True,
        max_run_duration_seconds=86_400,
    )
    inputs = pool_of(args).inputs
    assert inputs["queuedProvisioning"] == {"enabled": True}
    assert "maxRunDuration" not in inputs["nodeConfig"]
    pool = args.gpu_pool("pool")
    assert pool.all_at_once is not None
    assert pool.all_at_once.parameters == {"maxRunDurationSeconds": "86400"}
    # So another duration replaces no pool.
    assert "max_run_duration_seconds" not in change_rules(GkeGpuNodePoolArgs)
    assert [one.pool_run_duration_seconds for one in (args, replace(args, queued=False))] == [
        None,
        86_400,
    ]
    assert POOL["pool_run_duration_seconds"] == "GPU pool"
    assert "cloud.google.com/gke-queued" in [toleration.key for toleration in pool.tolerations]


@pytest.mark.parametrize(
    ("machine", "capacity", "disk"),
    [
        ("g4-standard-48", "on-demand", "hyperdisk-balanced"),
        ("a3-ultragpu-8g", "spot", "hyperdisk-balanced"),
        ("a4-highgpu-8g", "spot", "hyperdisk-balanced"),
        ("a3-highgpu-8g", "on-demand", "pd-balanced"),
        ("g2-standard-4", "on-demand", "pd-balanced"),
    ],
)
def test_a_node_boots_from_a_disk_that_its_machine_takes(
    machine: str, capacity: str, disk: str
) -> None:
    """Without a choice it is a disk type that the machine type can have."""
    args = GkeGpuNodePoolArgs(machine_type=machine, capacity_type=capacity)  # type: ignore[arg-type]
    assert in_zone(args).inputs["nodeConfig"]["diskType"] == disk


SSDS = "nodeConfig.ephemeralStorageLocalSsdConfig"


@pytest.mark.parametrize(
    ("pool", "sent", "ignored"),
    [
        ({"machine_type": "g2-standard-24", "local_storage": "block"},
         {"localNvmeSsdBlockConfig": {"localSsdCount": 2}}, False),
        ({"machine_type": "a2-highgpu-1g", "local_storage": "ephemeral", "local_ssd_count": 4},
         {"ephemeralStorageLocalSsdConfig": {"localSsdCount": 4}}, False),
        ({"machine_type": "a3-highgpu-8g", "local_storage": "block"},
         {"localNvmeSsdBlockConfig": {"localSsdCount": 16}}, False),
        ({"machine_type": "a2-highgpu-1g", "local_storage": "ephemeral", "local_ssd_count": 4,
          "data_cache_count": 4},
         {"ephemeralStorageLocalSsdConfig": {"localSsdCount": 0, "dataCacheCount": 4}}, False),
        ({"machine_type": "a3-highgpu-8g", "local_storage": "ephemeral", "data_cache_count": 2},
         {"ephemeralStorageLocalSsdConfig": {"localSsdCount": 14, "dataCacheCount": 2}}, False),
        ({"machine_type": "a3-highgpu-8g", "data_cache_count": 2},
         {"ephemeralStorageLocalSsdConfig": {"localSsdCount": 14, "dataCacheCount": 2}}, False),
        ({"machine_type": "a3-highgpu-8g"}, {}, True),
    ],
)  # fmt: skip
def test_gke_uses_local_ssds_as_the_pool_says(
    pool: dict[str, Any], sent: dict[str, Any], *, ignored: bool
) -> None:
    """What it does with those of a machine by itself does not count as a difference."""
    declared = pool_of(GkeGpuNodePoolArgs(**pool))
    config = declared.inputs["nodeConfig"]
    assert {key: config[key] for key in config if "Ssd" in key} == sent
    assert (SSDS in declared.ignore_changes) is ignored


def test_local_ssds_for_data_cache_are_no_disk_of_pods() -> None:
    """Only such nodes attach disks of the classes with a cache."""
    ssds: dict[str, Any] = {"machine_type": "a2-highgpu-1g", "local_storage": "ephemeral"}
    pools = [
        GkeGpuNodePoolArgs(**ssds, local_ssd_count=4, data_cache_count=count).gpu_pool("a")
        for count in (None, 2, 4)
    ]
    assert [pool.disk_mib for pool in pools] == [
        room.gke_ssds(4, 1500), room.gke_ssds(2, 750), room.gke_disk(100, "cos"),
    ]  # fmt: skip
    assert ["gpu-cluster-data-cache" in pool.unattachable for pool in pools] == [True, False, False]


def test_a_reservation_is_looked_for_in_the_zones_that_are_named() -> None:
    """Reservations of the same name may be in several zones; who names these is believed."""
    args = GkeGpuNodePoolArgs(
        machine_type="a2-highgpu-1g",
        capacity_type="reservation",
        reservation="mine",
        zones=["us-central1-a", "us-central1-b"],
    )
    pool = declare({"pool": args}, location="us-central1").one(NODE_POOL, "pool")
    assert pool.inputs["nodeLocations"] == ["us-central1-a", "us-central1-b"]
    assert pool.inputs["nodeConfig"]["reservationAffinity"]["values"] == ["mine"]


def test_any_reservation_is_one_that_nobody_names() -> None:
    """GKE buys a node if there is none: it is an on-demand node all the same."""
    args = GkeGpuNodePoolArgs(machine_type="a2-highgpu-1g", any_reservation=True)
    config = pool_of(args).inputs["nodeConfig"]
    assert config["reservationAffinity"] == {"consumeReservationType": "ANY_RESERVATION"}
    assert config["spot"] is False


@pytest.mark.parametrize(
    "path", ["projects/owner-1/reservations/theirs", "mine/reservationBlocks/mine-block-0001"]
)
def test_a_shared_reservation_and_a_block_are_named_as_gke_has_them(path: str) -> None:
    """The whole path is one value of the affinity."""
    args = GkeGpuNodePoolArgs(
        machine_type="a3-ultragpu-8g", capacity_type="reservation", reservation=path
    )
    pool = declare({"pool": args}, location="us-south1-b").one(NODE_POOL, "pool")
    assert pool.inputs["nodeConfig"]["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [path],
    }


@pytest.mark.parametrize(
    ("wanted", "config", "role"),
    [(True, {"enabled": True}, True), (False, {"enabled": False}, False), (None, None, False)],
)
def test_image_streaming_can_be_turned_on_and_off(
    wanted: bool | None, config: dict[str, bool] | None, role: bool
) -> None:
    """Nodes that stream may use the project's services; off is said, since left out means as is."""
    args = GkeGpuNodePoolArgs(machine_type="g2-standard-4", image_streaming=wanted)
    recording = declare({"pool": args})
    assert recording.one(NODE_POOL, "pool").inputs["nodeConfig"].get("gcfsConfig") == config
    members = recording.of("gcp:projects/iAMMember:IAMMember")
    roles = {member.inputs["role"] for member in members}
    assert ("roles/serviceusage.serviceUsageConsumer" in roles) is role


def test_the_longest_cluster_name_leaves_room_for_the_system_pool_s() -> None:
    """A cluster's name may have 40 characters, and so may a pool's with its suffixes."""
    assert len(LONG) == API_LIMIT
    names = [pool.name for pool in declare(name=LONG).of(NODE_POOL)]
    assert names == ["gpu-cluster-of-the-resear-system", "train-gpu"]
    assert all(len(name) + SUFFIX <= API_LIMIT for name in names)


def test_long_names_that_begin_alike_have_accounts_of_their_own() -> None:
    """The account's ID is short, unique in the project, and a known cluster keeps its own."""
    ids = [account_id(name) for name in (LONG, f"{LONG[:-1]}a", "gpu-dev", "a" * 24)]
    assert len(set(ids)) == 4
    assert all(6 <= len(one) <= 30 for one in ids)
    assert ids[2:] == ["gpu-dev-nodes", f"{'a' * 24}-nodes"]
    account = declare(name=LONG).one("gcp:serviceaccount/account:Account")
    assert account.inputs["accountId"] == ids[0]


@pytest.mark.parametrize(
    ("location", "zones", "count"),
    [("us-central1-a", [], 4), ("us-central1", [], 2), ("us-central1", ["us-central1-a"], 4)],
)
def test_the_system_pool_starts_at_its_minimum(location: str, zones: list[str], count: int) -> None:
    """The initial count is per zone, and the autoscaler does not start what is below a minimum."""
    from gpu_cluster.components.gke.cluster_args import GkeSystemPoolArgs

    pool = GkeSystemPoolArgs(min_nodes=4, max_nodes=6)
    cluster = declare({}, location=location, zones=zones, system_pool=pool)
    assert cluster.one(NODE_POOL).inputs["initialNodeCount"] == count


@pytest.mark.parametrize(
    ("label", "changes", "value"),
    [
        ("gke-flex-start", {"capacity_type": "flex-start"}, "true"),
        ("gke-gpu-partition-size",
            {"accelerator": "nvidia-tesla-a100", "sharing": GkeSharingArgs(strategy="mig",
                partition="1g.5gb")}, "1g.5gb"),
    ],
)  # fmt: skip
def test_on_autopilot_a_setting_is_a_selector(
    label: str, changes: dict[str, Any], value: str
) -> None:
    """Pods tell GKE what their nodes must be; the other settings are in `autopilot_choices.txt`."""
    pool = GkeAutopilotPoolArgs(**{"accelerator": "nvidia-l4", **changes}).gpu_pool("pool")
    assert pool.node_selector[f"cloud.google.com/{label}"] == value


@pytest.mark.parametrize("make", [declare, autopilot_cluster])
def test_an_existing_subnetwork_without_a_host_project_is_the_stack_s_project_s(make: Any) -> None:
    """Nothing of a network is declared, also with one (`dev_choices.txt`)."""
    names = {"vpc": "shared", "subnetwork": "gke", "pods_range": "p", "services_range": "s"}
    found = make(network=GkeNetworkArgs(**names))
    assert [each.type for each in found.resources if each.type.startswith("gcp:compute/")] == []
    assert found.one(CLUSTER).inputs["network"] == "projects/my-project/global/networks/shared"


def test_limits_of_a_zone_add_up() -> None:
    """GKE counts in each zone; pods, the bill and the quota have the sum."""
    args = GkeGpuNodePoolArgs(
        machine_type="g2-standard-4",
        limits_per="zone",
        max_nodes=2,
        zones=["us-central1-a", "us-central1-b"],
    )
    cluster = GkeClusterArgs(
        name="dev", location="us-central1-a", authorized_networks={"office": "203.0.113.0/24"}
    )
    assert args.resolve("pool", cluster).pool.bounds == (0, 4)
