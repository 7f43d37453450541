"""Disks and the parts of load balancers, which GKE's controllers make: nobody else does here, but
anybody can look for them and remove what a deleted cluster has left behind."""

from collections.abc import Iterator

from rehearsal.simulators.google.api.server import Answer
from rehearsal.simulators.google.compute import resources

_EVERYWHERE = ("disks", "forwardingRules", "networkEndpointGroups", "backendServices", "urlMaps",
               "targetHttpProxies", "healthChecks")  # fmt: skip
"""Those that one request lists for all zones and regions."""
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
