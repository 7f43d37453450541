"""What the simulated AWS refuses of a cluster's public endpoint and tags."""

import pytest

from gpu_cluster.rehearsal.simulators.aws.cluster_rules import check_public_networks, check_tags
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal

WRONG = "InvalidParameterException: The following CIDRs are {} in publicAccessCidrs: [{}]"


@pytest.mark.parametrize(
    "block",
    ["10.1.0.0/16", "172.31.0.0/20", "192.168.7.0/24", "100.64.0.0/10", "127.0.0.1/32",
     "169.254.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"],
)  # fmt: skip
def test_from_a_private_network_nobody_comes_to_a_public_endpoint(block: str) -> None:
    """Reserved ones neither; those beside it are not named."""
    with pytest.raises(Refusal) as refusal:
        check_public_networks({"publicAccessCidrs": ["8.8.8.0/24", block, "10.9.0.0/24"]})
    assert str(refusal.value) == WRONG.format("not allowed", f"{block}, 10.9.0.0/24")


@pytest.mark.parametrize("text", ["8.8.8.8/24", "8.8.8.0/33", "office", "2001:db8::/32"])
def test_what_is_no_network_is_refused(text: str) -> None:
    """Host bits and IPv6 as well, on a cluster of IPv4."""
    with pytest.raises(Refusal) as refusal:
        check_public_networks({"publicAccessCidrs": [text]})
    assert str(refusal.value) == WRONG.format("invalid", text)


def test_public_networks_are_taken() -> None:
    """The world too, and the addresses of documentation, which stand for real ones here."""
    blocks = ["8.8.8.0/24", "0.0.0.0/0", "203.0.113.0/24", "198.51.100.7/32", "192.0.2.0/25"]
    check_public_networks({"publicAccessCidrs": blocks})
    check_public_networks({})


@pytest.mark.parametrize(
    "tags", [{"aws:team": "a"}, {"team": "AWS:a"}, {"k" * 129: "a"}, {"team": "v" * 257}, {"": "a"}]
)
def test_tags_of_aws_and_long_ones_are_refused(tags: dict[str, str]) -> None:
    """As EKS does when the cluster is made or tagged."""
    with pytest.raises(Refusal):
        check_tags(tags)
    check_tags({"k" * 128: "v" * 256, "awsome": ""})
