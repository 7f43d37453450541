"""A life of each Google resource that is over HTTP, and what a plugin writes on the way."""

import json
import re
from collections.abc import Sequence
from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.server import Request
from tests.unit.simulators.google_stack import (
    ACCOUNT,
    ACCOUNT_MEMBER,
    BUCKET_MEMBER,
    CLUSTER,
    FIREWALL,
    MEMBER,
    NAT,
    NETWORK,
    POOL,
    ROUTER,
    SUBNETWORK,
    GoogleStack,
    subnetwork,
    t4,
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
_READER = {
    "bucket": "data",
    "role": "roles/storage.objectViewer",
    "member": f"serviceAccount:{_EMAIL}",
}
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
_RENAMED = _DASHBOARD | {"displayName": "All"}
_IMAGES = {"format": "DOCKER", "repositoryId": "images", "location": "us-central1"}

_OFFICE = {"displayName": "office", "cidrBlock": "203.0.113.0/24"}
_LOCKED = {"gcpPublicCidrsAccessEnabled": False, "privateEndpointEnforcementEnabled": False}
_CLUSTER = {
    "name": "dev",
    "location": "us-central1-a",
    "network": _NET,
    "subnetwork": "projects/p/regions/us-central1/subnetworks/nodes",
    "initialNodeCount": 1,
    "removeDefaultNodePool": True,
    "deletionProtection": False,
    "ipAllocationPolicy": {"clusterSecondaryRangeName": "pods",
        "servicesSecondaryRangeName": "services"},
    "privateClusterConfig": {"enablePrivateNodes": True, "enablePrivateEndpoint": False},
    "masterAuthorizedNetworksConfig": {"cidrBlocks": [_OFFICE], **_LOCKED},
    "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"allowExternalTraffic": False}},
    "releaseChannel": {"channel": "REGULAR"},
    "masterAuth": {"clientCertificateConfig": {"issueClientCertificate": False}},
    "workloadIdentityConfig": {"workloadPool": "p.svc.id.goog"},
    "databaseEncryption": {"state": "DECRYPTED"},
    "securityPostureConfig": {"mode": "BASIC", "vulnerabilityMode": "VULNERABILITY_DISABLED"},
    "resourceLabels": {"managed-by": "gpu-cluster"},
    "nodeConfig": {"shieldedInstanceConfig": {"enableSecureBoot": True}},
    "monitoringConfig": {"enableComponents": ["SYSTEM_COMPONENTS"],
        "managedPrometheus": {"enabled": False}},
}  # fmt: skip
_WEEKEND = {
    "startTime": "2026-01-03T00:00:00Z",
    "endTime": "2026-01-03T08:00:00Z",
    "recurrence": "FREQ=WEEKLY;BYDAY=SA,SU",
}
_EXCLUSION = {
    "exclusionName": "launch",
    "startTime": "2026-12-01T00:00:00Z",
    "endTime": "2026-12-20T00:00:00Z",
    "exclusionOptions": {"scope": "NO_UPGRADES"},
}
_CHANGES: Sequence[dict[str, Any]] = (
    {"resourceLabels": {"managed-by": "gpu-cluster", "team": "ml"}},
    {"masterAuthorizedNetworksConfig": {"cidrBlocks": [], **_LOCKED}},
    {"controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"allowExternalTraffic": True}}},
    {"maintenancePolicy": {"recurringWindow": _WEEKEND, "maintenanceExclusions": [_EXCLUSION]}},
    {"maintenancePolicy": {"dailyMaintenanceWindow": {"startTime": "03:00"}}},
    {"monitoringConfig": {"enableComponents": ["SYSTEM_COMPONENTS", "DCGM"]}},
    {"loggingConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]}},
    {"releaseChannel": {"channel": "STABLE"}},
    {"minMasterVersion": "1.36"},
    {"securityPostureConfig": {"mode": "DISABLED"}},
    {"verticalPodAutoscaling": {"enabled": True}},
    {"addonsConfig": {"gcsFuseCsiDriverConfig": {"enabled": True}}},
    {"enableShieldedNodes": False},
    {"enableIntranodeVisibility": True},
    {"clusterAutoscaling": {"autoscalingProfile": "OPTIMIZE_UTILIZATION"}},
    {"nodeLocations": ["us-central1-b"]},
    {"privateClusterConfig": {"enablePrivateNodes": False, "enablePrivateEndpoint": False}},
)
"""Of the cluster, one by one, each from what it was at first."""
_GROWN = {"totalMinNodeCount": 0, "totalMaxNodeCount": 5, "locationPolicy": "ANY"}
_POOL = {
    "name": "gpu",
    "cluster": "projects/p/locations/us-central1-a/clusters/dev",
    "nodeLocations": ["us-central1-a"],
    "initialNodeCount": 0,
    "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 3, "locationPolicy": "ANY"},
    "ignoreNodeCountChanges": True,
    "management": {"autoRepair": True, "autoUpgrade": True},
    "upgradeSettings": {"maxSurge": 0, "maxUnavailable": 1},
    "nodeConfig": t4(
        diskSizeGb=100, oauthScopes=["cloud-platform"], shieldedInstanceConfig={},
        workloadMetadataConfig={"mode": "GKE_METADATA"},
    ),
}  # fmt: skip
_OF_POOL: Sequence[dict[str, Any]] = (
    {"autoscaling": _GROWN},
    {"management": {"autoRepair": False, "autoUpgrade": True}},
    {"upgradeSettings": {"maxSurge": 1, "maxUnavailable": 0}},
    {"nodeLocations": ["us-central1-a", "us-central1-b"]},
    {"version": "1.35.6-gke.1000000"},
    *(
        {"nodeConfig": _POOL["nodeConfig"] | change}
        for change in (
            {"labels": {"role": "other"}},
            {"taints": []},
            {"tags": ["gpu"]},
            {"machineType": "n1-standard-8"},
            {"diskSizeGb": 200},
            {"imageType": "UBUNTU_CONTAINERD"},
            {"gcfsConfig": {"enabled": True}},
            {"workloadMetadataConfig": {"mode": "GCE_METADATA"}},
            {"loggingVariant": "MAX_THROUGHPUT"},
        )
    ),
)  # fmt: skip


def _policies(token: str, name: str, inputs: dict[str, Any]) -> Sequence[tuple[str, str, Any]]:
    """Of a deletion policy the API hears nothing."""
    return [(token, name, inputs | {"deletionPolicy": each}) for each in ("ABANDON", "DELETE")]


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
    *_policies(NAT, "nat", _NAT | {"maxPortsPerVm": 4096}),
    (NAT, "listed", _LISTED),
    (ROUTER, "router", {"name": "router", "network": _NET, "bgp": {"asn": 64514}, **_PLACE}),
    (FIREWALL, "wall", _WALL),
    (FIREWALL, "wall", _WALL | {"priority": 900}),
    *_policies(FIREWALL, "wall", _WALL | {"priority": 900}),
    (ACCOUNT, "nodes", {"accountId": "nodes-of-dev", "displayName": "GPU nodes"}),
    (ACCOUNT, "nodes", {"accountId": "nodes-of-dev", "displayName": "Nodes", "description": "d"}),
    (MEMBER, "viewer", _VIEWER),
    (MEMBER, "metrics", _VIEWER | {"role": "roles/monitoring.viewer"}),
    (ACCOUNT_MEMBER, "user",
        {"serviceAccountId": _ACCOUNT, "role": "roles/iam.workloadIdentityUser",
            "member": "user:a@b.c"}),
    (BUCKET_MEMBER, "reader", _READER),
    (BUCKET_MEMBER, "writer", _READER | {"role": "roles/storage.objectUser"}),
    (SERVICE, "gke", {"service": "container.googleapis.com", "disableOnDestroy": False}),
    (REPOSITORY, "images", _IMAGES),
    (REPOSITORY, "images", _IMAGES | {"description": "x", "labels": {"a": "b"}}),
    (DASHBOARD, "gpus", {"dashboardJson": json.dumps(_DASHBOARD)}),
    (DASHBOARD, "gpus", {"dashboardJson": json.dumps(_RENAMED)}),
    *_policies(DASHBOARD, "gpus", {"dashboardJson": json.dumps(_RENAMED)}),
    (ALERT, "down", _ALERT),
    (ALERT, "down", _ALERT | {"displayName": "is down"}),
    *_policies(ALERT, "down", _ALERT | {"displayName": "is down"}),
    (CLUSTER, "dev", _CLUSTER),
    *((CLUSTER, "dev", _CLUSTER | change) for change in _CHANGES),
    (POOL, "gpu", _POOL),
    *((POOL, "gpu", _POOL | change) for change in _OF_POOL),
)  # fmt: skip
"""Each is created, or changed to these inputs; at the end all are deleted, the last one first."""
_AUTOPILOT = {
    name: value
    for name, value in _CLUSTER.items()
    if name not in ("initialNodeCount", "removeDefaultNodePool", "nodeConfig", "monitoringConfig")
} | {
    "location": "us-central1",
    "enableAutopilot": True,
    "clusterAutoscaling": {
        "autoProvisioningDefaults": {
            "serviceAccount": "nodes@other.iam.gserviceaccount.com",
            "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
        }
    },
}
_ON_AUTOPILOT: Sequence[tuple[str, str, dict[str, Any]]] = (
    STEPS[0],
    (SUBNETWORK, "nodes", _NODES),
    (CLUSTER, "dev", _AUTOPILOT),
    (CLUSTER, "dev", _AUTOPILOT | _CHANGES[0]),
)
"""Another life after that."""


def writes(stack: GoogleStack, requests: list[Request]) -> list[dict[str, Any]]:
    """What a life of all of them asks of the APIs to change."""
    for life in (STEPS, _ON_AUTOPILOT):
        for token, name, inputs in life:
            stack.up(token, name, inputs)
        for token, name in reversed(dict.fromkeys((token, name) for token, name, _ in life)):
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
        plain = [_plain(each) for each in value]
        return sorted(plain) if key in ("desiredLocations", "locations") else plain
    if key in ("etag", "fingerprint"):
        return f"the {key}"
    return (
        re.sub(r"/(dashboards|alertPolicies)/\d+", r"/\1/NUMBER", value)
        if isinstance(value, str)
        else value
    )
