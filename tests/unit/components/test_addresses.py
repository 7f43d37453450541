"""Networks that may reach a control plane: none of them the world, and a word on examples."""

import json
from collections.abc import Callable, Mapping

import pytest

from gpu_cluster.components.access.addresses import cidr, example_warnings
from gpu_cluster.components.gke.cluster_args import GkeClusterArgs
from gpu_cluster.components.gke.warnings import control_plane_warnings
from gpu_cluster.components.schema.refusal import Refusal
from gpu_cluster.components.settings.load import from_config
from tests.program.environments import config_of


def gke_cluster(networks: Mapping[str, str]) -> object:
    return GkeClusterArgs(name="a", location="us-central1-a", authorized_networks=networks)


def eks_cluster(networks: Mapping[str, str]) -> object:
    config = config_of("train")
    cluster = {**json.loads(config["gpu-cluster:cluster"]), "authorizedNetworks": dict(networks)}
    return from_config({**config, "gpu-cluster:cluster": json.dumps(cluster)})


OFFICE = {"office": "203.0.113.0/24", "vpn": "10.8.0.0/16"}


def test_an_example_left_in_is_said_before_anything_is_made() -> None:
    """Each of RFC 5737's, and networks inside them; no other."""
    assert example_warnings(OFFICE, "EKS refuses it") == [
        "authorizedNetworks.office: 203.0.113.0/24 is a range that is reserved for documentation; "
        "EKS refuses it; give the network from which you connect"
    ]
    inside = {"a": "192.0.2.7/32", "b": "198.51.100.0/25", "c": "203.0.112.0/23"}
    assert [line.split(":")[0] for line in example_warnings(inside, "")] == [
        "authorizedNetworks.a",
        "authorizedNetworks.b",
    ]


def test_gke_takes_it_and_is_then_out_of_reach() -> None:
    """So a cluster would stand before the update fails."""
    args = GkeClusterArgs(name="a", location="us-central1-a", authorized_networks=OFFICE)
    (line,) = args.warnings()
    assert "GKE would accept it" in line
    assert control_plane_warnings(args, "acme-ml") == [f"cluster.{line}"]


def test_the_samples_project_is_said_to_be_a_placeholder() -> None:
    """Google Cloud would say that permission is denied, of a project that nobody meant."""
    args = GkeClusterArgs(
        name="a", location="us-central1-a", authorized_networks={"a": "10.0.0.0/8"}
    )
    (line,) = control_plane_warnings(args, "my-project")
    assert line.startswith("gcp:project: my-project is the sample's placeholder")
    assert control_plane_warnings(args, "my-projects") == []


@pytest.mark.parametrize("platform", [gke_cluster, eks_cluster])
def test_every_platform_refuses_a_single_address(platform: Callable[[Mapping], object]) -> None:
    """Nobody learns it from a plan that fails."""
    with pytest.raises(ValueError, match=r"authorizedNetworks\.home: .* write 8\.8\.8\.8/32"):
        platform({"home": "8.8.8.8"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10.0.0.0/18", None),
        ("172.31.0.0/16", None),
        ("10.0.0.0/24", "has /24; allowed: /16 to /18, of which each zone takes an eighth"),
        ("10.0.0.0/8", "has /8; allowed: /16 to /18, of which each zone takes an eighth"),
        ("10.0.0.1/16", "is not an IPv4 CIDR (it has host bits set; write 10.0.0.0/16)"),
        *(
            (
                network,
                "is not a private address range; use part of 10.0.0.0/8, 172.16.0.0/12 or "
                "192.168.0.0/16",
            )
            for network in ("11.0.0.0/16", "127.0.0.0/16", "198.18.0.0/16", "172.32.0.0/16")
        ),
    ],
)
def test_a_network_has_a_prefix_and_an_address_space(text: str, says: str | None) -> None:
    """What AWS takes for VPCs: less than Python and the IANA's registry call private."""
    limit = cidr(16, 18, private=True, why=", of which each zone takes an eighth")
    refused = limit.refusal(text)
    clause = refused.spelled({}) if isinstance(refused, Refusal) else refused
    assert clause == (says and f"{text!r} {says}")


@pytest.mark.parametrize(
    ("text", "whose"),
    [
        *((text, "the world") for text in ("0.0.0.0/0", "128.0.0.0/1")),
        *((text, "the networks of many others") for text in (
            "34.0.0.0/8", "8.0.0.0/15", "2.16.0.0/13")),
    ],
)  # fmt: skip
def test_the_world_or_a_large_part_of_it_is_refused(text: str, whose: str) -> None:
    """Whatever it is called. A cloud's customers share such networks; nobody owns one alone who
    does not know it."""
    says = rf"authorizedNetworks\.all: .* would open the control plane to {whose}; .* up to /16"
    with pytest.raises(ValueError, match=says):
        gke_cluster({"all": text})


@pytest.mark.parametrize("text", ["10.0.0.0/8", "100.64.0.0/10", "34.64.0.0/16", "8.8.8.8/32"])
def test_private_space_may_be_larger_than_public(text: str) -> None:
    """Whoever is routed to private addresses is somebody's own."""
    gke_cluster({"one": text})
