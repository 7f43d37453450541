"""IPv4 networks as users write them, and the networks that may reach a control plane."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Any

from ..schema.limits import Limit, pattern
from ..schema.refusal import Refusal, named, refuse

_EXAMPLES = [
    ipaddress.IPv4Network(block) for block in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
]
"""https://www.rfc-editor.org/rfc/rfc5737"""

_RFC_1918 = [
    ipaddress.IPv4Network(block) for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
]
SET_PRIVATE = named("set privateEndpoint: true")
_PRIVATE, _PUBLIC = 8, 16
"""Shortest prefixes of networks that may reach a control plane. Few own a public /16."""


def _network(text: str) -> ipaddress.IPv4Network:
    """Parses a network. Refuses a single address: Python accepts it, GKE does not."""
    advice = ""
    try:
        block = ipaddress.IPv4Network(text, strict=False)
    except ValueError as error:
        wrong, advice = f"{error}", "write it as ADDRESS/BITS"
    else:
        if "/" not in text:
            wrong = f"it has no prefix length; write {block} for a single address"
        elif f"{block.network_address}" != text.partition("/")[0]:
            wrong = f"it has host bits set; write {block}"
        else:
            return block
    raise refuse((), text)(f"is not an IPv4 CIDR ({wrong})", remedy=advice)


def cidr(least: int, most: int, *, private: bool = False, why: str = "") -> Limit:
    """An IPv4 network whose prefix has `least` to `most` bits; `private`: within RFC 1918.

    `why` follows the range of the prefix in a refusal: `, of which each zone takes an eighth`.
    """

    def refusal(text: str) -> Refusal | str | None:
        try:
            block = _network(text)
        except Refusal as refused:
            return refused
        if not least <= block.prefixlen <= most:
            return f"{text!r} has /{block.prefixlen}; allowed: /{least} to /{most}{why}"
        if private and not is_private(block):
            return (
                f"{text!r} is not a private address range; use part of 10.0.0.0/8, 172.16.0.0/12 "
                "or 192.168.0.0/16"
            )
        return None

    return Limit(refusal, _form(least, most, private=private))


def _form(least: int, most: int, *, private: bool = False) -> dict[str, Any]:
    """The JSON Schema of a network; it cannot express that host bits must be zero."""
    start = r"(?:10|172\.(?:1[6-9]|2[0-9]|3[01])|192\.168)" if private else "[0-9]{1,3}"
    bits = "|".join(map(str, range(least, most + 1)))
    return pattern(re.compile(rf"{start}(?:\.[0-9]{{1,3}}){{1,3}}/(?:{bits})"))


def is_private(block: ipaddress.IPv4Network) -> bool:
    """Whether the whole network is within RFC 1918, as AWS requires for VPCs and EKS for services.

    Not `block.is_private`, which also includes loopback and the documentation ranges.
    """
    return any(map(block.subnet_of, _RFC_1918))


def _too_large(text: str) -> Refusal | str | None:
    try:
        block = _network(text)
    except Refusal as refused:
        return refused
    if block.prefixlen >= (_PUBLIC if block.is_global else _PRIVATE):
        return None
    whom = "the world" if block.prefixlen < _PRIVATE else "the networks of many others"
    return (
        f"{text!r} would open the control plane to {whom}; allowed: private networks up to "
        f"/{_PRIVATE}, and public ones up to /{_PUBLIC} that you know"
    )


AuthorizedNetworks = Mapping[str, Annotated[str, Limit(_too_large, _form(_PRIVATE, 32))]]
"""Display name -> an IPv4 CIDR that may reach a control plane."""


def example_warnings(networks: Mapping[str, str], then: str) -> list[str]:
    """A warning for each documentation-only network, with what the cloud does `then`."""
    return [
        f"authorizedNetworks.{name}: {text} is a range that is reserved for documentation; {then}; "
        "give the network from which you connect"
        for name, text in networks.items()
        if is_example(ipaddress.IPv4Network(text))
    ]


def is_example(block: ipaddress.IPv4Network) -> bool:
    """Whether the network is within a range reserved for documentation, which no host uses."""
    return any(map(block.subnet_of, _EXAMPLES))
