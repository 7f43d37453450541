"""Networks of nodes and pods besides the cluster's: what GKE refuses, and what nodes offer."""

from typing import Any

import pytest

from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import (
    CLUSTER,
    FIREWALL,
    NETWORK,
    SUBNETWORK,
    GoogleStack,
    cluster,
)
from tests.unit.simulators.test_google_node_pool import group_of

MULTI = {"datapathProvider": "ADVANCED_DATAPATH", "enableMultiNetworking": True}
PREFIX = "networking.gke.io.networks/"


def networked(
    interfaces: int = 8,
    machine: str = "a3-megagpu-8g",
    *,
    within: dict[str, Any] = MULTI,
    **changes: Any,
) -> GoogleStack:
    """A cluster, and a pool of this machine type with interfaces in networks of their own."""
    stack = GoogleStack.with_cluster(**within)
    configs = []
    for number in range(interfaces):
        name = f"n{number}"
        given = {"name": name, "autoCreateSubnetworks": False, "mtu": 8244}
        link = stack.up(NETWORK, name, given)["selfLink"]
        block = {"name": name, "network": link, "ipCidrRange": f"192.168.{number}.0/24"}
        stack.up(SUBNETWORK, name, block)
        configs.append({"network": name, "subnetwork": name})
    stack.pool(**{
        "nodeConfig": {"machineType": machine, "diskType": "pd-balanced",
                       "imageType": "COS_CONTAINERD"},
        "networkConfig": {"additionalNodeNetworkConfigs": configs}, **changes,
    })  # fmt: skip
    return stack


def params(network: str = "n0", subnetwork: str = "n0", **changes: Any) -> dict[str, Any]:
    """A GKENetworkParamSet `a`, or with another `name`."""
    name = changes.pop("name", "a")
    return {
        "metadata": {"name": name, "creationTimestamp": f"2026-01-01T00:00:00Z{name}"},
        "spec": {"vpc": network, "vpcSubnet": subnetwork, "deviceMode": "NetDevice", **changes},
    }


def network(refers: str = "a", kind: str = "Device") -> dict[str, Any]:
    """A Network `one` that refers to parameters."""
    reference = {"group": "networking.gke.io", "kind": "GKENetworkParamSet", "name": refers}
    return {"metadata": {"name": "one"}, "spec": {"type": kind, "parametersRef": reference}}


def test_a_node_offers_an_interface_once_the_cluster_knows_its_network() -> None:
    """Under the name of the Network, as GKE's autoscaler expects of an empty pool."""
    stack = networked()
    assert not [key for key in group_of(stack).node.capacity if key.startswith(PREFIX)]
    assert stack.cloud.networks([network()], [params()])["a"].ready
    for shape in (group_of(stack).template, group_of(stack).node):
        offered = {key: value for key, value in shape.capacity.items() if key.startswith(PREFIX)}
        assert offered == {f"{PREFIX}one": "1", f"{PREFIX}one.IP": "1"}


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        (params("none"), "VPCNotFound: VPC: none not found"),
        (params(subnetwork="none"), "SubnetNotFound: subnet: none not found in VPC: n0"),
        (params(deviceMode=""), "GNPConfigInvalid: exactly one of"),
        (params(""), "GNPConfigInvalid: NetworkAttachment or"),
    ],
)
def test_wrong_parameters_are_not_ready(given: dict[str, Any], refusal: str) -> None:
    """With the reason that GKE gives."""
    stack = networked(1, "n2-standard-4")
    judged = stack.cloud.networks([network()], [given])["a"]
    assert judged.refusal.startswith(refusal)
    assert not judged.ready
    assert not [key for key in group_of(stack).node.capacity if key.startswith(PREFIX)]


def test_the_network_of_the_cluster_is_no_other() -> None:
    """Neither for its objects nor for the interfaces of a pool."""
    stack = networked(1, "n2-standard-4")
    net, nodes = (stack.state[stack.urn(kind, name)][2]["name"]
                  for kind, name in ((NETWORK, "net"), (SUBNETWORK, "nodes")))  # fmt: skip
    judged = stack.cloud.networks([network()], [params(net, nodes)])["a"]
    assert judged.refusal.startswith("DeviceModeCantUseDefaultVPC")
    with pytest.raises(Refused, match="Networks must be distinct"):
        stack.pool("other", **config((net, nodes)))


def test_a_subnetwork_has_one_network_the_older_one() -> None:
    """Of Device networks."""
    judged = networked(1, "n2-standard-4").cloud.networks(
        [network()], [params(name="b"), params()]
    )  # fmt: skip
    assert judged["b"].refusal.startswith("DeviceModeSubnetAlreadyInUse")
    assert not judged["a"].refusal


@pytest.mark.parametrize("kind", ["L3", "Device"])
def test_a_network_needs_parameters_of_its_type(kind: str) -> None:
    """Pods join L3 networks through secondary ranges."""
    cloud = networked(1, "n2-standard-4").cloud
    assert cloud.networks([network(kind=kind)], [params()])["a"].ready == (kind == "Device")
    assert not cloud.networks([network("other")], [params()])["a"].ready


@pytest.mark.parametrize(
    ("rule", "reached"),
    [
        ({"sourceRanges": ["192.168.0.0/24"]}, True),
        ({"sourceRanges": ["192.168.0.0/16"]}, True),
        ({"sourceRanges": ["192.168.0.0/25"]}, False),
        ({"sourceRanges": ["192.168.0.0/24"], "allows": [{"protocol": "udp"}]}, False),
        ({"sourceRanges": ["192.168.0.0/24"], "targetTags": ["a"]}, False),
    ],
)
def test_nodes_reach_each_other_if_a_firewall_rule_lets_them(
    rule: dict[str, Any], reached: bool
) -> None:
    """A VPC network denies what no rule allows."""
    stack = networked(1, "n2-standard-4")
    stack.up(FIREWALL, "in", {"network": "n0", "allows": [{"protocol": "tcp"}], **rule})
    judged = stack.cloud.networks([network()], [params()])["a"]
    assert judged.fault == (
        "" if reached else "no firewall rule of projects/p/global/networks/n0 lets nodes in "
        "192.168.0.0/24 reach each other's TCP ports"
    )  # fmt: skip


def config(*pairs: tuple[str, str], **changes: Any) -> dict[str, Any]:
    """A pool's networks, as names of network and subnetwork."""
    configs = [{"network": vpc, "subnetwork": subnetwork} for vpc, subnetwork in pairs]
    return {"networkConfig": {"additionalNodeNetworkConfigs": configs, **changes}}


@pytest.mark.parametrize(
    ("within", "changes", "reason"),
    [
        ({"datapathProvider": "ADVANCED_DATAPATH"}, {}, "needs enableMultiNetworking"),
        ({"enableMultiNetworking": True}, {}, "enableMultiNetworking needs GKE Dataplane V2"),
        (MULTI, config(("none", "n0")), "none"),
        (MULTI, config(("n0", "none")), "none"),
        (MULTI, config(("n0", "n1")), "is not in network"),
        (MULTI, config(("n0", "n0"), ("n0", "n0")), "Networks must be distinct"),
        (MULTI, config(*[("n0", "n0")] * 9), "has at most 8 additional interfaces"),
        (MULTI, config(("n0", "n0"), acceleratorNetworkProfile="auto"), "excludes"),
        (MULTI, {"nodeConfig": {"machineType": "a3-megagpu-8g", "diskType": "pd-balanced",
                                "imageType": "UBUNTU_CONTAINERD"}}, "Container-Optimized OS"),
    ],
)  # fmt: skip
def test_wrong_interfaces_of_a_pool_are_refused(
    within: dict[str, Any], changes: dict[str, Any], reason: str
) -> None:
    """By GKE, or by Compute Engine."""
    if "acceleratorNetworkProfile" in changes.get("networkConfig", {}):
        changes = {**changes, "nodeLocations": ["us-central1-a"]}
    with pytest.raises(Refused, match=reason):
        networked(2, within=within, **changes)


@pytest.mark.parametrize(
    ("version", "refused"),
    [("1.34.4-gke.1200000", True), ("1.34.5-gke.1153000", False), ("1.35.1-gke.1", True),
     ("1.36.0-gke.1", False)],
)  # fmt: skip
def test_old_patches_have_no_a3_high(version: str, refused: bool) -> None:
    """GKE refuses the pool, whatever its interfaces; A3 Mega is in all."""
    within = {**MULTI, "minMasterVersion": version}
    networked(8, within=within)
    if not refused:
        networked(4, "a3-highgpu-8g", within=within)
        return
    with pytest.raises(Refused, match="a3-highgpu-8g is not supported in"):
        networked(4, "a3-highgpu-8g", within=within)


def test_several_networks_are_turned_on_in_place_and_off_only_if_no_pool_has_any() -> None:
    """With the kinds of objects that pods' networks need."""
    stack = GoogleStack()
    inside = stack.network()
    before = cluster(inside, datapathProvider="ADVANCED_DATAPATH")
    stack.up(CLUSTER, "dev", before)
    assert "GKENetworkParamSet" not in stack.plane.kinds
    stack.up(CLUSTER, "dev", {**before, "enableMultiNetworking": True})
    assert "GKENetworkParamSet" in stack.plane.kinds
    stack.up(CLUSTER, "dev", before)
    stack = networked(1, "n2-standard-4")
    with pytest.raises(Refused, match="enableMultiNetworking is in use by"):
        stack.cluster(datapathProvider="ADVANCED_DATAPATH", enableMultiNetworking=False)


def test_a_network_of_nodes_cannot_be_deleted() -> None:
    """While there is a pool with an interface in it."""
    stack = networked(1, "n2-standard-4")
    with pytest.raises(Refused, match="is already being used by"):
        stack.delete(SUBNETWORK, "n0")
