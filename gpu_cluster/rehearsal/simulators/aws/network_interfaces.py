"""Network interfaces of launch templates, and Elastic Fabric Adapters among them.

docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html, efa-start and using-eni (read
2026-11-28). Types and cards are those of moto's copy of EC2's responses. But for the first, the
words of the refusals are not EC2's.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account

EFA = "vpc.amazonaws.com/efa"
_EFA_TYPES = ("efa", "efa-only")


def adapters(data: Mapping[str, Any]) -> int:
    """Elastic Fabric Adapters of an instance with this launch template data."""
    return sum(kind in _EFA_TYPES for _, _, kind in _interfaces(data))


def interfaces_refusal(data: Mapping[str, Any], name: str) -> tuple[str, str] | None:
    """EC2's error, code and message, for the network interfaces of an instance of type `name`."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    given, row = [*_interfaces(data)], INSTANCE_TYPES.get(name)
    if given and data.get("SecurityGroupIds"):
        return (
            "InvalidParameterCombination",
            "Network interfaces and an instance-level security groups may not be specified on the "
            "same request",
        )
    if not given or row is None:
        return None
    cards = {card["NetworkCardIndex"]: card for card in row["NetworkInfo"]["NetworkCards"]}
    reason = next(_faults(given, cards, name), "")
    public = any(item.get("AssociatePublicIpAddress") for item in data["NetworkInterfaces"])
    if not reason and public and len(given) > 1:
        reason = "associatePublicIPAddress cannot be specified with several network interfaces"
    return ("InvalidParameterValue", reason) if reason else None


def _faults(
    given: list[tuple[int, int, str]], cards: Mapping[int, Mapping[str, Any]], name: str
) -> Iterator[str]:
    for card, device, kind in given:
        where = f"network card {card}, device {device}"
        if card not in cards:
            yield f"{where}: {name} has {len(cards)} network cards, numbered from 0"
        elif kind not in cards[card].get("InterfaceTypes", ["interface"]):
            yield f"{where}: the card of {name} supports no interface of the type {kind}"
        elif (card, device, kind) == (0, 0, "efa-only"):
            yield f"{where}: the primary network interface cannot be EFA-only"
    if [(card, device) for card, device, _ in given].count((0, 0)) != 1:
        yield "exactly one primary network interface, of network card 0 and device 0, is needed"
    for place, number in Counter((card, device) for card, device, _ in given).items():
        if number > 1:
            yield f"network card {place[0]} has {number} interfaces with device {place[1]}"
    for card, number in Counter(card for card, _, kind in given if kind in _EFA_TYPES).items():
        if number > 1:
            yield f"network card {card} has {number} EFA interfaces, and can have one"
    for card, number in Counter(card for card, _, _ in given).items():
        if number > (most := cards[card]["MaximumNetworkInterfaces"]):
            yield f"network card {card} of {name} can have {most} interfaces, not {number}"


def why_silent(account: Account, data: Mapping[str, Any]) -> str:
    """Why no EFA traffic passes between instances with this data: each adapter needs a security
    group that admits everything from and to itself; empty if all have one, or there is none."""
    for item in data.get("NetworkInterfaces") or []:
        groups = item.get("Groups") or []
        if item.get("InterfaceType") in _EFA_TYPES and not any(
            _open_to_itself(account, group) for group in groups
        ):
            return (
                "no EFA traffic passes between its nodes: none of the security groups "
                f"{', '.join(groups) or 'of the interface'} admits all traffic from and to itself"
            )
    return ""


def _open_to_itself(account: Account, identity: str) -> bool:
    group = account.backend("ec2").get_security_group_from_id(identity)
    return group is not None and all(
        any(
            str(entry.ip_protocol) == "-1" and entry.source_group.get("GroupId") == identity
            for entry in rules
        )
        for rules in (group.ingress_rules, group.egress_rules)
    )


def _interfaces(data: Mapping[str, Any]) -> Iterator[tuple[int, int, str]]:
    for item in data.get("NetworkInterfaces") or []:
        card, device = item.get("NetworkCardIndex") or 0, item.get("DeviceIndex") or 0
        yield int(card), int(device), item.get("InterfaceType") or "interface"
