"""Networks that may reach a control plane: none of them the world, and a word on examples."""

import pytest

from components.addresses import authorized, example_warnings
from components.gke.cluster_args import GkeClusterArgs

OFFICE = {"office": "203.0.113.0/24", "vpn": "10.8.0.0/16"}


def test_an_example_left_in_is_said_before_anything_is_made() -> None:
    """Each of RFC 5737's, and networks inside them; no other."""
    assert example_warnings(OFFICE, "EKS refuses it") == [
        "authorizedNetworks.office: 203.0.113.0/24 is an address of documentation, which nobody "
        "has; EKS refuses it; give the network from which you come"
    ]
    inside = {"a": "192.0.2.7/32", "b": "198.51.100.0/25", "c": "203.0.112.0/23"}
    assert [line.split(":")[0] for line in example_warnings(inside, "")] == [
        "authorizedNetworks.a", "authorizedNetworks.b",
    ]  # fmt: skip


def test_gke_takes_it_and_is_then_out_of_reach() -> None:
    """So a cluster would stand before the update fails."""
    args = GkeClusterArgs(name="a", location="us-central1-a", authorized_networks=OFFICE)
    (line,) = args.warnings()
    assert "GKE takes it" in line


@pytest.mark.parametrize("text", ["0.0.0.0/0", "128.0.0.0/1"])
def test_the_world_is_refused(text: str) -> None:
    """Whatever it is called."""
    with pytest.raises(ValueError, match=r"authorizedNetworks\.all: .* opens the control plane"):
        authorized({"all": text})
