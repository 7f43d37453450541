"""EC2's rules for the network interfaces of a launch template, and what passes between adapters."""

from typing import Any

import pytest

from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.components.eks.efa import interfaces
from gpu_cluster.rehearsal.simulators.aws.network_interfaces import (
    adapters,
    interfaces_refusal,
    why_silent,
)
from tests.simulators.aws_account import Account


def data(*rows: tuple[int, int, str], **more: Any) -> dict[str, Any]:
    """Launch template data with interfaces of these cards, devices and types."""
    nics = [
        {"NetworkCardIndex": card, "DeviceIndex": device, "InterfaceType": kind}
        for card, device, kind in rows
    ]
    return {"NetworkInterfaces": nics, **more}


ENA, EFA = (0, 0, "interface"), (0, 1, "efa-only")


@pytest.mark.parametrize(
    "name",
    [name for name, row in catalog.INSTANCE_TYPES.items() if row.efa_cards and not row.uncertain],
)
def test_ec2_accepts_the_layout_of_every_instance_type(name: str) -> None:
    """One adapter on each card that has one."""
    cards = catalog.INSTANCE_TYPES[name].efa_cards
    layout = data(*interfaces(cards))
    assert interfaces_refusal(layout, name) is None
    assert adapters(layout) == len(cards)


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("p4d.24xlarge", [ENA, (4, 0, "efa-only")], "card 4, device 0: p4d.24xlarge has 4"),
        ("p4d.24xlarge", [ENA, EFA, (0, 2, "efa-only")], "card 0 has 2 EFA interfaces"),
        ("p4d.24xlarge", [(0, 0, "efa-only")], "the primary network interface cannot be EFA"),
        ("p4d.24xlarge", [(1, 0, "efa-only")], "exactly one primary network interface"),
        ("p4d.24xlarge", [ENA, EFA, (0, 1, "interface")], "card 0 has 2 interfaces with device 1"),
        ("p6-b300.48xlarge", [ENA, EFA], "no interface of the type efa-only"),
        ("g5.xlarge", [ENA, EFA], "the card of g5.xlarge supports no interface of the type efa"),
        ("p5.48xlarge", [ENA, EFA, (0, 2, "interface")], "card 0 of p5.48xlarge can have 2 inter"),
    ],
)
def test_ec2_refuses_interfaces_that_the_type_cannot_have(
    name: str, rows: list[tuple[int, int, str]], words: str
) -> None:
    """With the card and the device."""
    refused = interfaces_refusal(data(*rows), name)
    assert refused is not None
    assert words in refused[1]


def test_ec2_refuses_groups_beside_interfaces_and_public_addresses_of_several() -> None:
    """Each interface names its own groups."""
    both = interfaces_refusal(data(ENA, SecurityGroupIds=["sg-1"]), "p4d.24xlarge")
    assert both is not None
    assert both[0] == "InvalidParameterCombination"
    public = data(ENA, EFA)
    public["NetworkInterfaces"][0]["AssociatePublicIpAddress"] = True
    refused = interfaces_refusal(public, "p4d.24xlarge")
    assert refused is not None
    assert "associatePublicIPAddress" in refused[1]


def test_efa_traffic_passes_only_by_rules_that_name_the_group(ml: Account) -> None:
    """In both directions; a rule for all addresses is none for it (EC2 user guide, efa-start)."""
    vpc = ml.ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    group = ml.ec2.create_security_group(GroupName="efa", Description="efa", VpcId=vpc)["GroupId"]
    own = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    template = data(ENA, EFA)
    template["NetworkInterfaces"][1]["Groups"] = [group]
    account = ml.cloud.account
    assert why_silent(account, data(ENA)) == ""
    ml.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=own)
    assert group in why_silent(account, template)
    ml.ec2.authorize_security_group_egress(GroupId=group, IpPermissions=own)
    assert why_silent(account, template) == ""
