"""The parts of a cluster that the provider assembles by hand."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.gcp import maintenance
from gpu_cluster.rehearsal.plugins.gcp.container import sparse
from gpu_cluster.tools.google_discovery import Document


def expanded(
    document: Document, inputs: Mapping[str, Any], body: Mapping[str, Any]
) -> dict[str, Any]:
    """The blocks that the provider assembles by hand, or sends although they are empty."""
    private = inputs.get("privateClusterConfig") or {}
    autopilot = bool(inputs.get("enableAutopilot"))
    found: dict[str, Any] = {
        "name": inputs["name"],
        "autopilot": {"enabled": autopilot, **body.get("autopilot", {})},
        "autoscaling": autoscaling(inputs, body),
        "binaryAuthorization": _binary_authorization(inputs),
        "controlPlaneEndpointsConfig": endpoints(inputs),
        "legacyAbac": {"enabled": bool(inputs.get("enableLegacyAbac"))},
        "maintenancePolicy": maintenance.expanded(inputs.get("maintenancePolicy"), {}),
        "networkConfig": {
            **body.get("networkConfig", {}),
            **({"defaultEnablePrivateNodes": True} if private.get("enablePrivateNodes") else {}),
            **({"enableIntraNodeVisibility": True} if autopilot else {}),
        },
        "resourceLabels": inputs["effectiveLabels"],
        "shieldedNodes": {"enabled": bool(inputs.get("enableShieldedNodes", True))},
    }
    if found["autoscaling"] is None:
        del found["autoscaling"]
    found["networkPolicy"] = body.get("networkPolicy") or {}
    found["notificationConfig"] = body.get("notificationConfig") or {"pubsub": {}}
    if body.get("addonsConfig"):
        found["addonsConfig"] = addons(document, body["addonsConfig"])
    certificate = (inputs.get("masterAuth") or {}).get("clientCertificateConfig")
    if certificate is not None:
        found["masterAuth"] = {"clientCertificateConfig": sparse(certificate)}
    for name in ("network", "subnetwork"):
        if inputs.get(name):
            found[name] = inputs[name]
    if version := inputs.get("minMasterVersion"):
        found["initialClusterVersion"] = version
    if block := private.get("masterIpv4CidrBlock"):
        nodes = {"enablePrivateNodes": True} if private.get("enablePrivateNodes") else {}
        found["privateClusterConfig"] = {"masterIpv4CidrBlock": block, **nodes}
    native = inputs.get("networkingMode") in (None, "", "VPC_NATIVE")
    if policy := body.get("ipAllocationPolicy"):
        routes = {} if native else {"useRoutes": True}
        found["ipAllocationPolicy"] = {**policy, "useIpAliases": native, **routes}
    elif not native:
        found["ipAllocationPolicy"] = {
            "useIpAliases": False, "useRoutes": True, "stackType": "IPV4"
        }  # fmt: skip
    return found


def autoscaling(inputs: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns `ClusterAutoscaling`; None if it must not be sent."""
    if inputs.get("clusterAutoscaling"):
        found = {"defaultComputeClassConfig": {}, **body.get("autoscaling", {})}
        if defaults := found.get("autoprovisioningNodePoolDefaults"):
            more = {"minCpuPlatform": "automatic", "upgradeSettings": {}}
            found["autoprovisioningNodePoolDefaults"] = more | defaults
        if inputs.get("enableAutopilot"):  # suppressDiffForAutopilot
            found.pop("autoscalingProfile", None)
            for name in ("diskSizeGb", "diskType", "imageType"):
                found.get("autoprovisioningNodePoolDefaults", {}).pop(name, None)
        return found
    return None if inputs.get("enableAutopilot") else {"enableNodeAutoprovisioning": False}


def addons(document: Document, body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `AddonsConfig`, in which each addon has its switch even if it is off."""
    found = {}
    for name, block in body.items():
        schema = document.schemas["AddonsConfig"]["properties"][name]["$ref"]
        switch = next(
            key for key in ("disabled", "enabled") if key in document.schemas[schema]["properties"]
        )
        found[name] = {switch: False, **block}
    return found


def _binary_authorization(inputs: Mapping[str, Any]) -> dict[str, Any]:
    given = inputs.get("binaryAuthorization")
    return sparse(given) if given else {"enabled": False}


def endpoints(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `ControlPlaneEndpointsConfig`, from the provider's three blocks for it."""
    given = inputs.get("controlPlaneEndpointsConfig") or {}
    private = inputs.get("privateClusterConfig") or {}
    dns = given.get("dnsEndpointConfig") or {}
    switches = ("allowExternalTraffic", "enableK8sTokensViaDns", "enableK8sCertsViaDns")
    found: dict[str, Any] = {
        "dnsEndpointConfig": {name: bool(dns.get(name)) for name in switches},
        "ipEndpointsConfig": {"enabled": True},
    }
    if (given.get("ipEndpointsConfig") or {}).get("enabled") is False:
        found["ipEndpointsConfig"] = {"enabled": False}
        return found
    access = private.get("masterGlobalAccessConfig") or {}
    found["ipEndpointsConfig"] |= {
        "enablePublicEndpoint": not private.get("enablePrivateEndpoint"),
        "privateEndpointSubnetwork": private.get("privateEndpointSubnetwork") or "",
        "globalAccess": bool(access.get("enabled")),
        "authorizedNetworksConfig": _authorized(inputs.get("masterAuthorizedNetworksConfig")),
    }
    return found


def _authorized(given: Mapping[str, Any] | None) -> dict[str, Any]:
    if given is None:
        return {}
    found: dict[str, Any] = {"enabled": True}
    if blocks := given.get("cidrBlocks"):
        found["cidrBlocks"] = sparse(blocks)
    for name in ("gcpPublicCidrsAccessEnabled", "privateEndpointEnforcementEnabled"):
        if given.get(name) is not None:
            found[name] = given[name]
    return found


def flattened(body: Mapping[str, Any]) -> dict[str, Any]:
    """The blocks that the provider reads by hand; None for a missing one."""
    control = body.get("controlPlaneEndpointsConfig") or {}
    ip, dns = control.get("ipEndpointsConfig") or {}, control.get("dnsEndpointConfig") or {}
    authorized = ip.get("authorizedNetworksConfig") or {}
    auth, private = body.get("masterAuth") or {}, body.get("privateClusterConfig") or {}
    policy = body.get("ipAllocationPolicy") or {}
    zone = body.get("zone")
    return {
        "nodeLocations": [location for location in body.get("locations", ()) if location != zone],
        "networkingMode": "VPC_NATIVE" if policy.get("useIpAliases") else "ROUTES",
        "maintenancePolicy": maintenance.flattened(body.get("maintenancePolicy")),
        "operation": "",
        "servicesIpv4Cidr": body.get("servicesIpv4Cidr", ""),
        "tpuIpv4CidrBlock": body.get("tpuIpv4CidrBlock", ""),
        "masterAuth": {
            "clientCertificate": auth.get("clientCertificate", ""),
            "clientKey": auth.get("clientKey", ""),
            "clusterCaCertificate": auth.get("clusterCaCertificate", ""),
            "clientCertificateConfig": {
                "issueClientCertificate": bool(auth.get("clientCertificate"))
            },
        },
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {
                "allowExternalTraffic": dns.get("allowExternalTraffic", False),
                "enableK8sCertsViaDns": dns.get("enableK8sCertsViaDns", False),
                "enableK8sTokensViaDns": dns.get("enableK8sTokensViaDns", False),
                "endpoint": dns.get("endpoint", ""),
            },
            "ipEndpointsConfig": {"enabled": ip.get("enabled", False)},
        },
        "masterAuthorizedNetworksConfig": {
            "cidrBlocks": [dict(block) for block in authorized.get("cidrBlocks", ())],
            "gcpPublicCidrsAccessEnabled": authorized.get("gcpPublicCidrsAccessEnabled", False),
            "privateEndpointEnforcementEnabled": authorized.get(
                "privateEndpointEnforcementEnabled", False
            ),
        }
        if authorized.get("enabled")
        else None,
        "privateClusterConfig": {
            "enablePrivateEndpoint": not ip.get("enablePublicEndpoint", False),
            "enablePrivateNodes": (body.get("networkConfig") or {}).get(
                "defaultEnablePrivateNodes", False
            ),
            "masterGlobalAccessConfig": {"enabled": ip.get("globalAccess", False)},
            "masterIpv4CidrBlock": private.get("masterIpv4CidrBlock", ""),
            "peeringName": private.get("peeringName", ""),
            "privateEndpoint": ip.get("privateEndpoint", ""),
            "privateEndpointSubnetwork": ip.get("privateEndpointSubnetwork", ""),
            "publicEndpoint": ip.get("publicEndpoint", ""),
        },
    }
