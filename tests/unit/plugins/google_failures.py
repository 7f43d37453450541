"""What fails half way, made or changed, and what a plugin makes of it then and the next time."""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gpu_cluster.rehearsal.plugins.cloud.wire import decode
from gpu_cluster.rehearsal.simulators.google.api.server import Request
from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import (
    CLUSTER,
    NAT,
    NETWORK,
    POOL,
    ROUTER,
    SUBNETWORK,
    GoogleStack,
    cluster,
    pool,
    subnetwork,
    t4,
)

DASHBOARD = "gcp:monitoring/dashboard:Dashboard"
_MORE = {"ipCidrRange": "10.1.0.0/20", "secondaryIpRanges": [], "region": "us-central1"}
_NAT = {
    "name": "nat",
    "router": "router",
    "region": "us-central1",
    "natIpAllocateOption": "AUTO_ONLY",
    "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
    "enableDynamicPortAllocation": True,
}

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


def _board(**fields: Any) -> dict[str, Any]:
    return {"dashboardJson": json.dumps(fields)}


def _refused(
    stack: GoogleStack, token: str, name: str, given: dict[str, Any]
) -> tuple[str, Any, dict[str, Any]]:
    """What the plugin says, what the engine keeps, and the state in that."""
    with pytest.raises(Refused) as refused:
        stack.up(token, name, given)
    kept = refused.value.kept
    assert kept is not None, refused.value
    return str(refused.value), kept, decode(kept.properties)


def _life(
    stack: GoogleStack, requests: Sequence[Request], token: str, name: str, given: dict[str, Any]
) -> dict[str, Any]:
    says, kept, state = _refused(stack, token, name, given)
    found: dict[str, Any] = {
        "says": says,
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


def failed_updates(stack: GoogleStack, requests: Sequence[Request]) -> dict[str, Any]:
    """Of changes that fail after a part of them was made, and of refused ones: what the plugin
    says, what the state has of the change then, and what the same change finds and sends next."""
    network = stack.up(NETWORK, "net", {"name": "net", "autoCreateSubnetworks": False})
    net = network["selfLink"]
    nodes = stack.up(SUBNETWORK, "nodes", subnetwork(net, name="nodes"))
    stack.up(SUBNETWORK, "more", subnetwork(net, name="more", **_MORE))
    stack.up(ROUTER, "router", {"name": "router", "region": "us-central1", "network": net})
    stack.up(NAT, "nat", _NAT)
    stack.up(DASHBOARD, "board", _board(displayName="GPUs"))
    stack.up(CLUSTER, "dev", cluster(nodes))
    stack.up(POOL, "gpu", pool(name="gpu"))

    def fails(
        token: str, name: str, before: dict[str, Any], shows: str, **changes: Any
    ) -> dict[str, Any]:
        after = before | changes
        says, _, state = _refused(stack, token, name, after)
        found: dict[str, Any] = {
            "says": re.sub(r"/[0-9]{8}\b", "/NUMBER", says),
            "state": {path: at(state, path) or None for path in shows.split()},
            "same change": _inputs(stack.diff(token, name, after)[0], changes),
        }
        asked = len(requests)
        with contextlib.suppress(Refused):  # what the API refused it refuses again
            stack.up(token, name, after)
        return found | {"next": _writes(requests[asked:])}

    stack.cloud.faults.halfway |= {"SET_LABELS": [_STOCKOUT], "UPGRADE_NODES": ["", _STOCKOUT]}
    labels = {"team": "ml"}
    larger = t4(machineType="n1-standard-8", resourceLabels=labels)
    more = subnetwork(net, name="more", **_MORE)
    taken = [{"rangeName": "a", "ipCidrRange": "10.8.0.0/16"}]
    two = {"displayName": "GPUs", "gridLayout": {"columns": "2"}, "mosaicLayout": {"columns": 4}}
    return {
        "cluster": fails(
            CLUSTER, "dev", cluster(nodes), "enableShieldedNodes resourceLabels effectiveLabels",
            enableShieldedNodes=False, resourceLabels=labels,
        ),
        "pool": fails(
            POOL, "gpu", pool(name="gpu"), "nodeConfig.machineType nodeConfig.resourceLabels",
            nodeConfig=larger,
        ),
        "pool refused": fails(
            POOL, "gpu", pool(name="gpu", nodeConfig=larger), "nodeLocations nodeConfig.labels",
            nodeLocations=["europe-west4-a"], nodeConfig=larger | {"labels": {"role": "other"}},
        ),
        "subnetwork": fails(
            SUBNETWORK, "more", more, "ipCidrRange privateIpGoogleAccess",
            ipCidrRange="10.0.0.0/15", privateIpGoogleAccess=True,
        ),
        "subnetwork's ranges": fails(
            SUBNETWORK, "more", more, "privateIpGoogleAccess secondaryIpRanges.0.ipCidrRange",
            privateIpGoogleAccess=True, secondaryIpRanges=taken,
        ),
        "nat": fails(
            NAT, "nat", _NAT, "minPortsPerVm maxPortsPerVm", minPortsPerVm=100, maxPortsPerVm=200
        ),
        "dashboard": fails(
            DASHBOARD, "board", _board(displayName="GPUs"), "", dashboardJson=json.dumps(two)
        ),
    }  # fmt: skip


def at(state: Any, path: str) -> Any:
    """What a state has at `a.0.b`; None where it has nothing."""
    for step in path.split("."):
        if isinstance(state, list):
            state = state[int(step)] if int(step) < len(state) else None
        else:
            state = (state or {}).get(step)
    return state


def _inputs(found: Mapping[str, str], changes: Mapping[str, Any]) -> list[str]:
    paths = (re.sub(r"(abels)\..*", r"\1", path) for path in found)
    return sorted({path for path in paths if path.partition(".")[0].partition("[")[0] in changes})


def _writes(requests: Sequence[Request]) -> list[str]:
    return [f"{verb} {path}" for verb, path, _ in requests if verb != "GET"]
