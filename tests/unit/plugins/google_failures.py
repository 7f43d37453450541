"""Creates that fail half way, and what a plugin makes of them then and the next time."""

from collections.abc import Sequence
from typing import Any

import pytest

from plugins.cloud.wire import decode
from simulators.google.api.server import Request
from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import (
    CLUSTER,
    NETWORK,
    POOL,
    SUBNETWORK,
    GoogleStack,
    cluster,
    pool,
    subnetwork,
)

_TOLD = ("endpoint", "instanceGroupUrls", "location", "masterVersion", "name", "selfLink",
         "version")  # fmt: skip
_STOCKOUT = (
    "Google Compute Engine: Not all instances running in IGM after 35m4s. Expected 1, running 0, "
    "transitioning 1. Current errors: [GCE_STOCKOUT]"
)


def failures(stack: GoogleStack, requests: Sequence[Request]) -> dict[str, Any]:
    """Of a cluster and of a node pool: what the plugin says, what the engine keeps, what the next
    update says and sends, and what the delete sends."""
    network = stack.up(NETWORK, "net", {"name": "net", "autoCreateSubnetworks": False})
    nodes = stack.up(SUBNETWORK, "nodes", subnetwork(network["selfLink"], name="nodes"))
    halfway = stack.cloud.faults.halfway
    halfway |= {"CREATE_CLUSTER": [_STOCKOUT], "CREATE_NODE_POOL": [_STOCKOUT]}
    found = {"cluster": _life(stack, requests, CLUSTER, "dev", cluster(nodes))}
    stack.up(CLUSTER, "dev", cluster(nodes))
    found["pool"] = _life(stack, requests, POOL, "gpu", pool(name="gpu"))
    return found


def _life(
    stack: GoogleStack, requests: Sequence[Request], token: str, name: str, given: dict[str, Any]
) -> dict[str, Any]:
    with pytest.raises(Refused) as refused:
        stack.up(token, name, given)
    kept = refused.value.kept
    assert kept is not None
    state = decode(kept.properties)
    found: dict[str, Any] = {
        "says": str(refused.value),
        "id": kept.id,
        "knows": [each for each in _TOLD if state.get(each)],
    }
    replaces = stack.diff(token, name, given)[1].replaces
    before = len(requests)
    outputs = stack.up(token, name, given)
    found["next"] = {
        "replaces": list(replaces),
        "writes": _writes(requests[before:]),
        "knows": [each for each in _TOLD if outputs.get(each)],
    }
    before = len(requests)
    stack.delete(token, name)
    return found | {"delete": _writes(requests[before:])}


def _writes(requests: Sequence[Request]) -> list[str]:
    return [f"{verb} {path}" for verb, path, _ in requests if verb != "GET"]
