"""How the provider changes a cluster: one request for each thing that changes."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, NotFoundError
from gpu_cluster.rehearsal.plugins.gcp import cluster_blocks, maintenance
from gpu_cluster.rehearsal.plugins.gcp.container import ContainerResource
from gpu_cluster.rehearsal.plugins.gcp.locations import is_zone
from gpu_cluster.rehearsal.plugins.gcp.translate import at

_ENDPOINTS = (
    "controlPlaneEndpointsConfig", "masterAuthorizedNetworksConfig", "privateClusterConfig",
)  # fmt: skip
_NOT_SENT = (
    "deletionPolicy", "deletionProtection", "effectiveLabels", "ignoreNodeCountChanges",
    "labelFingerprint", "masterVersion", "minMasterVersion", "nodeLocations", "nodeVersion",
    "parent", "pulumiLabels", "skipNodePoolRefresh",
)  # fmt: skip
"""Properties that exist only in the provider, or that follow from others."""
_BY_HAND = (
    "enableLegacyAbac", "loggingService", "maintenancePolicy", "monitoringService", "network",
    "networkPolicy", "removeDefaultNodePool", "resourceLabels", "subnetwork",
)  # fmt: skip
_FIRST = (
    "addonsConfig", "clusterAutoscaling", "dnsConfig", "allowNetAdmin", "binaryAuthorization",
    "enableShieldedNodes", "releaseChannel", "gkeAutoUpgradeConfig", "enableIntranodeVisibility",
    "privateIpv6GoogleAccess", "enableL4IlbSubsetting", "costManagementConfig",
    "authenticatorGroupsConfig", "defaultSnatStatus",
)  # fmt: skip
_THEN = (
    "notificationConfig", "verticalPodAutoscaling", "databaseEncryption", "workloadIdentityConfig",
    "loggingConfig", "monitoringConfig",
)  # fmt: skip
"""The provider's order (resource_container_cluster.go)."""
_SWITCHES = {
    "enableIntranodeVisibility": "desiredIntraNodeVisibilityConfig",
    "enableL4IlbSubsetting": "desiredL4ilbSubsettingConfig",
    "enableShieldedNodes": "desiredShieldedNodes",
}
_DESIRED = {
    "clusterAutoscaling": "desiredClusterAutoscaling",
    "enableK8sBetaApis": "desiredK8sBetaApis",
    "gkeAutoUpgradeConfig": "gkeAutoUpgradeConfig",
}


def change(
    kind: ContainerResource, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> None:
    """Sends the differences between two states to the API."""

    def differ(*names: str) -> bool:
        return any(new.get(name) != old.get(name) for name in names)

    def update(body: Mapping[str, Any], what: str) -> None:
        kind.send("PUT", identity, {"update": body}, f"updating {what}")

    before, after = kind.expand(dict(old) | {"name": new["name"]} | _labels(old)), kind.expand(new)

    def change_fields(names: Sequence[str]) -> None:
        for name in names:
            if differ(name) and (body := _field(kind, name, before, after)):
                update(body, f"GKE cluster {name}")

    endpoints = cluster_blocks.endpoints(new)
    if endpoints != cluster_blocks.endpoints(old):
        update({"desiredControlPlaneEndpointsConfig": endpoints}, "GKE control plane endpoints")
    private = [
        bool((config.get("privateClusterConfig") or {}).get("enablePrivateNodes"))
        for config in (old, new)
    ]
    if private[0] != private[1]:
        update({"desiredDefaultEnablePrivateNodes": private[1]}, "default enable private nodes")
    change_fields(_FIRST)
    zones = sorted(new.get("nodeLocations") or ())
    if zones != sorted(old.get("nodeLocations") or ()):
        location = new["location"]
        update(
            {"desiredLocations": [*zones, location] if is_zone(location) else zones},
            "GKE cluster node locations",
        )
    if differ("loggingService", "monitoringService"):
        names = ("LoggingService", "MonitoringService")
        services = {f"desired{name}": new.get(name[0].lower() + name[1:], "") for name in names}
        update(services, "GKE logging+monitoring service")
    if differ("networkPolicy"):
        body = {"networkPolicy": after["networkPolicy"]}
        path = f"{identity}:setNetworkPolicy"
        kind.send("POST", path, body, "updating GKE cluster network policy")
    if differ("enableLegacyAbac"):
        enabled = bool(new.get("enableLegacyAbac"))
        path = f"{identity}:setLegacyAbac"
        kind.send("POST", path, {"enabled": enabled}, "updating GKE legacy ABAC")
    wanted = new.get("minMasterVersion")
    newer = wanted and wanted != old.get("minMasterVersion")
    if newer and not _meets(str(old["masterVersion"]), str(wanted)):
        update({"desiredMasterVersion": wanted}, "GKE master version")
    if new.get("nodeVersion") and differ("nodeVersion"):
        body = {"desiredNodeVersion": new["nodeVersion"], "desiredNodePoolId": "default-pool"}
        update(body, "GKE default node pool node version")
    if differ("maintenancePolicy"):
        current = kind.get(identity).get("maintenancePolicy", {})
        policy = maintenance.expanded(new.get("maintenancePolicy"), current)
        path = f"{identity}:setMaintenancePolicy"
        kind.send("POST", path, {"maintenancePolicy": policy}, "updating GKE maintenance policy")
    change_fields(_THEN)
    if new["effectiveLabels"] != old.get("effectiveLabels"):
        body = {
            "resourceLabels": new["effectiveLabels"],
            "labelFingerprint": old.get("labelFingerprint", ""),
        }
        kind.send("POST", f"{identity}:setResourceLabels", body, "updating GKE resource labels")
    if differ("removeDefaultNodePool") and new.get("removeDefaultNodePool"):
        remove_default_pool(kind, identity)
    rest = {*old, *new} - {*_FIRST, *_THEN, *_ENDPOINTS, *_NOT_SENT, *_BY_HAND}
    change_fields(sorted(rest))


def remove_default_pool(kind: ContainerResource, identity: str) -> None:
    """Deletes the node pool that GKE creates with a cluster."""
    pool = f"{identity}/nodePools/default-pool"
    with contextlib.suppress(NotFoundError):
        kind.send("DELETE", pool, None, "removing default node pool")


def _field(
    kind: ContainerResource, name: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """The field of `ClusterUpdate` for an input, usually of the same name; empty if the API sees no
    difference."""
    field = kind.renamed.get(name, name)
    if field is None or at(before, field) == at(after, field):
        return {}
    fields = kind.document.schemas["ClusterUpdate"]["properties"]
    last, value = field.rpartition(".")[2], at(after, field)
    desired = _DESIRED.get(name, f"desired{last[0].upper()}{last[1:]}")
    if name in _SWITCHES:
        desired, value = _SWITCHES[name], {"enabled": bool(value)}
    elif name == "enableK8sBetaApis":
        enabled = (at(before, field) or {}).get("enabledApis", [])
        value = {"enabledApis": [api for api in value["enabledApis"] if api not in enabled]}
    if desired not in fields:
        raise CloudError(f"the offline plugin does not change '{name}' of a cluster")
    empty = {"boolean": False, "string": ""}  # "" is sent too, and the API refuses it
    return {desired: empty.get(fields[desired].get("type"), {}) if value is None else value}


def _labels(state: Mapping[str, Any]) -> dict[str, Any]:
    return {"effectiveLabels": state.get("effectiveLabels", {})}


def _meets(current: str, wanted: str) -> bool:
    """Whether a version is at least the wanted one, which may be only the beginning of a version.

    Raises CloudError for what is none, `latest` too: the provider compares versions
    (hashicorp/go-version; resource_container_cluster.go of terraform-provider-google-beta)."""
    if not re.fullmatch(r"v?[0-9]+(?:\.[0-9]+)*(?:-gke\.[0-9]+)?", wanted):
        raise CloudError(f"malformed version: {wanted}")
    wanted = wanted.removeprefix("v")

    def parts(version: str) -> list[int]:
        number, _, build = version.partition("-gke.")
        return [int(part) for part in [*number.split("."), *([build] if build else [])]]

    want = parts(wanted)
    return parts(current)[: len(want)] >= want
