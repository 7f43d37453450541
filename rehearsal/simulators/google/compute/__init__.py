"""Compute Engine, as far as somebody of a cluster asks for it."""

from collections.abc import Mapping

from rehearsal.simulators.google.api.server import Answer
from rehearsal.simulators.google.compute import (
    firewalls,
    instance_groups,
    instances,
    load_balancing,
    networks,
    offers,
    reservations,
    resources,
    routers,
    routes,
    subnetworks,
)

METHODS: Mapping[str, Answer] = {
    **resources.METHODS,
    **networks.METHODS,
    **instance_groups.METHODS,
    **subnetworks.METHODS,
    **routers.METHODS,
    **routes.METHODS,
    **firewalls.METHODS,
    **offers.METHODS,
    **reservations.METHODS,
    **instances.METHODS,
    **load_balancing.METHODS,
}
"""Method -> what answers it."""
