"""Compute Engine, as far as somebody of a cluster asks for it."""

from collections.abc import Mapping

from simulators.google.api.server import Answer
from simulators.google.compute import firewalls, networks, resources, routers, subnetworks

METHODS: Mapping[str, Answer] = {
    **resources.METHODS,
    **networks.METHODS,
    **subnetworks.METHODS,
    **routers.METHODS,
    **firewalls.METHODS,
}
"""Method -> what answers it."""
