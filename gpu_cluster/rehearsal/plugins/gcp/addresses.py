"""How the provider reads network addresses."""

import ipaddress
from typing import Any


def is_network(value: Any) -> bool:
    """Whether this is a network such as 10.0.0.0/20, without host bits."""
    try:
        ipaddress.ip_network(value)
    except ValueError:
        return False
    return "/" in str(value)
