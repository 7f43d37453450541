"""How the provider creates and deletes clusters."""

import re
from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, Config, InitFailedError
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, Problem
from gpu_cluster.rehearsal.plugins.gcp import cluster_blocks, cluster_updates, maintenance
from gpu_cluster.rehearsal.plugins.gcp.addresses import is_network
from gpu_cluster.rehearsal.plugins.gcp.container import (
    ContainerResource,
    flat_node_config,
    node_config,
)
from gpu_cluster.rehearsal.plugins.gcp.locations import is_zone, location_of, region_in
from gpu_cluster.rehearsal.plugins.gcp.resource import OWN_LABEL, relative

_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?")
"""resource_container_cluster.go, ValidateFunc of `name`."""


class Cluster(ContainerResource):
    """A GKE cluster. `deletionProtection` and `removeDefaultNodePool` exist only in the
    provider."""

    token = "gcp:container/cluster:Cluster"
    computed = ("masterAuth.clientCertificateConfig",)
    secrets = ("masterAuth.clientKey",)

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        problems = []
        name = str(inputs.get("name", UNKNOWN))
        if name != UNKNOWN and not _NAME.fullmatch(name):
            problems.append(
                Problem(
                    "name",
                    f"'{name}' is not a valid cluster name: at most 40 of a-z, 0-9 and hyphens, "
                    "from a letter to a letter or digit",
                )
            )
        private = inputs.get("privateClusterConfig")
        block = private.get("masterIpv4CidrBlock") if isinstance(private, Mapping) else None
        if block not in (None, "", UNKNOWN) and not _is_28(block):
            path = "privateClusterConfig.masterIpv4CidrBlock"
            problems.append(Problem(path, f"{path}: '{block}' must be a /28 network"))
        authorized = inputs.get("masterAuthorizedNetworksConfig")
        listed = authorized.get("cidrBlocks") if isinstance(authorized, Mapping) else None
        for index, item in enumerate(listed if isinstance(listed, list) else []):
            value = item.get("cidrBlock", UNKNOWN) if isinstance(item, Mapping) else UNKNOWN
            if value != UNKNOWN and not is_network(value):
                path = f"masterAuthorizedNetworksConfig.cidrBlocks[{index}].cidrBlock"
                reason = f"expected a network such as 10.0.0.0/8 without host bits, got '{value}'"
                problems.append(Problem(path, f"{path}: {reason}"))
        return [*problems, *maintenance.problems(inputs)]

    def plan(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
        if not old and new.get("nodeVersion") and new.get("removeDefaultNodePool"):
            return "node_version can only be specified if remove_default_node_pool is not true"
        return None

    def completed(self, config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
        found = super().completed(config, inputs)
        found["location"] = location_of(config, inputs)
        places = found | {"region": region_in(found["location"])}
        for name, collection in self.row.links.items():
            if inputs.get(name):
                found[name] = relative(str(inputs[name]), collection.format_map(places))
        found["effectiveLabels"] = {**(inputs.get("resourceLabels") or {}), **OWN_LABEL}
        return found

    def expand(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        if inputs.get("nodePools"):
            raise CloudError(
                "the offline plugin creates no node pools inside the cluster: use "
                "gcp.container.NodePool"
            )
        body = self.translated(inputs)
        body["nodeConfig"] = node_config(inputs.get("nodeConfig"), body.get("nodeConfig"))
        return body | cluster_blocks.expanded(self.document, inputs, body)

    def insert(self, inputs: Mapping[str, Any]) -> str:
        place, location = self.row.place.format_map(inputs), inputs["location"]
        zones = list(inputs.get("nodeLocations") or ())
        if location in zones:
            raise CloudError(
                "when using a multi-zonal cluster, node_locations should not contain the original "
                "'zone'"
            )
        body = self.expand(inputs)
        if zones:
            body["locations"] = [*zones, location] if is_zone(location) else zones
        operation = self.client.call(self.row.service, "POST", place, {"cluster": body})
        identity = self.identity(inputs)
        try:
            self.waited(operation, place, "creating GKE cluster")
            if inputs.get("removeDefaultNodePool"):
                cluster_updates.remove_default_pool(self, identity)
        except CloudError as error:
            if self.status(identity):
                # The provider has not read the cluster yet.
                state = {**inputs, "pulumiLabels": inputs["effectiveLabels"]}
                raise InitFailedError(identity, state, str(error)) from None
            raise
        return identity

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        found = super().flatten(body, known)
        config = found.setdefault("nodeConfig", {})
        flat_node_config(config, body.get("nodeConfig", {}), known.get("nodeConfig") or {})
        found |= cluster_blocks.flattened(body)
        labels = known.get("resourceLabels") or {}
        found["effectiveLabels"] = body.get("resourceLabels", {})
        ours = {name: value for name, value in found["effectiveLabels"].items() if name in labels}
        found["resourceLabels"] = ours or None
        found["pulumiLabels"] = dict(ours)
        found = self.with_zeros(found, known)
        return {name: value for name, value in found.items() if value is not None}

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        cluster_updates.change(self, identity, old, new)

    def on_delete(self, config: Config, identity: str, state: dict[str, Any]) -> None:
        if state.get("deletionPolicy") not in ("PREVENT", "ABANDON") and state.get(
            "deletionProtection", True
        ):
            raise CloudError(
                "cannot destroy cluster because deletion_protection is set to true: set "
                "deletionProtection to false, apply that, and then destroy or replace it"
            )
        super().on_delete(config, identity, state)

    def forces_replacement(self, path: str, old: Any, new: Any) -> bool:
        if path.startswith("enableK8sBetaApis"):
            # Once enabled, it cannot be disabled (containerClusterEnableK8sBetaApisCustomizeDiff).
            return old is not None and (path, new) != ("enableK8sBetaApis", UNKNOWN)
        downgraded = ("enableL4IlbSubsetting", "enableFqdnNetworkPolicy")
        return path in downgraded and old is True and new in (False, UNKNOWN)


def _is_28(block: Any) -> bool:
    return is_network(block) and ":" not in block and str(block).endswith("/28")
