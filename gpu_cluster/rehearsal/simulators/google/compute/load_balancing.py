"""Disks and the parts of load balancers, which only GKE's controllers create here. Any client can
list them, and remove what a deleted cluster has left."""

from gpu_cluster.rehearsal.simulators.google.compute import resources

_EVERYWHERE = ("disks", "forwardingRules", "networkEndpointGroups", "backendServices", "urlMaps",
               "targetHttpProxies", "healthChecks")  # fmt: skip
"""Collections that one request can list for all zones and regions."""
_SCOPED = ("globalForwardingRules", "regionBackendServices", "regionUrlMaps",
           "regionTargetHttpProxies", "regionHealthChecks")  # fmt: skip


METHODS = {
    name: answer
    for collection in (*_EVERYWHERE, *_SCOPED)
    for name, answer in resources.methods(collection).items()
} | {
    f"compute.{collection}.aggregatedList": resources.aggregated_list for collection in _EVERYWHERE
}
