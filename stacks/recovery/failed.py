"""What a cloud made half way and keeps. An `up` passes it by: it stands in the state, and to its
provider nothing of it changes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from components.catalog.clouds import AWS, GOOGLE
from stacks.engine.state import Deployment, resources
from stacks.recovery.aws import Aws
from stacks.recovery.google import Get

_REMOVES = "removeDefaultNodePool"
_FAILED = ("ERROR", "FAILED", "CREATE_FAILED")
"""Not RUNNING_WITH_ERROR or DEGRADED: those are up, and the cloud repairs them."""


def failed(
    deployment: Deployment, google: Get, aws: Callable[[str], Aws]
) -> Iterator[tuple[str, str]]:
    """URN, and the cloud's reason, of each cluster and each group of nodes that failed; raises
    LookupError in the words of a cloud that does not say."""
    for row in resources(deployment):
        if row.get("delete") or not row.get("id"):
            continue
        found: Mapping[str, Any] = {}
        if row["type"] in (GOOGLE.cluster, GOOGLE.node_pool):
            found = google("container", row["id"])
        elif row["type"] in (AWS.cluster, AWS.node_pool) and (
            region := (row.get("outputs") or {}).get("region")
        ):
            found = aws(str(region)).described(row["id"])
        if found.get("status") in _FAILED:
            yield row["urn"], _reason(found)


def keep_default_pool(deployment: Deployment, google: Get) -> list[str]:
    """URNs of the clusters that still have the node pool that GKE makes with each, and that the
    program has removed: Google's provider removes it once the cluster is made, and was ended before
    that. In `deployment` they are then as it left them, so that the next update sees the
    difference; that removes the pool, and nothing else. Raises LookupError as `failed` does."""
    found = []
    for row in resources(deployment):
        removes = (row.get("inputs") or {}).get(_REMOVES)
        if row["type"] != GOOGLE.cluster or row.get("delete") or not row.get("id") or not removes:
            continue
        pools = google("container", row["id"]).get("nodePools") or ()
        if any(pool["name"] == "default-pool" for pool in pools):
            found.append(row["urn"])
            for values in (row["inputs"], row.get("outputs") or {}):
                values[_REMOVES] = False
    return found


def _reason(found: Mapping[str, Any]) -> str:
    issues = (found.get("health") or {}).get("issues") or ()
    said = found.get("statusMessage") or "; ".join(one["message"] for one in issues)
    return str(said or found["status"])
