"""Resources that a cloud keeps although their creation failed. An `up` ignores them: they are in
the state, and the provider sees no change."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.components.catalog.clouds import CLOUDS, GOOGLE
from gpu_cluster.stacks.engine.state import Deployment, resources
from gpu_cluster.stacks.recovery.clouds import recovers
from gpu_cluster.stacks.recovery.google import Get
from gpu_cluster.stacks.recovery.protocols import Clouds

_TYPES = {kind for cloud in CLOUDS.values() for kind in (cloud.cluster, cloud.node_pool)}
_REMOVES = "removeDefaultNodePool"
_FAILED = ("ERROR", "FAILED", "CREATE_FAILED")
"""Without RUNNING_WITH_ERROR and DEGRADED: those are running, and the cloud repairs them."""


def failed(deployment: Deployment, clouds: Clouds) -> Iterator[tuple[str, str]]:
    """URN, and the cloud's reason, of each failed cluster and node group; raises LookupError with
    the message of a cloud that does not answer."""
    for resource in resources(deployment):
        if resource["type"] not in _TYPES or resource.get("delete") or not resource.get("id"):
            continue
        module = recovers(resource["type"].partition(":")[0])
        description = module.described(resource, clouds) if module else {}
        if description.get("status") in _FAILED:
            yield resource["urn"], _reason(description)


def keep_default_pool(deployment: Deployment, google: Get) -> list[str]:
    """URNs of the clusters that still have GKE's default node pool, which the program removes:
    Google's provider deletes it after creating the cluster, and was interrupted before that. In
    `deployment`, they are changed so that the next update sees the difference, and deletes only the
    pool. Raises LookupError as `failed` does."""
    urns = []
    for row in resources(deployment):
        removes = (row.get("inputs") or {}).get(_REMOVES)
        if row["type"] != GOOGLE.cluster or row.get("delete") or not row.get("id") or not removes:
            continue
        pools = google("container", row["id"]).get("nodePools") or ()
        if any(pool["name"] == "default-pool" for pool in pools):
            urns.append(row["urn"])
            for values in (row["inputs"], row.get("outputs") or {}):
                values[_REMOVES] = False
    return urns


def _reason(found: Mapping[str, Any]) -> str:
    issues = (found.get("health") or {}).get("issues") or ()
    message = found.get("statusMessage") or "; ".join(issue["message"] for issue in issues)
    return str(message or found["status"])
