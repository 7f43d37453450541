"""GKE's defaults for a cluster, and the objects that it creates with one."""

import base64
import copy
import hashlib
import ipaddress
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.catalog.gke import meets
from gpu_cluster.rehearsal.simulators.google.container.locations import channel_of, version_in
from gpu_cluster.rehearsal.simulators.google.container.node_defaults import complete_config
from gpu_cluster.rehearsal.simulators.google.state import CloudState

MANAGED_PROMETHEUS = Path(__file__).with_name("managed_prometheus.yaml")
"""The resource definitions that managed Prometheus adds to a cluster."""
_GATEWAY_API = MANAGED_PROMETHEUS.with_name("gateway_api.yaml")
_COMPUTE_CLASS = MANAGED_PROMETHEUS.with_name("compute_class.yaml")
_NETWORKS = MANAGED_PROMETHEUS.with_name("networks.yaml")
_DEVICE_CLASS = MANAGED_PROMETHEUS.with_name("device_class.yaml")
_PROVISIONING_REQUEST = MANAGED_PROMETHEUS.with_name("provisioning_request.yaml")
# The defaults of a new cluster (docs.cloud.google.com, "About GKE logs", "Available metrics", and
# the reference of AddonsConfig; read 2026-11-21).
_LOGGED = ["SYSTEM_COMPONENTS", "WORKLOADS"]
_MONITORED = ["SYSTEM_COMPONENTS", "STORAGE", "HPA", "POD", "DAEMONSET", "DEPLOYMENT",
              "STATEFULSET", "JOBSET", "CADVISOR", "KUBELET", "DCGM"]  # fmt: skip
_ADDONS = {
    "httpLoadBalancing": {},
    "horizontalPodAutoscaling": {},
    "networkPolicyConfig": {"disabled": True},
    "gcePersistentDiskCsiDriverConfig": {"enabled": True},
    "dnsCacheConfig": {},
}
_ON_AUTOPILOT = {
    "gcpFilestoreCsiDriverConfig": {"enabled": True},
    "gcsFuseCsiDriverConfig": {"enabled": True},
    "dnsCacheConfig": {"enabled": True},
}


def complete(cloud: CloudState, identity: str, state: dict[str, Any], uses: list[str]) -> None:
    """Adds the defaults of every cluster to a new `Cluster`."""
    project = identity.split("/")[1]
    autopilot = (state.get("autopilot") or {}).get("enabled", False)
    version = version_in(channel_of(state), state.get("initialClusterVersion"))
    if autopilot:
        state["workloadIdentityConfig"] = {"workloadPool": f"{project}.svc.id.goog"}
        state.setdefault("autoscaling", {})["enableNodeAutoprovisioning"] = True
        state["shieldedNodes"] = {"enabled": True}
        state["verticalPodAutoscaling"] = {"enabled": True}
    network: dict[str, Any] = {
        "datapathProvider": "ADVANCED_DATAPATH" if autopilot else "LEGACY_DATAPATH",
        "defaultSnatStatus": {},
        "network": uses[0],
        "subnetwork": uses[1],
    }
    state |= {
        "id": uuid.uuid4().hex,
        "createTime": datetime.now(UTC).isoformat(timespec="seconds"),
        "status": "PROVISIONING",
        "initialClusterVersion": version,
        "currentMasterVersion": version,
        "currentNodeVersion": version,
        "endpoint": cloud.control_plane.endpoint,
        "network": uses[0].rpartition("/")[2],
        "subnetwork": uses[1].rpartition("/")[2],
        "networkConfig": network | state.get("networkConfig", {}),
        "ipAllocationPolicy": _ranges(cloud, state, uses[1]),
        "masterAuth": {
            "clientCertificateConfig": {},
            **state.get("masterAuth", {}),
            "clusterCaCertificate": base64.b64encode(cloud.control_plane.ca_certificate).decode(),
        },
        "addonsConfig": copy.deepcopy(_ADDONS)
        | (_ON_AUTOPILOT if autopilot else {})
        | state.get("addonsConfig", {}),
        "nodeConfig": complete_config(state.get("nodeConfig", {})),
    }
    state["clusterIpv4Cidr"] = state["ipAllocationPolicy"].get("clusterIpv4CidrBlock", "")
    state["servicesIpv4Cidr"] = state["ipAllocationPolicy"].get("servicesIpv4CidrBlock", "")
    for name, value in (
        ("releaseChannel", {"channel": "REGULAR"}),
        ("defaultMaxPodsConstraint", {"maxPodsPerNode": "110"}),
        ("databaseEncryption", {"state": "DECRYPTED"}),
        ("loggingService", "logging.googleapis.com/kubernetes"),
        ("monitoringService", "monitoring.googleapis.com/kubernetes"),
        ("loggingConfig", {"componentConfig": {"enableComponents": _LOGGED}}),
        ("monitoringConfig", {}),
        ("legacyAbac", {}),
        ("shieldedNodes", {"enabled": True}),
        ("securityPostureConfig", {"mode": "BASIC"}),
        ("podAutoscaling", {"hpaProfile": "PERFORMANCE"}),
        ("nodePoolDefaults", {"nodeConfigDefaults": {}}),
        ("maintenancePolicy", {}),
        ("controlPlaneEndpointsConfig", {}),
        ("privateClusterConfig", {}),
    ):
        state[name] = state.get(name) or value
    state["maintenancePolicy"]["resourceVersion"] = fingerprint(state["maintenancePolicy"])
    state["labelFingerprint"] = fingerprint(state.get("resourceLabels", {}))
    derive(cloud, state)


def derive(cloud: CloudState, state: dict[str, Any]) -> None:
    """Updates the derived fields, after each change."""
    monitoring = state["monitoringConfig"]
    monitoring.setdefault("componentConfig", {"enableComponents": list(_MONITORED)})
    monitoring.setdefault("managedPrometheusConfig", {"enabled": True})
    provisioned = (state.get("autoscaling") or {}).get("autoprovisioningNodePoolDefaults") or {}
    if provisioned.get("minCpuPlatform") == "automatic":  # which unsets it
        del provisioned["minCpuPlatform"]
    given = state["controlPlaneEndpointsConfig"]
    dns, ip = given.setdefault("dnsEndpointConfig", {}), given.setdefault("ipEndpointsConfig", {})
    ip.setdefault("enabled", True)
    # Really uid.REGION.gke.goog: the name always exists, but it answers only if enabled.
    port = cloud.control_plane.endpoint.rpartition(":")[2]
    dns["endpoint"] = f"localhost:{port if dns.get('allowExternalTraffic') else 1}"
    authorized = ip.setdefault("authorizedNetworksConfig", {})
    public = ip.setdefault("enablePublicEndpoint", True)
    subnetwork = cloud.found(state["networkConfig"]["subnetwork"]).state
    ip["privateEndpoint"] = str(ipaddress.ip_network(subnetwork["ipCidrRange"])[2])
    ip["publicEndpoint"] = state["endpoint"]
    # The older fields with the same meaning.
    state["masterAuthorizedNetworksConfig"] = authorized
    private = state["networkConfig"].get("defaultEnablePrivateNodes", False)
    state["privateClusterConfig"] |= {
        "enablePrivateNodes": private,
        "enablePrivateEndpoint": not public,
        "privateEndpoint": ip["privateEndpoint"],
        "publicEndpoint": ip["publicEndpoint"],
    }
    rest = {name: value for name, value in state.items() if name not in ("etag", "status")}
    state["etag"] = fingerprint(rest)


def _ranges(cloud: CloudState, state: Mapping[str, Any], subnetwork: str) -> dict[str, Any]:
    policy = {"stackType": "IPV4", "useIpAliases": True} | (state.get("ipAllocationPolicy") or {})
    if not policy["useIpAliases"] or subnetwork not in cloud.resources:
        return policy
    ranges = {
        block["rangeName"]: block.get("ipCidrRange", "")
        for block in cloud.resources[subnetwork].state.get("secondaryIpRanges", ())
    }
    for field, name in (
        ("clusterIpv4CidrBlock", "clusterSecondaryRangeName"),
        ("servicesIpv4CidrBlock", "servicesSecondaryRangeName"),
    ):
        if policy.get(name) in ranges:
            policy[field] = ranges[policy[name]]
    return policy


def bring_kinds(cloud: CloudState, state: Mapping[str, Any]) -> None:
    """Defines ComputeClass and ProvisioningRequest always; managed Prometheus unless it is
    disabled, and on Autopilot always; the Gateway API if it is enabled; the DeviceClass of RDMA
    interfaces in versions that have it; networks of pods if there can be several."""
    prometheus = state["monitoringConfig"]["managedPrometheusConfig"]
    channel = (state["networkConfig"].get("gatewayApiConfig") or {}).get("channel")
    files = [_COMPUTE_CLASS, _PROVISIONING_REQUEST]
    if (state.get("autopilot") or {}).get("enabled") or prometheus.get("enabled"):
        files.append(MANAGED_PROMETHEUS)
    if channel in ("CHANNEL_STANDARD", "CHANNEL_EXPERIMENTAL"):
        files.append(_GATEWAY_API)
    if state["networkConfig"].get("enableMultiNetworking"):
        files.append(_NETWORKS)
    if meets(state["currentMasterVersion"], ("1.34.1-gke.1829001",)) is not False:
        files.append(_DEVICE_CLASS)
    cloud.control_plane.define([kind for file in files for kind in _kinds(file)])


@cache
def _kinds(file: Path) -> list[dict[str, Any]]:
    """A file's definitions, which must not be changed."""
    kinds: list[dict[str, Any]] = yaml.safe_load(file.read_text())
    return kinds


def bring_workload_pool(cloud: CloudState, state: Mapping[str, Any]) -> None:
    """Creates the project's workload identity pool, which outlives the cluster."""
    if pool := (state.get("workloadIdentityConfig") or {}).get("workloadPool"):
        cloud.workload_pool(pool)


def fingerprint(value: Any) -> str:
    """The fingerprint of a current value, which differs after each change."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]
