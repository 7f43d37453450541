"""Settings of GKE that a reader could delete from the code and no other test would miss."""

from typing import Any

import pytest

from components.gke.cluster_args import GkeClusterArgs
from components.gke.network_args import GkeNetworkArgs
from components.gke.node_args import GkeKubeletArgs, GkeLinuxArgs, GkeUpgradeArgs
from components.gke.pool_args import GkeGpuNodePoolArgs
from components.gke.sharing_args import GkeSharingArgs
from components.gke_autopilot.pool_args import GkeAutopilotPoolArgs
from tests.components.test_gke import CLUSTER, T4, declare, pool_of
from tests.components.test_gke_control_plane import autopilot_cluster

SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
KEY = "projects/p/locations/us-central1/keyRings/ring/cryptoKeys/key"
BOTH = pytest.mark.parametrize("make", [declare, autopilot_cluster])


def g2(**changes: Any) -> GkeGpuNodePoolArgs:
    """A pool with one L4."""
    return GkeGpuNodePoolArgs(machine_type="g2-standard-4", **changes)


def test_compact_placement_is_a_placement_policy() -> None:
    """Nodes close together, or wherever there is room."""
    assert pool_of(g2(compact_placement=True)).inputs["placementPolicy"] == {"type": "COMPACT"}
    assert "placementPolicy" not in pool_of(g2()).inputs


def test_flex_start_is_said_in_the_node_config() -> None:
    """With it GKE waits for capacity; the nodes come out of no reservation."""
    config = pool_of(g2(capacity_type="flex-start")).inputs["nodeConfig"]
    assert config["flexStart"] is True
    assert config["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert "flexStart" not in pool_of(g2()).inputs["nodeConfig"]


def test_a_queued_pool_starts_the_nodes_of_a_request_together() -> None:
    """How long its nodes live each request says; its pods tolerate what GKE taints them with."""
    args = g2(capacity_type="flex-start", queued=True, max_run_duration_seconds=86_400)
    inputs = pool_of(args).inputs
    assert inputs["queuedProvisioning"] == {"enabled": True}
    assert "maxRunDuration" not in inputs["nodeConfig"]
    pool = args.gpu_pool("pool")
    assert pool.all_at_once is not None
    assert pool.all_at_once.parameters == {"maxRunDurationSeconds": "86400"}
    assert "cloud.google.com/gke-queued" in [each.key for each in pool.tolerations]
    assert "queuedProvisioning" not in pool_of(g2(capacity_type="flex-start")).inputs


def test_nodes_live_as_long_as_they_may() -> None:
    """In seconds, as the API writes durations."""
    limited = g2(capacity_type="flex-start", max_run_duration_seconds=86_400)
    assert pool_of(limited).inputs["nodeConfig"]["maxRunDuration"] == "86400s"
    assert "maxRunDuration" not in pool_of(g2()).inputs["nodeConfig"]


def test_machines_that_come_with_gpus_have_the_fast_interface() -> None:
    """Left out, GKE turns it on for some of them by itself, which shows as a difference."""
    assert pool_of(g2()).inputs["nodeConfig"]["gvnic"] == {"enabled": True}
    assert "gvnic" not in pool_of(T4).inputs["nodeConfig"]


@pytest.mark.parametrize("first", [True, False])
def test_the_order_of_a_replacement_is_the_engine_s_option(first: bool) -> None:
    """GPUs are scarce: by default the old pool goes first."""
    assert pool_of(g2(delete_before_replace=first)).delete_before_replace is first
    assert pool_of(g2()).delete_before_replace is True


def test_a_pool_s_labels_are_the_nodes() -> None:
    """Beside those by which the stack's own pods find the pool."""
    labels = pool_of(g2(labels={"role": "train", "example.com/tier": "a"})).inputs["nodeConfig"]
    assert labels["labels"]["role"] == "train"
    assert labels["labels"]["example.com/tier"] == "a"
    assert labels["labels"]["gpu-cluster/pool"] == "pool"


@BOTH
def test_secrets_are_encrypted_with_the_key_that_is_named(make: Any) -> None:
    """On top of Google's own encryption."""
    assert make(secrets_encryption_key=KEY).one(CLUSTER).inputs["databaseEncryption"] == {
        "state": "ENCRYPTED",
        "keyName": KEY,
    }
    # Said, since the provider would keep a key that was there before.
    assert make().one(CLUSTER).inputs["databaseEncryption"] == {"state": "DECRYPTED"}


@BOTH
def test_the_cluster_s_labels_are_for_billing(make: Any) -> None:
    """On the resource, not on the nodes."""
    assert make(labels={"team": "ml"}).one(CLUSTER).inputs["resourceLabels"] == {
        "team": "ml",
        "gpu-cluster-stack": "gpu-cluster_test",
    }


@BOTH
def test_flow_logs_are_the_subnetwork_s(make: Any) -> None:
    """They are off unless asked for."""
    found = make(network=GkeNetworkArgs(flow_logs=True)).one(SUBNETWORK)
    assert found.inputs["logConfig"] == {
        "aggregationInterval": "INTERVAL_10_MIN",
        "flowSampling": 0.5,
    }
    assert "logConfig" not in make().one(SUBNETWORK).inputs


def test_flow_logs_see_the_traffic_within_a_node() -> None:
    """CIS GKE 5.6.1 wants both; without logs nobody would read it."""
    for logs in (True, False):
        found = declare(network=GkeNetworkArgs(flow_logs=logs)).one(CLUSTER)
        assert found.inputs["enableIntranodeVisibility"] is logs


SELECTORS = {
    "cloud.google.com/gke-accelerator-count": ({"gpus_per_node": 2}, "2"),
    "cloud.google.com/gke-spot": ({"capacity_type": "spot"}, "true"),
    "cloud.google.com/gke-flex-start": ({"capacity_type": "flex-start"}, "true"),
    "cloud.google.com/reservation-name": (
        {"capacity_type": "reservation", "reservation": "mine"},
        "mine",
    ),
    "cloud.google.com/reservation-affinity": (
        {"capacity_type": "reservation", "reservation": "mine"},
        "specific",
    ),
    "cloud.google.com/gke-gpu-driver-version": ({"driver_version": "latest"}, "latest"),
    "cloud.google.com/gke-gpu-sharing-strategy": (
        {"sharing": GkeSharingArgs(strategy="time-slicing", replicas=3)},
        "time-sharing",
    ),
    "cloud.google.com/gke-max-shared-clients-per-gpu": (
        {"sharing": GkeSharingArgs(strategy="time-slicing", replicas=3)},
        "3",
    ),
    "cloud.google.com/gke-gpu-partition-size": (
        {
            "accelerator": "nvidia-tesla-a100",
            "sharing": GkeSharingArgs(strategy="mig", partition="1g.5gb"),
        },
        "1g.5gb",
    ),
}


@pytest.mark.parametrize("label", SELECTORS)
def test_on_autopilot_a_setting_is_a_selector(label: str) -> None:
    """Pods say to GKE what their nodes are to be; a pool without the setting does not."""
    given, value = SELECTORS[label]
    asked = GkeAutopilotPoolArgs(**{"accelerator": "nvidia-l4", **given}).gpu_pool("pool")
    assert asked.node_selector[label] == value
    assert label not in GkeAutopilotPoolArgs(accelerator="nvidia-l4").gpu_pool("p").node_selector


@BOTH
def test_an_existing_subnetwork_is_named_and_nothing_of_a_network_is_made(make: Any) -> None:
    """So that nothing of the network team's is changed, destroyed or adopted by a recovery."""
    names = {"vpc": "shared", "subnetwork": "gke", "pods_range": "p", "services_range": "s"}
    found = make(network=GkeNetworkArgs(**names, host_project="company-net"))
    assert [one.type for one in found.resources if one.type.startswith("gcp:compute/")] == []
    inputs = found.one(CLUSTER).inputs
    assert inputs["network"] == "projects/company-net/global/networks/shared"
    assert inputs["subnetwork"] == "projects/company-net/regions/us-central1/subnetworks/gke"
    assert inputs["ipAllocationPolicy"] == {
        "clusterSecondaryRangeName": "p",
        "servicesSecondaryRangeName": "s",
    }
    own = make(network=GkeNetworkArgs(**names)).one(CLUSTER).inputs
    assert own["network"] == "projects/my-project/global/networks/shared"


def test_limits_of_a_zone_are_gke_s_own() -> None:
    """Then GKE counts in each zone, and pods, the bill and the quota the sum of them."""
    args = g2(limits_per="zone", max_nodes=2, zones=["us-central1-a", "us-central1-b"])
    assert pool_of(args).inputs["autoscaling"] == {
        "minNodeCount": 0,
        "maxNodeCount": 2,
        "locationPolicy": "ANY",
    }
    cluster = GkeClusterArgs(
        name="dev", location="us-central1-a", authorized_networks={"office": "203.0.113.0/24"}
    )
    assert args.resolve("pool", cluster).pool.bounds == (0, 4)


def test_kubelet_and_kernel_are_as_the_api_spells_them() -> None:
    """Managers are blocks, modes are enumerations."""
    config = pool_of(
        g2(
            kubelet=GkeKubeletArgs(
                cpu_manager_policy="static", topology_manager_policy="restricted"
            ),
            linux=GkeLinuxArgs(
                sysctls={"vm.max_map_count": "262144"}, cgroup_mode="v2", hugepages_1g=2
            ),
            network_tags=["gpu"],
            service_account="own@p.iam.gserviceaccount.com",
        )
    ).inputs["nodeConfig"]
    assert config["kubeletConfig"] == {
        "cpuManagerPolicy": "static",
        "topologyManager": {"policy": "restricted"},
    }
    assert config["linuxNodeConfig"] == {
        "sysctls": {"vm.max_map_count": "262144"},
        "cgroupMode": "CGROUP_MODE_V2",
        "hugepagesConfig": {"hugepageSize1g": 2},
    }
    assert config["tags"] == ["gpu"]
    assert config["serviceAccount"] == "own@p.iam.gserviceaccount.com"


def test_an_upgrade_is_node_by_node_or_with_a_second_set() -> None:
    """Blue-green keeps the old nodes for an hour, and drains one at a time, unless told."""
    assert pool_of(g2()).inputs["upgradeSettings"] == {"maxSurge": 0, "maxUnavailable": 1}
    surge = pool_of(g2(upgrade=GkeUpgradeArgs(max_surge=2, max_unavailable=0)))
    assert surge.inputs["upgradeSettings"] == {"maxSurge": 2, "maxUnavailable": 0}
    blue = pool_of(g2(upgrade=GkeUpgradeArgs(strategy="blue-green", soak_seconds=0)))
    assert blue.inputs["upgradeSettings"] == {
        "strategy": "BLUE_GREEN",
        "blueGreenSettings": {
            "standardRolloutPolicy": {"batchNodeCount": 1, "batchSoakDuration": "0s"},
            "nodePoolSoakDuration": "0s",
        },
    }
