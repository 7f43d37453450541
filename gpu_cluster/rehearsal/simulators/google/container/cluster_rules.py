"""GKE's rules for a cluster."""

import ipaddress
import unicodedata
from collections.abc import Mapping
from typing import Any

from gpu_cluster.components.catalog.gke import region_of
from gpu_cluster.rehearsal.simulators.google.container import keys, maintenance, pod_networks
from gpu_cluster.rehearsal.simulators.google.errors import bad_request
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.rehearsal.simulators.google.state import CloudState


def networks_of(identity: str, state: Mapping[str, Any]) -> list[str]:
    """Full names of a `Cluster`'s network and subnetwork, given as link, path or bare name."""
    project, location = identity.split("/")[1], identity.split("/")[3]
    places = {
        "network": f"projects/{project}/global/networks",
        "subnetwork": f"projects/{project}/regions/{region_of(location)}/subnetworks",
    }
    network, subnetwork = (str(state.get(name) or "") for name in places)
    if not subnetwork:
        raise bad_request("A network in custom subnet mode requires 'subnetwork'")
    return [
        f"projects/{path}" if found else f"{place}/{value}"
        for place, value in zip(places.values(), (network or "default", subnetwork), strict=True)
        for _, found, path in [value.partition("projects/")]
    ]


def check_cluster(
    cloud: CloudState, identity: str, state: Mapping[str, Any], uses: list[str]
) -> None:
    """Raises ApiError if GKE refuses this new or changed `Cluster`."""
    subnetwork = cloud.found(uses[1])
    _check_subnetwork(state, subnetwork, uses)
    _check_mode(identity, state)
    project = identity.split("/")[1]
    defaults = (state.get("autoscaling") or {}).get("autoprovisioningNodePoolDefaults")
    for config in (state.get("nodeConfig"), defaults):
        cloud.check_account(config, project)
    keys.check_key(cloud, state)
    _check_private(state, subnetwork)
    pod_networks.check_cluster(cloud, identity, state)
    maintenance.check_maintenance(state.get("maintenancePolicy") or {})
    _check_labels(state.get("resourceLabels") or {})


def _check_labels(labels: Mapping[str, str]) -> None:
    """The rules of Compute Engine's labels: letters of any alphabet, without case or lowercase."""
    allowed = {"Ll", "Lo", "Nd", "Nl", "No"}
    for part, text in (*(("key", key) for key in labels), *(("value", v) for v in labels.values())):
        kinds = [unicodedata.category(char) for char in text if char not in "-_"]
        starts = part == "value" or unicodedata.category(text[:1] or "-") in {"Ll", "Lo"}
        if not {*kinds} <= allowed or len(text) > 63 or not starts:
            raise bad_request(f"Invalid {part} of a resource label: '{text}'")
    if len(labels) > 64:
        raise bad_request("A cluster has at most 64 resource labels")


def _check_subnetwork(state: Mapping[str, Any], subnetwork: CloudResource, uses: list[str]) -> None:
    network, name = uses[0].rpartition("/")[2], uses[1].rpartition("/")[2]
    if uses[0] not in subnetwork.depends_on:
        # https://github.com/hashicorp/terraform-provider-google/issues/7895
        raise bad_request(f'Subnetwork "{uses[1]}" is not valid for Network "{network}".')
    region = region_of(state["location"])
    if uses[1].split("/")[3] != region:
        raise bad_request(f"Subnetwork '{uses[1]}' is not in region '{region}'")
    ranges = {block["rangeName"] for block in subnetwork.state.get("secondaryIpRanges", [])}
    policy = state.get("ipAllocationPolicy") or {}
    for use, label in (
        ("Pod", policy.get("clusterSecondaryRangeName")),
        ("Services", policy.get("servicesSecondaryRangeName")),
    ):
        if label and label not in ranges:
            # https://github.com/fabianlee/gcp-gke-clusters-ingress/issues/2
            raise bad_request(
                f'{use} secondary range "{label}" not found in network '
                f'"https://www.googleapis.com/compute/v1/{uses[0]}", subnetwork "{name}".'
            )


def _check_mode(identity: str, state: Mapping[str, Any]) -> None:
    pool = (state.get("workloadIdentityConfig") or {}).get("workloadPool")
    ours = f"{identity.split('/')[1]}.svc.id.goog"
    if pool and pool != ours:
        raise bad_request(f"workloadPool '{pool}' must be '{ours}'")
    monitoring = state.get("monitoringConfig") or {}
    components = (monitoring.get("componentConfig") or {}).get("enableComponents") or []
    if components and "SYSTEM_COMPONENTS" not in components:
        raise bad_request(
            "monitoringConfig.enableComponents needs SYSTEM_COMPONENTS where it has "
            f"{', '.join(components)}"
        )


def _check_private(state: Mapping[str, Any], subnetwork: CloudResource) -> None:
    native = (state.get("ipAllocationPolicy") or {}).get("useIpAliases")
    if state["networkConfig"].get("defaultEnablePrivateNodes") and not native:
        raise bad_request("Private nodes need a VPC-native cluster")
    endpoints = (state.get("controlPlaneEndpointsConfig") or {}).get("ipEndpointsConfig") or {}
    private = not endpoints.get("enablePublicEndpoint", True)
    authorized = endpoints.get("authorizedNetworksConfig") or {}
    if private and not authorized.get("enabled"):
        raise bad_request("enablePrivateEndpoint requires masterAuthorizedNetworksConfig")
    for item in authorized.get("cidrBlocks") or ():
        try:
            network = ipaddress.ip_network(item.get("cidrBlock", ""))
        except ValueError:
            raise bad_request(
                f"authorized network '{item.get('cidrBlock', '')}' is not a valid network such as "
                "10.0.0.0/8"
            ) from None
        if private and network.is_global:
            raise bad_request(
                f"authorized network '{network}' is not a reserved network, which is required for "
                "private endpoints"
            )
    if not (block := (state.get("privateClusterConfig") or {}).get("masterIpv4CidrBlock")):
        return
    ranges = [subnetwork.state["ipCidrRange"]]
    ranges += [block["ipCidrRange"] for block in subnetwork.state.get("secondaryIpRanges", [])]
    for other in ranges:
        if ipaddress.ip_network(block).overlaps(ipaddress.ip_network(other)):
            raise bad_request(
                f"masterIpv4CidrBlock '{block}' overlaps range {other} of '{subnetwork.identity}'"
            )
