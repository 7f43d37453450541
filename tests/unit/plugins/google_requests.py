"""A life of each Google resource that is over HTTP, and what a plugin writes on the way."""

import json
import re
from collections.abc import Sequence
from typing import Any

from simulators.google.api.server import Request
from tests.unit.simulators.google_stack import (
    ACCOUNT,
    ACCOUNT_MEMBER,
    FIREWALL,
    MEMBER,
    NAT,
    NETWORK,
    ROUTER,
    SUBNETWORK,
    GoogleStack,
    subnetwork,
)

SERVICE = "gcp:projects/service:Service"
REPOSITORY = "gcp:artifactregistry/repository:Repository"
DASHBOARD = "gcp:monitoring/dashboard:Dashboard"
ALERT = "gcp:monitoring/alertPolicy:AlertPolicy"

_NET = "projects/p/global/networks/net"
_EMAIL = "nodes-of-dev@p.iam.gserviceaccount.com"
_ACCOUNT = f"projects/p/serviceAccounts/{_EMAIL}"
_PLACE = {"region": "us-central1"}
_NODES = subnetwork(_NET, name="nodes", privateIpGoogleAccess=True, **_PLACE)
_WIDER = _NODES | {"ipCidrRange": "10.0.0.0/19"}
_MORE = [*_NODES["secondaryIpRanges"], {"rangeName": "more", "ipCidrRange": "10.24.0.0/20"}]
_NAT = {
    "name": "nat",
    "router": "router",
    "natIpAllocateOption": "AUTO_ONLY",
    "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
    "enableDynamicPortAllocation": True,
    "minPortsPerVm": 64,
    "maxPortsPerVm": 8192,
    "enableEndpointIndependentMapping": False,
    "logConfig": {"enable": True, "filter": "ERRORS_ONLY"},
    **_PLACE,
}
_LISTED = {
    "name": "listed",
    "router": "router",
    "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
    "subnetworks": [{"name": "nodes", "sourceIpRangesToNats": ["ALL_IP_RANGES"]}],
    **_PLACE,
}
_WALL = {
    "name": "wall",
    "network": _NET,
    "sourceRanges": ["10.0.0.0/8"],
    "allows": [{"protocol": "tcp", "ports": ["22"]}],
}
_VIEWER = {"project": "p", "role": "roles/viewer", "member": f"serviceAccount:{_EMAIL}"}
_CONDITION = {
    "displayName": "down",
    "conditionPrometheusQueryLanguage": {
        "query": "up == 0",
        "duration": "300s",
        "evaluationInterval": "30s",
    },
}
_ALERT = {
    "combiner": "OR",
    "displayName": "down",
    "conditions": [_CONDITION],
    "documentation": {"content": "look", "mimeType": "text/markdown"},
    "userLabels": {"x": "y"},
    "severity": "WARNING",
    "alertStrategy": {"autoClose": "1800s"},
}
_TILE = {"width": 24, "height": 16, "widget": {"title": "t", "text": {"content": "c"}}}
_DASHBOARD = {"displayName": "GPUs", "mosaicLayout": {"columns": 48, "tiles": [_TILE]}}
_IMAGES = {"format": "DOCKER", "repositoryId": "images", "location": "us-central1"}

STEPS: Sequence[tuple[str, str, dict[str, Any]]] = (
    (NETWORK, "net", {"name": "net", "autoCreateSubnetworks": False, "routingMode": "REGIONAL"}),
    (SUBNETWORK, "nodes", _NODES),
    (SUBNETWORK, "nodes", _WIDER | {"privateIpGoogleAccess": False}),
    (SUBNETWORK, "nodes", _WIDER | {"logConfig": {"flowSampling": 0.1}}),
    (SUBNETWORK, "nodes", _WIDER | {"secondaryIpRanges": _MORE}),
    (NETWORK, "net", {"name": "net", "autoCreateSubnetworks": False, "routingMode": "GLOBAL"}),
    (ROUTER, "router", {"name": "router", "network": _NET, **_PLACE}),
    (NAT, "nat", _NAT),
    (NAT, "nat", _NAT | {"maxPortsPerVm": 4096}),
    (NAT, "listed", _LISTED),
    (ROUTER, "router", {"name": "router", "network": _NET, "bgp": {"asn": 64514}, **_PLACE}),
    (FIREWALL, "wall", _WALL),
    (FIREWALL, "wall", _WALL | {"priority": 900}),
    (ACCOUNT, "nodes", {"accountId": "nodes-of-dev", "displayName": "GPU nodes"}),
    (ACCOUNT, "nodes", {"accountId": "nodes-of-dev", "displayName": "Nodes", "description": "d"}),
    (MEMBER, "viewer", _VIEWER),
    (MEMBER, "metrics", _VIEWER | {"role": "roles/monitoring.viewer"}),
    (
        ACCOUNT_MEMBER,
        "user",
        {
            "serviceAccountId": _ACCOUNT,
            "role": "roles/iam.workloadIdentityUser",
            "member": "user:a@b.c",
        },
    ),
    (SERVICE, "gke", {"service": "container.googleapis.com", "disableOnDestroy": False}),
    (REPOSITORY, "images", _IMAGES),
    (REPOSITORY, "images", _IMAGES | {"description": "x", "labels": {"a": "b"}}),
    (DASHBOARD, "gpus", {"dashboardJson": json.dumps(_DASHBOARD)}),
    (DASHBOARD, "gpus", {"dashboardJson": json.dumps(_DASHBOARD | {"displayName": "All"})}),
    (ALERT, "down", _ALERT),
    (ALERT, "down", _ALERT | {"displayName": "is down"}),
)
"""Each is created, or changed to these inputs; at the end all are deleted, the last one first."""


def writes(stack: GoogleStack, requests: list[Request]) -> list[dict[str, Any]]:
    """What a life of all of them asks of the APIs to change."""
    for token, name, inputs in STEPS:
        stack.up(token, name, inputs)
    for token, name in reversed(dict.fromkeys((token, name) for token, name, _ in STEPS)):
        stack.delete(token, name)
    return [
        {"verb": verb, "path": _plain(path)} | ({"body": _plain(body)} if body else {})
        for verb, path, body in requests
        if verb != "GET" and not path.endswith(":getIamPolicy")
    ]


def _plain(value: Any, key: str = "") -> Any:
    """Without what a cloud says differently each time: etags, its numbers."""
    if isinstance(value, dict):
        return {name: _plain(each, name) for name, each in sorted(value.items())}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if key in ("etag", "fingerprint"):
        return f"the {key}"
    return (
        re.sub(r"/(dashboards|alertPolicies)/\d+", r"/\1/NUMBER", value)
        if isinstance(value, str)
        else value
    )
