"""What a cluster asks of networks."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from plugins.cloud.handler import Config
from simulators.google.resource import full_name


def network_name(config: Config, state: Mapping[str, Any]) -> str:
    """The id of the network that a resource names."""
    return full_name(str(state["network"]), f"projects/{state['project']}/global/networks")


def is_network(value: Any) -> bool:
    """Whether this is an IP network without host bits, e.g. `10.0.0.0/20`."""
    try:
        ipaddress.ip_network(value)
    except ValueError:
        return False
    return "/" in str(value)
