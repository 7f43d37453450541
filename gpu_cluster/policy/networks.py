"""IP ranges, checked together: two halves of the internet are the whole internet."""

import ipaddress
from collections.abc import Sequence
from typing import Any

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_PRIVATE = [
    ipaddress.ip_network(block)
    for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15",
                  "240.0.0.0/4", "fc00::/7")
]  # fmt: skip
"""Not routed on the internet: RFC 1918, 6598, 2544, 1112 and 4193."""


def too_wide(blocks: Sequence[Any], *, private: float, public: float) -> list[str]:
    """Ranges that are wider than these prefixes allow, also several that add up to a wider one.

    Each item is a range as it was given, or several with their sum: `0.0.0.0/1 and 128.0.0.0/1,
    together 0.0.0.0/0`. Unknown and invalid ranges are ignored.
    """
    networks = {block: network for block in blocks if (network := _network(block)) is not None}
    wide = []
    for version in (4, 6):
        of_version = [network for network in networks.values() if network.version == version]
        for whole in ipaddress.collapse_addresses(of_version):  # type: ignore[type-var]
            limit = _limit(whole, private, public)
            if whole.prefixlen >= limit:
                continue
            inside = {block: net for block, net in networks.items() if _within(net, whole)}
            # If ranges contain each other, only the outer ones.
            parts = [
                block
                for block, net in inside.items()
                if not any(net != other and _within(net, other) for other in inside.values())
            ]
            together = "" if len(parts) == 1 else f", together {whole}"
            wide.append(f"{' and '.join(parts)}{together}")
    return wide


def _network(block: Any) -> Network | None:
    try:
        return ipaddress.ip_network(block, strict=False) if isinstance(block, str) else None
    except ValueError:
        return None


def _limit(network: Network, private: float, public: float) -> float:
    if any(_within(network, private_network) for private_network in _PRIVATE):
        return private if network.version == 4 else 0
    # Typical allocations to a provider: /16 of IPv4, /32 of IPv6.
    return public if network.version == 4 else 2 * public


def _within(network: Network, other: Network) -> bool:
    if isinstance(network, ipaddress.IPv4Network):
        return isinstance(other, ipaddress.IPv4Network) and network.subnet_of(other)
    return isinstance(other, ipaddress.IPv6Network) and network.subnet_of(other)
