"""Resources that a cloud keeps although their creation failed. An `up` ignores them: they are in
the state, and the provider sees no change."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from components.catalog.clouds import AWS, GOOGLE
from stacks.engine.state import Deployment, resources
from stacks.recovery.aws import Aws
from stacks.recovery.google import Get

_REMOVES = "removeDefaultNodePool"
_FAILED = ("ERROR", "FAILED", "CREATE_FAILED")
"""Without RUNNING_WITH_ERROR and DEGRADED: those are running, and the cloud repairs them."""


def failed(
    deployment: Deployment, google: Get, aws: Callable[[str], Aws]
) -> Iterator[tuple[str, str]]:
    """URN, and the cloud's reason, of each failed cluster and node group; raises LookupError with
    the message of a cloud that does not answer."""
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
    """URNs of the clusters that still have GKE's default node pool, which the program removes:
    Google's provider deletes it after creating the cluster, and was interrupted before that. In
    `deployment`, they are changed so that the next update sees the difference, and deletes only the
    pool. Raises LookupError as `failed` does."""
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
