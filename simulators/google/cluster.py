"""GKE's cluster resource: what the provider and the API check, and the control plane behind it."""

import base64
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from components.catalog.gke import (
    CLUSTER_NAME,
    is_zone,
    region_of,
)
from plugins.cloud.handler import CloudError, Config
from plugins.cloud.schema import UNKNOWN, Problem
from simulators.google import maintenance
from simulators.google.kind import Kind
from simulators.google.locations import location_of, master_version, node_locations
from simulators.google.network import is_network, network_name
from simulators.google.nodes import same_in_config
from simulators.google.resource import CloudResource, full_name

MANAGED_PROMETHEUS = Path(__file__).with_name("managed_prometheus.yaml")
"""The kinds of object that it brings into a cluster."""


class Cluster(Kind):
    """A GKE cluster, with the rehearsal's control plane behind it. Refused: a location or version
    that GKE does not have, a subnetwork of another network or region, secondary ranges that do not
    exist, a node service account that does not exist; a delete under protection."""

    token = "gcp:container/cluster:Cluster"
    display_name = "cluster"
    computed = (
        "project",
        "location",
        "nodeLocations",
        "masterAuth",
        "masterAuth.clusterCaCertificate",
        "clusterIpv4Cidr",
        "nodeVersion",
        "loggingService",
        "monitoringService",
        "networkingMode",
        "subnetwork",
        "defaultMaxPodsPerNode",
        "controlPlaneEndpointsConfig",
        "controlPlaneEndpointsConfig.ipEndpointsConfig",
        "controlPlaneEndpointsConfig.dnsEndpointConfig.endpoint",
    )
    secrets = ("masterAuth.clientKey",)

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        problems = []
        name = str(inputs.get("name", UNKNOWN))
        if name != UNKNOWN and not CLUSTER_NAME.fullmatch(name):
            problems.append(
                Problem(
                    "name",
                    f"'{name}' is no cluster name: at most 40 of a-z, 0-9 and hyphens, from a "
                    "letter to a letter or digit",
                )
            )
        private = inputs.get("privateClusterConfig")
        block = private.get("masterIpv4CidrBlock") if isinstance(private, Mapping) else None
        if block not in (None, "", UNKNOWN) and not _is_28(block):
            path = "privateClusterConfig.masterIpv4CidrBlock"
            problems.append(Problem(path, f"{path}: '{block}' must be a /28 network"))
        authorized = inputs.get("masterAuthorizedNetworksConfig")
        listed = authorized.get("cidrBlocks") if isinstance(authorized, Mapping) else None
        for index, each in enumerate(listed if isinstance(listed, list) else []):
            value = each.get("cidrBlock", UNKNOWN) if isinstance(each, Mapping) else UNKNOWN
            if value != UNKNOWN and not is_network(value):
                path = f"masterAuthorizedNetworksConfig.cidrBlocks[{index}].cidrBlock"
                reason = f"expected a network such as 10.0.0.0/8 without host bits, got '{value}'"
                problems.append(Problem(path, f"{path}: {reason}"))
        return [*problems, *maintenance.problems(inputs)]

    def plan(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
        if not old and new.get("nodeVersion") and new.get("removeDefaultNodePool"):
            return "node_version can only be specified if remove_default_node_pool is not true"
        return None

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        location = location_of(config, inputs)
        return f"projects/{inputs['project']}/locations/{location}/clusters/{inputs['name']}"

    def depends_on(self, config: Config, state: Mapping[str, Any]) -> list[str]:
        found = [network_name(config, state)]
        if state.get("subnetwork"):
            region = region_of(location_of(config, state))
            collection = f"projects/{state['project']}/regions/{region}/subnetworks"
            found.append(full_name(str(state["subnetwork"]), collection))
        return found

    def on_create(self, config: Config, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        identity, state = super().on_create(config, inputs)
        try:
            # Unlocked: it takes seconds, and what starts with it may ask for the nodes.
            self.cloud.control_plane.ensure_started()
            self._bring_kinds(state)
        except BaseException:
            with self.cloud.lock:
                self.cloud.remove(identity)
            raise
        return identity, state

    def on_update(
        self, config: Config, identity: str, old: dict[str, Any], new: dict[str, Any]
    ) -> dict[str, Any]:
        state = super().on_update(config, identity, old, new)
        self._bring_kinds(state)
        return state

    def _bring_kinds(self, state: Mapping[str, Any]) -> None:
        """Managed Prometheus is on unless it is turned off, and on Autopilot always."""
        prometheus = (state.get("monitoringConfig") or {}).get("managedPrometheus") or {}
        if state.get("enableAutopilot") or prometheus.get("enabled", True):
            self.cloud.control_plane.define(yaml.safe_load(MANAGED_PROMETHEUS.read_text()))

    def validate_create(
        self, config: Config, state: dict[str, Any], old: CloudResource | None
    ) -> None:
        if old is None and (other := next(self.cloud.of(self.token), None)) is not None:
            raise CloudError(
                f"a rehearsal simulates one cluster at a time, and has {other.identity}"
            )
        if state.get("nodePools"):
            raise CloudError(
                "a rehearsal simulates no node pools inside the cluster: use gcp.container.NodePool"
            )
        location = state.setdefault("location", location_of(config, state))
        state["nodeLocations"] = node_locations(location, state.get("nodeLocations"))
        self._check_subnetwork(config, state)
        _check_mode(state)
        self.cloud.check_account(state.get("nodeConfig"), state["project"])
        _check_private(state, self._subnetwork(config, state))
        maintenance.check(state.get("maintenancePolicy") or {})
        self._add_outputs(config, state)

    def _subnetwork(self, config: Config, state: Mapping[str, Any]) -> CloudResource:
        _, *subnetworks = self.depends_on(config, state)
        if not subnetworks:
            raise CloudError(
                "googleapi: Error 400: A network in custom subnet mode requires 'subnetwork'"
            )
        return self.cloud.get(subnetworks[0])

    def _check_subnetwork(self, config: Config, state: Mapping[str, Any]) -> None:
        subnetwork = self._subnetwork(config, state)
        if network_name(config, state) not in subnetwork.depends_on:
            raise CloudError(
                f"googleapi: Error 400: Subnetwork '{subnetwork.identity}' is not in network "
                f"'{network_name(config, state)}', badRequest"
            )
        region = region_of(state["location"])
        if subnetwork.state["region"].rpartition("/")[2] != region:
            raise CloudError(
                f"googleapi: Error 400: Subnetwork '{subnetwork.identity}' is not in region "
                f"'{region}', badRequest"
            )
        ranges = {each["rangeName"] for each in subnetwork.state.get("secondaryIpRanges", [])}
        policy = state.get("ipAllocationPolicy") or {}
        for use, name in (
            ("pods", policy.get("clusterSecondaryRangeName")),
            ("services", policy.get("servicesSecondaryRangeName")),
        ):
            if name and name not in ranges:
                raise CloudError(
                    f"googleapi: Error 400: Services or pods secondary range '{name}' for {use} "
                    f"does not exist in subnetwork '{subnetwork.identity}', which has: "
                    f"{', '.join(sorted(ranges)) or 'none'}, badRequest"
                )

    def _add_outputs(self, config: Config, state: dict[str, Any]) -> None:
        identity = self.identity(config, state)
        version = master_version(state)
        network, subnetwork = self.depends_on(config, state)
        plane = self.cloud.control_plane
        pool = (state.get("workloadIdentityConfig") or {}).get("workloadPool")
        if state.get("enableAutopilot"):
            pool = f"{state['project']}.svc.id.goog"
        if pool:
            self.cloud.workload_pool(pool)
        state.setdefault("networkingMode", "VPC_NATIVE")
        state.setdefault("defaultMaxPodsPerNode", 110)
        state["masterAuth"] = {
            "clientCertificateConfig": {"issueClientCertificate": False},
            **(state.get("masterAuth") or {}),
            "clientCertificate": "",
            "clientKey": "",
            "clusterCaCertificate": base64.b64encode(plane.ca_certificate).decode(),
        }
        given = state.get("controlPlaneEndpointsConfig") or {}
        dns = given.get("dnsEndpointConfig") or {}
        state["controlPlaneEndpointsConfig"] = {
            "ipEndpointsConfig": {"enabled": True, **(given.get("ipEndpointsConfig") or {})},
            "dnsEndpointConfig": {
                "allowExternalTraffic": False,
                **dns,
                # In life uid.REGION.gke.goog: always there, and it answers nobody unless it may.
                "endpoint": f"localhost:{plane.endpoint.rpartition(':')[2]}"
                if dns.get("allowExternalTraffic")
                else "localhost:1",
            },
        }
        labels = dict(state.get("resourceLabels") or {})
        state |= {
            "network": network,
            "subnetwork": subnetwork,
            "endpoint": plane.endpoint,
            "masterVersion": version,
            "nodeVersion": state.get("nodeVersion") or version,
            "selfLink": f"https://container.googleapis.com/v1/{identity}",
            "labelFingerprint": "",
            "operation": "",
            "servicesIpv4Cidr": "",
            "pulumiLabels": labels,
            "effectiveLabels": {**labels, "goog-pulumi-provisioned": "true"},
        }

    def on_delete(self, config: Config, identity: str, state: dict[str, Any]) -> None:
        if state.get("deletionProtection", True):
            raise CloudError(
                "cannot destroy cluster because deletion_protection is set to true: set "
                "deletionProtection to false, apply that, and then destroy or replace it"
            )
        super().on_delete(config, identity, state)
        if identity not in self.cloud.resources:
            self.cloud.control_plane.stop()

    def same(self, path: str, old: Any, new: Any) -> bool:
        if path not in ("network", "subnetwork"):
            return same_in_config(path, old, new)
        ours, given = (str(each).partition("projects/")[2] or str(each) for each in (old, new))
        return ours == given or ("/" not in given and ours.rpartition("/")[2] == given)

    def forces_replacement(self, path: str, old: Any, new: Any) -> bool:
        if path.startswith("enableK8sBetaApis"):
            # One that is on stays on (containerClusterEnableK8sBetaApisCustomizeDiff).
            return old is not None and (path, new) != ("enableK8sBetaApis", UNKNOWN)
        downgraded = ("enableL4IlbSubsetting", "enableFqdnNetworkPolicy")
        return path in downgraded and old is True and new in (False, UNKNOWN)


def _check_mode(state: Mapping[str, Any]) -> None:
    autopilot = state.get("enableAutopilot")
    if autopilot and is_zone(state["location"]):
        raise CloudError(
            "googleapi: Error 400: Autopilot clusters must be regional clusters, badRequest"
        )
    if not autopilot and state.get("initialNodeCount", 0) < 1:
        raise CloudError(
            "googleapi: Error 400: Cluster.initial_node_count must be greater than zero, badRequest"
        )
    pool = (state.get("workloadIdentityConfig") or {}).get("workloadPool")
    if pool and pool != f"{state['project']}.svc.id.goog":
        raise CloudError(
            f"googleapi: Error 400: workloadPool '{pool}' must be "
            f"'{state['project']}.svc.id.goog', badRequest"
        )
    components = (state.get("monitoringConfig") or {}).get("enableComponents") or []
    if components and "SYSTEM_COMPONENTS" not in components:
        raise CloudError(
            "googleapi: Error 400: monitoringConfig.enableComponents needs SYSTEM_COMPONENTS where "
            f"it has {', '.join(components)}, badRequest"
        )


def _check_private(state: Mapping[str, Any], subnetwork: CloudResource) -> None:
    private = state.get("privateClusterConfig") or {}
    if private.get("enablePrivateNodes") and state.get("networkingMode") == "ROUTES":
        raise CloudError(
            "googleapi: Error 400: Private nodes need a VPC-native cluster, badRequest"
        )
    if private.get("enablePrivateEndpoint") and "masterAuthorizedNetworksConfig" not in state:
        raise CloudError(
            "googleapi: Error 400: enablePrivateEndpoint requires masterAuthorizedNetworksConfig, "
            "badRequest"
        )
    authorized = state.get("masterAuthorizedNetworksConfig") or {}
    for each in authorized.get("cidrBlocks") or ():
        network = ipaddress.ip_network(each["cidrBlock"])
        if private.get("enablePrivateEndpoint") and network.is_global:
            raise CloudError(
                f"googleapi: Error 400: authorized network '{network}' is not a reserved network, "
                "which is required for private endpoints, badRequest"
            )
    if not (block := private.get("masterIpv4CidrBlock")):
        return
    ranges = [subnetwork.state["ipCidrRange"]]
    ranges += [each["ipCidrRange"] for each in subnetwork.state.get("secondaryIpRanges", [])]
    for other in ranges:
        if ipaddress.ip_network(block).overlaps(ipaddress.ip_network(other)):
            raise CloudError(
                f"googleapi: Error 400: masterIpv4CidrBlock '{block}' overlaps range {other} of "
                f"'{subnetwork.identity}', badRequest"
            )


def _is_28(block: Any) -> bool:
    return is_network(block) and ":" not in block and str(block).endswith("/28")
