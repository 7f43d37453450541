"""Disks and the parts of load balancers, which only GKE's controllers create here. Any client can
list them, and remove what a deleted cluster has left."""

from collections.abc import Iterator

from rehearsal.simulators.google.api.server import Answer
from rehearsal.simulators.google.compute import resources

_EVERYWHERE = ("disks", "forwardingRules", "networkEndpointGroups", "backendServices", "urlMaps",
               "targetHttpProxies", "healthChecks")  # fmt: skip
"""Collections that one request can list for all zones and regions."""
_SCOPED = ("globalForwardingRules", "regionBackendServices", "regionUrlMaps",
           "regionTargetHttpProxies", "regionHealthChecks")  # fmt: skip


def _methods() -> Iterator[tuple[str, Answer]]:
    for collection in (*_EVERYWHERE, *_SCOPED):
        yield f"compute.{collection}.get", resources.get
        yield f"compute.{collection}.list", resources.list_
        yield f"compute.{collection}.delete", resources.delete
    for collection in _EVERYWHERE:
        yield f"compute.{collection}.aggregatedList", resources.aggregated_list


METHODS = dict(_methods())
