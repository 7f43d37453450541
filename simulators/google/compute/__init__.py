"""Compute Engine, as far as somebody of a cluster asks for it."""

from collections.abc import Mapping

from simulators.google.api.server import Answer
from simulators.google.compute import networks, resources, subnetworks

METHODS: Mapping[str, Answer] = {
    **resources.METHODS,
    **networks.METHODS,
    **subnetworks.METHODS,
}
"""Method -> what answers it."""
