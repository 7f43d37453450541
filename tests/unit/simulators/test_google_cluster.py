import base64
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.simulators.google import GoogleCloud
from tests.unit.plugins.offline_engine import Plane, Refused
from tests.unit.refusals import one_line
from tests.unit.simulators.google_stack import (
    ACCOUNT_MEMBER,
    AUTOPILOT,
    CLUSTER,
    POOL,
    SUBNETWORK,
    GoogleStack,
    cluster,
    pool,
)

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""


def test_a_cluster_starts_its_control_plane() -> None:
    """The endpoint and the certificate are the real control plane's, which ends with it."""
    stack = GoogleStack()
    outputs = stack.cluster()
    assert stack.plane.running
    assert outputs["endpoint"] == Plane.endpoint
    authority = outputs["masterAuth"]["clusterCaCertificate"]
    assert base64.b64decode(authority) == Plane.ca_certificate
    stack.delete(CLUSTER, "dev")
    assert not stack.plane.running


def test_a_control_plane_that_does_not_start_leaves_no_cluster() -> None:
    """The error reaches the engine, and nothing stays behind."""

    class Broken(Plane):
        def ensure_started(self, version: str = "") -> None:
            raise RuntimeError("no port")

    stack = GoogleStack()
    stack.cloud.control_plane = Broken()
    with pytest.raises(Refused, match="Error waiting for creating GKE cluster: no port"):
        stack.cluster()
    assert not [line for line in stack.cloud.list_resources() if line.startswith("cluster")]


@pytest.mark.parametrize(
    ("changes", "there"),
    [
        ({}, True),
        ({"monitoringConfig": {"managedPrometheus": {"enabled": True}}}, True),
        ({"monitoringConfig": {"managedPrometheus": {"enabled": False}}}, False),
    ],
)
def test_managed_prometheus_brings_its_kinds(changes: dict[str, Any], there: bool) -> None:
    """What to scrape can be said on a cluster whose Prometheus GKE runs, and on no other."""
    stack = GoogleStack.with_cluster(**changes)
    assert ("ClusterPodMonitoring" in stack.plane.kinds) == there


def test_managed_prometheus_brings_its_kinds_when_it_is_turned_on() -> None:
    """An update that turns it on is enough."""
    off = {"enableComponents": ["SYSTEM_COMPONENTS"], "managedPrometheus": {"enabled": False}}
    stack = GoogleStack.with_cluster(monitoringConfig=off)
    assert {*stack.plane.kinds} == {"ComputeClass", "ProvisioningRequest"}
    stack.cluster(monitoringConfig={**off, "managedPrometheus": {"enabled": True}})
    assert "PodMonitoring" in stack.plane.kinds


@pytest.mark.parametrize(
    "switch",
    [
        ["monitoringConfig", "managedPrometheus", "enabled"],
        ["addonsConfig", "gcsFuseCsiDriverConfig", "enabled"],
        ["addonsConfig", "gcePersistentDiskCsiDriverConfig", "enabled"],
        ["controlPlaneEndpointsConfig", "dnsEndpointConfig", "allowExternalTraffic"],
        ["costManagementConfig", "enabled"],
        ["enableIntranodeVisibility"],
        ["enableL4IlbSubsetting"],
    ],
    ids=lambda path: path[-2] if len(path) > 1 else path[0],
)
def test_what_is_turned_off_is_off(switch: list[str]) -> None:
    """The provider leaves a false out of its request: a message without it means false, and the
    next update has nothing to do."""

    def inputs(on: bool) -> dict[str, Any]:
        value: Any = on
        for key in reversed(switch[1:]):
            value = {key: value}
        return cluster(network, **{switch[0]: value})

    stack = GoogleStack()
    network = stack.network()
    for on in (True, False, True):
        stack.up(CLUSTER, "dev", inputs(on))
        found: Any = stack.refresh(CLUSTER, "dev")
        for key in switch:
            found = found[key]
        assert found is on
        assert stack.diff(CLUSTER, "dev", inputs(on))[0] == {}


def test_one_cluster_at_a_time() -> None:
    """A second cluster is refused with the first one's name."""
    stack = GoogleStack.with_cluster()
    network = stack.state[stack.urn(SUBNETWORK, "nodes")][2]
    with pytest.raises(Refused, match="simulates one cluster at a time, and has projects"):
        stack.up(CLUSTER, "second", cluster(network, name="second"))


def test_deletion_protection_refuses_a_delete() -> None:
    """It is on unless it is set to false and applied; then the delete goes through."""
    stack = GoogleStack.with_cluster(deletionProtection=None)
    with pytest.raises(Refused, match="deletion_protection is set to true"):
        stack.delete(CLUSTER, "dev")
    assert stack.plane.running
    stack.cluster()
    stack.delete(CLUSTER, "dev")


def test_an_imported_cluster_is_protected() -> None:
    """A state that says nothing of deletionProtection counts as protected."""
    stack = GoogleStack.with_cluster()
    identity, inputs, outputs = stack.state[stack.urn(CLUSTER, "dev")]
    del outputs["deletionProtection"]
    with pytest.raises(Refused, match="deletion_protection is set to true"):
        stack.delete(CLUSTER, "dev")
    assert identity in stack.cloud.resources
    assert inputs["deletionProtection"] is False


def test_node_pools_die_with_their_cluster() -> None:
    """A pool whose cluster is gone is gone; deleting it then is no error."""
    stack = GoogleStack.with_cluster()
    stack.pool()
    stack.delete(CLUSTER, "dev")
    assert stack.cloud.node_groups() == []
    assert stack.refresh(POOL, "gpu") is None


def test_a_subnetwork_outlives_its_cluster() -> None:
    """The subnetwork is refused as in use, and so is a change of the ranges that the pods have."""
    stack = GoogleStack.with_cluster()
    with pytest.raises(Refused, match="already being used by 'projects/p/locations/us-central1-a"):
        stack.delete(SUBNETWORK, "nodes")
    inputs = stack.state[stack.urn(SUBNETWORK, "nodes")][1]
    ranges = [{"rangeName": "services", "ipCidrRange": "10.4.0.0/20"}]
    with pytest.raises(Refused, match="Secondary range 'pods' is in use by"):
        stack.up(SUBNETWORK, "nodes", inputs | {"secondaryIpRanges": ranges})


def test_the_workload_pool_comes_with_the_cluster() -> None:
    """Only once a cluster has workload identity can a Kubernetes account be a member."""
    stack = GoogleStack()
    account = stack.up("gcp:serviceaccount/account:Account", "gpu-nodes", {})
    member = {
        "serviceAccountId": account["name"],
        "role": "roles/iam.workloadIdentityUser",
        "member": "serviceAccount:p.svc.id.goog[default/trainer]",
    }
    with pytest.raises(Refused, match="Identity Pool does not exist"):
        stack.up(ACCOUNT_MEMBER, "wi", member)
    stack.cluster(workloadIdentityConfig={"workloadPool": "p.svc.id.goog"})
    stack.up(ACCOUNT_MEMBER, "wi", member)


def test_an_update_to_what_is_no_version_is_refused() -> None:
    """By the API, as at the creation, or by the provider, which cannot compare it."""
    stack = GoogleStack.with_cluster(minMasterVersion="1.35")
    with pytest.raises(Refused, match=r"Master version 'v1\.36' is unsupported"):
        stack.cluster(minMasterVersion="v1.36")
    with pytest.raises(Refused, match="malformed version: latest"):
        stack.cluster(minMasterVersion="latest")


@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ({}, "1.35.8-gke.1225000"),
        ({"releaseChannel": {"channel": "STABLE"}}, "1.34.8-gke.1000000"),
        ({"minMasterVersion": "1.35"}, "1.35.8-gke.1225000"),
        ({"minMasterVersion": "1.34.9-gke.5"}, "1.34.9-gke.5"),
        ({"minMasterVersion": "latest"}, "1.35.8-gke.1225000"),
    ],
)
def test_the_channel_decides_the_version(changes: dict[str, object], version: str) -> None:
    """A channel has a default; a minor or an exact version that it offers is taken."""
    assert GoogleStack().cluster(**changes)["masterVersion"] == version


@pytest.mark.parametrize(("changes", "reason"), TABLE["test_a_wrong_cluster_is_refused"])
def test_a_wrong_cluster_is_refused(changes: dict[str, object], reason: str) -> None:
    """What GKE or its provider refuses is one line with the reason, and nothing is left."""
    stack = GoogleStack()
    with pytest.raises(Refused, match=one_line(reason)):
        stack.cluster(**changes)
    assert not [line for line in stack.cloud.list_resources() if line.startswith("cluster")]


def test_a_kept_default_pool_has_nodes() -> None:
    """A cluster that keeps its default pool has a group of that name, of e2-medium machines,
    once they have booted."""
    stack = GoogleStack.with_cluster(removeDefaultNodePool=None, initialNodeCount=2)
    assert stack.cloud.node_groups() == []
    ends = time.monotonic() + 10
    while not stack.cloud.node_groups() and time.monotonic() < ends:
        time.sleep(0.05)
    (group,) = stack.cloud.node_groups()
    assert (group.name, group.target_nodes, group.autoscaled) == ("default-pool", 2, False)
    assert group.node.labels["node.kubernetes.io/instance-type"] == "e2-medium"


def test_autopilot_offers_what_the_region_has() -> None:
    """One group per accelerator and count of the region, beside one without GPUs; no pools."""
    stack = GoogleStack.with_cluster(**AUTOPILOT)
    groups = {group.name: group for group in stack.cloud.node_groups()}
    t4 = groups["autopilot-nvidia-tesla-t4-2"]
    assert t4.auto_provisioned
    assert t4.node.labels["cloud.google.com/gke-accelerator"] == "nvidia-tesla-t4"
    assert t4.node.labels["cloud.google.com/gke-accelerator-count"] == "2"
    assert t4.node.capacity["nvidia.com/gpu"] == "2"
    assert [taint.key for taint in t4.node.taints] == ["nvidia.com/gpu"]
    assert "nvidia.com/gpu" not in groups["autopilot-cpu"].node.capacity
    assert "autopilot-nvidia-tesla-v100-1" not in groups
    with pytest.raises(Refused, match="Autopilot clusters do not support mutating node pools"):
        stack.up(POOL, "gpu", pool(location="us-central1"))


def test_autopilot_nodes_with_fewer_gpus_are_cheaper() -> None:
    """So that a pod with one GPU gets a node with one, not one with four."""
    stack = GoogleStack.with_cluster(**AUTOPILOT)
    prices = [
        group.on_demand_per_hour or 0
        for count in (1, 2, 4)
        for group in stack.cloud.node_groups()
        if group.name == f"autopilot-nvidia-tesla-t4-{count}"
    ]
    assert prices == sorted(prices)
    assert 0 < prices[0] < prices[2]


def test_autopilot_nodes_count_against_the_quota() -> None:
    """Nodes that GKE brings by itself need GPU quota as well, whatever their group."""
    stack = GoogleStack.with_cluster(quota={"NVIDIA_T4_GPUS": 2}, **AUTOPILOT)
    stack.cloud.set_size("autopilot-nvidia-tesla-t4-2", 1)
    with pytest.raises(Exception, match="GCE quota exceeded: Quota 'NVIDIA_T4_GPUS' exceeded"):
        stack.cloud.set_size("autopilot-nvidia-tesla-t4-2", 2)
    stack.cloud.set_size("autopilot-nvidia-tesla-t4-2-spot", 1)
    with pytest.raises(Exception, match=r"Limit: 2.0 in region us-central1, needed: 3.0"):
        stack.cloud.set_size("autopilot-nvidia-tesla-t4-1", 1)


def test_autopilot_has_spot_nodes_for_those_who_select_them() -> None:
    """They carry GKE's label and taint for Spot, beside those for GPUs."""
    stack = GoogleStack.with_cluster(**AUTOPILOT)
    groups = {group.name: group for group in stack.cloud.node_groups()}
    spot = groups["autopilot-nvidia-tesla-t4-2-spot"]
    assert spot.spot
    assert spot.node.labels["cloud.google.com/gke-spot"] == "true"
    assert [taint.key for taint in spot.node.taints] == [
        "nvidia.com/gpu",
        "cloud.google.com/gke-spot",
    ]
    assert "cloud.google.com/gke-spot" not in groups["autopilot-nvidia-tesla-t4-2"].node.labels


def test_an_empty_cloud_holds_nothing() -> None:
    """There are no groups and no holdings before anything is made."""
    empty = GoogleCloud(control_plane=Plane(), faults=Faults())
    assert empty.node_groups() == []
    assert empty.list_resources() == []


def weekly(days: str, hours: int, **more: str) -> dict[str, Any]:
    """A maintenance policy with windows on these days."""
    window = {
        "startTime": "2026-01-03T00:00:00Z",
        "endTime": f"2026-01-03T{hours:02}:00:00Z",
        "recurrence": f"FREQ=WEEKLY;BYDAY={days}",
    }
    return {"recurringWindow": window | more}


def excluded(start: str, end: str, scope: str = "NO_UPGRADES") -> dict[str, Any]:
    exclusion = {
        "exclusionName": "e", "startTime": start, "endTime": end,
        "exclusionOptions": {"scope": scope},
    }  # fmt: skip
    window = {"dailyMaintenanceWindow": {"startTime": "03:00"}}
    return {**window, "maintenanceExclusions": [exclusion]}


def frozen(*dates: str) -> dict[str, Any]:
    """A policy with exclusions of all upgrades between each two dates."""
    days = [f"{date}T00:00:00Z" for date in dates]
    exclusions = [
        excluded(start, end)["maintenanceExclusions"][0] | {"exclusionName": f"e{index}"}
        for index, (start, end) in enumerate(zip(days[::2], days[1::2], strict=True))
    ]
    return {"dailyMaintenanceWindow": {"startTime": "03:00"}, "maintenanceExclusions": exclusions}


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"dailyMaintenanceWindow": {"startTime": "3:00"}}, "must be in the format HH:mm"),
        ({"dailyMaintenanceWindow": {"startTime": "25:00"}}, "does not contain a valid hour"),
        ({"dailyMaintenanceWindow": {"startTime": "23:60"}}, "does not contain a valid minute"),
        (weekly("SA,SU", 8, startTime="x"), 'parsing time "x" as RFC3339'),
        (weekly("SA,SU", 8, endTime="2026-02-31T00:00:00Z"), "cannot parse"),
        (weekly("SA;INTERVAL=3", 8), "longer than 92d without 48h maintenance availability"),
        (weekly("SA,SU,MO,TU,WE,TH,FR", 3), "of at least 4h contiguous duration"),
        (weekly("SA,SU", 8, recurrence="FREQ=HOURLY"), "unsupported FREQ"),
        (weekly("SA,SU", 8, endTime="2026-01-02T00:00:00Z"), "does not end after it starts"),
        (excluded("2026-12-02T00:00:00Z", "2026-12-01T00:00:00Z"), "does not end after it starts"),
        (excluded("2026-12-01T00:00:00Z", "2027-03-01T00:00:01Z"), "exceeds 90 days"),
        *(
            (weekly("SA", 8, recurrence=rule), "longer than 92d without 48h")
            for rule in (
                "FREQ=YEARLY",
                "FREQ=MONTHLY",
                "FREQ=MONTHLY;BYMONTHDAY=1,15;BYMONTH=1,2",
                "FREQ=DAILY;COUNT=3",
                "FREQ=DAILY;UNTIL=20260701T000000Z",
            )
        ),
        (weekly("SA", 8, recurrence="FREQ=WEEKLY;BYDAY=XX"), "is not valid: invalid 'BYDAY'"),
        (weekly("SA", 8, recurrence="FREQ=DAILY;INTERVAL=0"), "has no valid INTERVAL"),
        (frozen("2027-01-01", "2027-04-01", "2027-04-02", "2027-04-10"), "longer than 92d without"),
        (
            frozen(*(f"2027-0{month}-0{day}" for month in (1, 2, 3, 4) for day in (1, 2))),
            "more than 3 exclusions of NO_UPGRADES: e0, e1, e2, e3",
        ),
        ({}, "exactly one of"),
    ],
)
def test_a_wrong_maintenance_policy_is_refused(policy: dict[str, Any], reason: str) -> None:
    """The provider reads the times, the API counts the hours."""
    with pytest.raises(Refused, match=re.escape(reason)):
        GoogleStack().cluster(maintenancePolicy=policy)


@pytest.mark.parametrize(
    "policy",
    [
        {"dailyMaintenanceWindow": {"startTime": "03:00"}},
        weekly("SA,SU", 8),
        weekly("SA,SU", 8, recurrence="FREQ=DAILY"),
        weekly("SA,SU", 16, recurrence="FREQ=MONTHLY;BYMONTHDAY=1,15"),
        frozen("2027-01-01", "2027-04-01", "2027-04-03", "2027-04-10"),
        excluded("2026-12-01T00:00:00Z", "2027-03-01T00:00:00Z"),
        excluded("2026-12-01T00:00:00Z", "2027-03-01T00:00:00Z", "NO_MINOR_OR_NODE_UPGRADES"),
    ],
)
def test_a_right_maintenance_policy_is_taken(policy: dict[str, Any]) -> None:
    """As it was given, the second time as well."""
    stack = GoogleStack.with_cluster(maintenancePolicy=policy)
    assert stack.cluster(maintenancePolicy=policy)["maintenancePolicy"] == policy


def test_the_dns_endpoint_answers_only_where_it_may() -> None:
    """It is always there; in a rehearsal its name leads to the API server, or nowhere."""
    stack = GoogleStack()
    off = stack.cluster()["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]
    assert (off["allowExternalTraffic"], off["endpoint"]) == (False, "localhost:1")
    allowed = {"dnsEndpointConfig": {"allowExternalTraffic": True}}
    found = stack.cluster(controlPlaneEndpointsConfig=allowed)
    port = stack.plane.endpoint.rpartition(":")[2]
    endpoints = found["controlPlaneEndpointsConfig"]
    assert endpoints["dnsEndpointConfig"]["endpoint"] == f"localhost:{port}"
    assert endpoints["ipEndpointsConfig"] == {"enabled": True}


def test_a_private_endpoint_is_reached_from_private_networks_alone() -> None:
    """A public network among the authorized ones is refused."""
    blocks = {"cidrBlocks": [{"displayName": "x", "cidrBlock": "34.64.0.0/16"}]}
    private = {"enablePrivateNodes": True, "enablePrivateEndpoint": True}
    with pytest.raises(Refused, match="is not a reserved network, which is required for private"):
        GoogleStack().cluster(masterAuthorizedNetworksConfig=blocks, privateClusterConfig=private)


def test_a_state_with_text_in_place_of_a_map_is_refused() -> None:
    """As the official provider does, for which a placeholder of another shape is no state."""
    stack = GoogleStack.with_cluster()
    urn = stack.urn(CLUSTER, "dev")
    identity, inputs, outputs = stack.state[urn]
    for name, words in (("effectiveLabels", "effective_labels"), ("masterAuth", "master_auth")):
        stack.state[urn] = identity, inputs, outputs | {name: "placeholder"}
        with pytest.raises(Refused, match=rf"\* \[{words}\] missing expected {{"):
            stack.diff(CLUSTER, "dev", inputs)
    stack.state[urn] = identity, inputs, outputs
    assert stack.diff(CLUSTER, "dev", inputs)[0] == {}


@pytest.mark.parametrize(
    ("changes", "enforced"),
    [
        ({"datapathProvider": "ADVANCED_DATAPATH"}, True),
        ({"networkPolicy": {"enabled": True, "provider": "CALICO"}}, True),
        ({}, False),
    ],
)
def test_network_policies_need_something_that_enforces_them(
    changes: dict[str, Any], enforced: bool
) -> None:
    """Dataplane V2 or Calico; without either, the API server stores them and nothing happens."""
    stack = GoogleStack.with_cluster(**changes)
    assert ("no NetworkPolicy is enforced" not in stack.cloud.why_unenforced({})) is enforced
