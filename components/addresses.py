"""IPv4 addresses as a user writes them, and who may reach a control plane."""

import ipaddress
from collections.abc import Mapping

_EXAMPLES = [
    ipaddress.IPv4Network(block) for block in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
]
"""https://www.rfc-editor.org/rfc/rfc5737"""

_PRIVATE, _PUBLIC = 8, 16
"""Shortest prefix of a network that may reach a control plane. Of public space few have a /16."""


def parse_cidr(key: str, text: str) -> ipaddress.IPv4Network:
    """`text` as an IPv4 network; raises ValueError with one line that begins with `key`.

    A single address is refused: Python takes it for a network of one, and GKE does not.
    """
    try:
        if "/" not in text and (address := ipaddress.IPv4Address(text)):
            raise ValueError(f"it has no prefix; write {address}/32 for that address alone")
        block = ipaddress.IPv4Network(text, strict=False)
        if f"{block.network_address}" != text.partition("/")[0]:
            raise ValueError(f"it has host bits set; write {block}")
        return block
    except ValueError as error:
        raise ValueError(f"{key}: {text!r} is not an IPv4 CIDR ({error})") from None


def authorized(networks: Mapping[str, str]) -> dict[str, ipaddress.IPv4Network]:
    """The networks of `authorizedNetworks`; raises ValueError where one of them is too large."""
    found: dict[str, ipaddress.IPv4Network] = {}
    for name, text in networks.items():
        block = parse_cidr(f"authorizedNetworks.{name}", text)
        if block.prefixlen < (_PUBLIC if block.is_global else _PRIVATE):
            whom = "the world" if block.prefixlen < _PRIVATE else "networks of many others"
            raise ValueError(
                f"authorizedNetworks.{name}: {text!r} opens the control plane to {whom}; allowed: "
                f"private networks up to /{_PRIVATE}, and public ones up to /{_PUBLIC} that you "
                "know"
            )
        found[name] = block
    return found


def example_warnings(networks: Mapping[str, str], then: str) -> list[str]:
    """A line for each network that nobody has, with what the cloud does `then`."""
    return [
        f"authorizedNetworks.{name}: {text} is an address of documentation, which nobody has; "
        f"{then}; give the network from which you come"
        for name, text in networks.items()
        if is_example(ipaddress.IPv4Network(text))
    ]


def is_example(block: ipaddress.IPv4Network) -> bool:
    """Whether the network is one of those for documentation, which nobody has."""
    return any(map(block.subnet_of, _EXAMPLES))
