import re
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from gpu_cluster.rehearsal.plugins.gcp.routing import RouterNat
from tests.unit.plugins.offline_engine import Refused
from tests.unit.refusals import one_line
from tests.unit.simulators.google_stack import (
    ACCOUNT,
    ACCOUNT_MEMBER,
    FIREWALL,
    MEMBER,
    NAT,
    NETWORK,
    ROUTER,
    SUBNETWORK,
    GoogleStack,
    subnetwork,
)

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""

SERVICE = "gcp:projects/service:Service"
REPOSITORY = "gcp:artifactregistry/repository:Repository"
DASHBOARD = "gcp:monitoring/dashboard:Dashboard"
ALERT = "gcp:monitoring/alertPolicy:AlertPolicy"
NAT_ALL = {"sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"}


def test_a_subnetwork_needs_its_network() -> None:
    """A network that does not exist is a 404 with its full name."""
    with pytest.raises(Refused, match="404: The resource 'projects/p/global/networks/nowhere'"):
        GoogleStack().up(SUBNETWORK, "s", subnetwork("nowhere"))


def test_a_name_exists_once() -> None:
    """A second network of the same name is a 409."""
    stack = GoogleStack()
    inputs = {"name": "net", "autoCreateSubnetworks": False}
    stack.up(NETWORK, "a", inputs)
    with pytest.raises(Refused, match="409: The resource 'projects/p/global/networks/net' already"):
        stack.up(NETWORK, "b", inputs)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ipCidrRange": "10.0.8.0/24"}, "ipCidrRange 10.0.8.0/24 conflicts with ipCidrRange"),
        ({"ipCidrRange": "10.9.0.0/16"}, "conflicts with secondaryIpRanges[0].ipCidrRange"),
        ({"ipCidrRange": "192.168.0.0/30"}, "smaller than /29"),
        ({"ipCollection": "mine"}, "us-central1/publicDelegatedPrefixes/mine' was"),
        ({"ipCidrRange": "192.168.0.1/24"}, "ipCidrRange to be a network such as 10.0.0.0/20"),
        (
            {
                "ipCidrRange": "192.168.0.0/24",
                "secondaryIpRanges": [{"rangeName": "a", "ipCidrRange": "192.168.0.0/26"}],
            },
            "secondaryIpRanges[0].ipCidrRange 192.168.0.0/26 conflicts with ipCidrRange",
        ),
    ],
)
def test_address_ranges_may_not_overlap(changes: dict[str, object], reason: str) -> None:
    """Ranges of one network, primary or secondary, exclude each other and have a least size."""
    stack = GoogleStack()
    first = stack.network()
    second = subnetwork(first["network"], secondaryIpRanges=[]) | changes
    with pytest.raises(Refused, match=re.escape(reason)):
        stack.up(SUBNETWORK, "second", second)


def test_another_network_may_use_the_same_addresses() -> None:
    """Overlap counts only within a network."""
    stack = GoogleStack()
    stack.network()
    other = stack.up(NETWORK, "other", {"autoCreateSubnetworks": False})
    assert stack.up(SUBNETWORK, "same", subnetwork(other["name"]))["region"] == "us-central1"


def test_a_range_grows_in_place_and_shrinks_by_replacement() -> None:
    """A primary range that contains the old one updates, any other replaces."""
    stack = GoogleStack()
    network = stack.network()["network"]
    grown = subnetwork(network, ipCidrRange="10.0.0.0/19")
    moved = subnetwork(network, ipCidrRange="10.0.0.0/21")
    assert stack.diff(SUBNETWORK, "nodes", grown)[0] == {"ipCidrRange": "UPDATE"}
    assert stack.diff(SUBNETWORK, "nodes", moved)[0] == {"ipCidrRange": "UPDATE_REPLACE"}


def test_a_network_is_the_same_by_name_and_by_link() -> None:
    """Self link, path and bare name of one network are no difference."""
    stack = GoogleStack()
    stack.network()
    name = stack.state[stack.urn(NETWORK, "net")][2]["name"]
    for spelling in (name, f"projects/p/global/networks/{name}"):
        assert stack.diff(SUBNETWORK, "nodes", subnetwork(spelling))[0] == {}
    assert stack.diff(SUBNETWORK, "nodes", subnetwork("other"))[0] == {"network": "UPDATE_REPLACE"}


def test_what_is_in_use_stays() -> None:
    """A network goes only after its subnetworks, routers and firewall rules."""
    stack = GoogleStack()
    network = stack.network()["network"]
    stack.up(ROUTER, "router", {"network": network})
    stack.up(NAT, "nat", {"router": stack.state[stack.urn(ROUTER, "router")][2]["name"], **NAT_ALL})
    stack.up(
        FIREWALL,
        "wall",
        {"network": network, "sourceRanges": ["10.0.0.0/8"], "allows": [{"protocol": "tcp"}]},
    )
    for token, name in ((SUBNETWORK, "nodes"), (ROUTER, "router"), (FIREWALL, "wall")):
        with pytest.raises(Refused, match=r"network resource .* is already being used by"):
            stack.delete(NETWORK, "net")
        stack.delete(token, name)
    stack.delete(NETWORK, "net")
    assert stack.cloud.list_resources() == []


def test_two_nats_of_a_router_do_not_lose_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider writes the router's whole list, one NAT after the other."""
    stack = GoogleStack()
    network = stack.network()["network"]
    stack.up(ROUTER, "router", {"name": "router", "network": network})
    both_read, read = threading.Barrier(2), RouterNat._nats

    def together(nat: RouterNat, identity: str) -> list[dict[str, object]]:
        found = read(nat, identity)
        with suppress(threading.BrokenBarrierError):
            both_read.wait(0.5)
        return found

    monkeypatch.setattr(RouterNat, "_nats", together)
    made = [
        threading.Thread(
            target=stack.up, args=(NAT, name, NAT_ALL | {"router": "router", "name": name})
        )
        for name in ("one", "two")
    ]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()
    (router,) = stack.cloud.of("compute.routers")
    assert {nat["name"] for nat in router.state["nats"]} == {"one", "two"}


def test_a_nat_goes_with_its_router() -> None:
    """A NAT is a part of its router: it is gone afterwards, and deleting it then is no error."""
    stack = GoogleStack()
    network = stack.network()["network"]
    router = stack.up(ROUTER, "router", {"network": network})
    stack.up(NAT, "nat", {"router": router["name"], **NAT_ALL})
    stack.delete(ROUTER, "router")
    assert not [line for line in stack.cloud.list_resources() if "NAT" in line]
    stack.delete(NAT, "nat")


@pytest.mark.parametrize(
    ("ports", "reason"),
    [
        ({"enableDynamicPortAllocation": True, "enableEndpointIndependentMapping": True},
            "enableEndpointIndependentMapping': 'true'. It is exclusive with"),
        ({"maxPortsPerVm": 4096}, "maxPortsPerVm': '4096'. It needs enableDynamicPortAllocation"),
        ({"enableDynamicPortAllocation": True, "minPortsPerVm": 65, "maxPortsPerVm": 4096},
            "minPortsPerVm': '65'. It must be a power of two from 32 to 65536"),
        ({"enableDynamicPortAllocation": True, "minPortsPerVm": 64, "maxPortsPerVm": 5000},
            "maxPortsPerVm': '5000'. It must be a power of two"),
        ({"enableDynamicPortAllocation": True, "minPortsPerVm": 64, "maxPortsPerVm": 64},
            "maxPortsPerVm': '64'. It must be more than minPortsPerVm 64"),
        ({"enableDynamicPortAllocation": True, "maxPortsPerVm": 65536}, None),
        ({"minPortsPerVm": 100}, None),
        ({"enableEndpointIndependentMapping": True}, None),
    ],
)  # fmt: skip
def test_how_a_nat_gives_ports(ports: dict[str, object], reason: str | None) -> None:
    """Dynamic ports come in powers of two, and exclude endpoint-independent mapping."""
    stack = GoogleStack()
    router = stack.up(ROUTER, "router", {"network": stack.network()["network"]})
    inputs = {"router": router["name"], **NAT_ALL, **ports}
    if reason is None:
        assert stack.up(NAT, "nat", inputs)["minPortsPerVm"] in (32, 64, 100)
        return
    with pytest.raises(Refused, match=re.escape(reason)):
        stack.up(NAT, "nat", inputs)


@pytest.mark.parametrize(("token", "inputs", "reason"), TABLE["test_each_refusal_is_one_line"])
def test_each_refusal_is_one_line(token: str, inputs: dict[str, object], reason: str) -> None:
    """What Google Cloud or its provider refuses is refused with its reason, in one line."""
    with pytest.raises(Refused, match=one_line(reason)):
        GoogleStack().up(token, "x", inputs)


def test_the_rest_of_a_project() -> None:
    """Accounts, bindings, APIs, registries, dashboards and alerts are created, read and deleted;
    an API stays enabled and is nothing left behind."""
    stack = GoogleStack()
    account = stack.up(ACCOUNT, "gpu-nodes", {})
    assert account["email"].endswith("@p.iam.gserviceaccount.com")
    binding = {"project": "p", "role": "roles/viewer", "member": account["member"]}
    own = {"serviceAccountId": account["name"], "role": "roles/viewer", "member": "user:a@b.c"}
    condition = {"displayName": "c", "conditionAbsent": {"duration": "60s"}}
    made = {
        MEMBER: binding,
        ACCOUNT_MEMBER: own,
        SERVICE: {"service": "container.googleapis.com"},
        REPOSITORY: {"format": "DOCKER", "repositoryId": "images"},
        DASHBOARD: {"dashboardJson": '{"displayName": "GPUs"}'},
        ALERT: {"combiner": "OR", "displayName": "a", "conditions": [condition]},
    }
    for token, inputs in made.items():
        outputs = stack.up(token, "x", inputs)
        assert stack.refresh(token, "x") == outputs
    # Its provider reads it by the name in the state.
    alert = stack.urn(ALERT, "x")
    identity, inputs, outputs = stack.state[alert]
    stack.state[alert] = (identity, inputs, {k: v for k, v in outputs.items() if k != "name"})
    assert stack.refresh(ALERT, "x") is None
    stack.state[alert] = (identity, inputs, outputs)
    equal = {"dashboardJson": '{"displayName":"GPUs"}'}
    assert stack.diff(DASHBOARD, "x", equal)[0] == {}
    for token in made:
        stack.delete(token, "x")
    stack.delete(ACCOUNT, "gpu-nodes")
    assert stack.cloud.list_resources() == []


def test_a_deletion_policy_is_honoured() -> None:
    """PREVENT refuses a delete, ABANDON forgets the resource and leaves it in the cloud."""
    stack = GoogleStack()
    inputs = {"autoCreateSubnetworks": False}
    stack.up(NETWORK, "kept", inputs | {"deletionPolicy": "PREVENT"})
    stack.up(NETWORK, "left", inputs | {"deletionPolicy": "ABANDON"})
    with pytest.raises(Refused, match="deletionPolicy is PREVENT"):
        stack.delete(NETWORK, "kept")
    stack.delete(NETWORK, "left")
    assert len(stack.cloud.list_resources()) == 2
