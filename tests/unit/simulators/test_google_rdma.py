"""The networks that GKE sets up for a node pool, and the interfaces that its pods can claim."""

from typing import Any

import pytest

from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import GoogleStack
from tests.unit.simulators.test_google_node_pool import group_of

PROFILE = "gke.networks.io/accelerator-network-profile"
DRANET = {"cloud.google.com/gke-networking-dra-driver": "true"}
DATAPLANE = {"datapathProvider": "ADVANCED_DATAPATH"}


def given(machine: str = "a3-ultragpu-8g", labels: Any = DRANET, **changes: Any) -> dict[str, Any]:
    """A pool with the profile."""
    config = {"machineType": machine, "diskType": "hyperdisk-balanced", "labels": labels}
    return {
        "nodeConfig": config, "nodeLocations": ["us-central1-b"],
        "networkConfig": {"acceleratorNetworkProfile": "auto"}, **changes,
    }  # fmt: skip


def made(cluster: dict[str, Any], changes: dict[str, Any]) -> GoogleStack:
    """A cluster with the pool."""
    stack = GoogleStack.with_cluster(**cluster)
    stack.pool(**changes)
    return stack


@pytest.mark.parametrize(
    ("machine", "labels", "devices"),
    [
        ("a3-ultragpu-8g", DRANET, {"mrdma.google.com": 8}),
        ("a4-highgpu-8g", DRANET, {"mrdma.google.com": 8}),
        ("a3-ultragpu-8g", {}, {}),
    ],
)
def test_a_node_offers_interfaces_with_profile_and_label(
    machine: str, labels: dict[str, str], devices: dict[str, int]
) -> None:
    """GKE adds the label of the profile, which pods may select."""
    group = group_of(made(DATAPLANE, given(machine, labels)))
    assert group.template.devices == devices
    assert group.node.labels[PROFILE] == "auto"


def test_without_the_profile_there_are_none() -> None:
    """Nor in a version without GKE's DRANET."""
    assert group_of(made(DATAPLANE, given(networkConfig={}))).node.devices == {}
    stack = made(
        {**DATAPLANE, "minMasterVersion": "1.33", "releaseChannel": {"channel": "EXTENDED"}},
        given(),
    )
    assert group_of(stack).node.devices == {}


@pytest.mark.parametrize(
    ("cluster", "changes", "reason"),
    [
        ({}, {}, "needs GKE Dataplane V2 in the cluster"),
        (DATAPLANE, {"networkConfig": {"acceleratorNetworkProfile": "x"}}, "'x' is not 'auto'"),
        (DATAPLANE, given("a3-highgpu-8g", nodeLocations=["us-central1-a", "us-central1-c"]),
         "exactly one zone"),
        (DATAPLANE, given("g2-standard-4"), "is not supported for g2-standard-4: machine types"),
    ],
)  # fmt: skip
def test_a_wrong_profile_is_refused(
    cluster: dict[str, Any], changes: dict[str, Any], reason: str
) -> None:
    """With GKE's conditions for it."""
    wrong = {**given(), **changes}
    if "nodeConfig" in changes:
        wrong["nodeConfig"] = {**changes["nodeConfig"], "diskType": "pd-balanced"}
    with pytest.raises(Refused, match=reason):
        made(cluster, wrong)
