"""Networks of Compute Engine, as the provider makes and changes them."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rehearsal.plugins.cloud.handler import CloudError, Config
from rehearsal.plugins.cloud.schema import UNKNOWN, Problem
from rehearsal.plugins.gcp.addresses import is_network
from rehearsal.plugins.gcp.resource import KEPT, NoLongerPartialError, Resource, relative, same_link


class ComputeResource(Resource):
    """What the types of Compute Engine share."""

    service = "COMPUTE"
    api = ("compute", "beta")

    def same(self, path: str, old: Any, new: Any) -> bool:
        links = ("network", "subnetwork", "router")
        named = path.startswith("subnetworks[") and path.endswith("].name")
        return (named or path in links) and same_link(old, new)

    def expand(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        body, project = super().expand(inputs), inputs["project"]
        if "network" in body:
            body["network"] = relative(body["network"], f"projects/{project}/global/networks")
        if "region" in body:
            region = body["region"].rpartition("/")[2]
            body["region"] = f"projects/{project}/global/regions/{region}"
        return body

    def patch(self, identity: str, body: Mapping[str, Any], verb: str = "") -> None:
        """PATCH, or POST to a verb of the resource."""
        path = f"{identity}/{verb}" if verb else identity
        answer = self.client.call(self.service, "POST" if verb else "PATCH", path, body)
        self.wait(answer, identity.rpartition("/")[0], f"updating {self.noun}")


class Network(ComputeResource):
    """A VPC network."""

    token = "gcp:compute/network:Network"
    noun = "Network"
    schema = "Network"
    partial = True
    place = "projects/{project}/global/networks"
    renamed: ClassVar[Mapping[str, str | None]] = {
        **KEPT,
        "project": None,
        "deleteDefaultRoutesOnCreate": None,
        "deleteBgpAlwaysCompareMed": "routingConfig.deleteBgpAlwaysCompareMed",
        "routingMode": "routingConfig.routingMode",
        "bgpBestPathSelectionMode": "routingConfig.bgpBestPathSelectionMode",
        "bgpAlwaysCompareMed": "routingConfig.bgpAlwaysCompareMed",
        "bgpInterRegionCost": "routingConfig.bgpInterRegionCost",
        "gatewayIpv4": "gatewayIPv4",
        "networkId": "id",
        "numericId": "id",
    }
    kept = ("deletionPolicy", "params", "deleteDefaultRoutesOnCreate", "deleteBgpAlwaysCompareMed")

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        return {"gatewayIpv4": ""} | super().flatten(body, known)

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        body, before = self.expand(new), self.expand(old)
        together = ("routingConfig", "networkFirewallPolicyEnforcementOrder")
        if any(body.get(name) != before.get(name) for name in together):
            self.patch(identity, {name: body[name] for name in together if name in body})
        for name in ("enableUlaInternalIpv6", "mtu"):
            if body.get(name) != before.get(name) and name in body:
                self.patch(identity, {name: body[name]})


class LoggedResource(ComputeResource):
    """Types whose `logConfig` the provider shows while logs are on."""

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        found = super().flatten(body, known)
        if not (body.get("logConfig") or {}).get("enable"):
            found.pop("logConfig", None)
        return found


class Subnetwork(LoggedResource):
    """A subnetwork; its primary range can grow in place."""

    token = "gcp:compute/subnetwork:Subnetwork"
    noun = "Subnetwork"
    schema = "Subnetwork"
    partial = True
    place = "projects/{project}/regions/{region}/subnetworks"
    renamed: ClassVar[Mapping[str, str | None]] = {
        **KEPT,
        "project": None,
        "sendSecondaryIpRangeIfEmpty": None,
        "subnetworkId": "id",
    }
    kept = ("deletionPolicy", "params", "sendSecondaryIpRangeIfEmpty")

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        return [
            Problem(path, f"expected {path} to be a network such as 10.0.0.0/20, got '{value}'")
            for path, value in _ranges(inputs)
            if value != UNKNOWN and not is_network(value)
        ]

    def forces_replacement(self, path: str, old: Any, new: Any) -> bool:
        # A range can only grow in place.
        if path != "ipCidrRange" or not (is_network(old) and is_network(new)):
            return False
        before, after = ipaddress.ip_network(old), ipaddress.ip_network(new)
        return not (before.version == after.version and before.subnet_of(after))  # type: ignore[arg-type]

    def expand(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        body = super().expand(inputs)
        given = inputs.get("logConfig")
        body["logConfig"] = {"enable": bool(given)} | (
            {"metadataFields": [], **body["logConfig"]} if given else {}
        )
        return body

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        body, before = self.expand(new), self.expand(old)

        def changed(*names: str) -> bool:
            return any(body.get(name) != before.get(name) for name in names)

        if changed("ipCidrRange"):
            self.patch(identity, {"ipCidrRange": body["ipCidrRange"]}, "expandIpCidrRange")
        if changed("privateIpGoogleAccess"):
            # The provider leaves a false one out, which the API takes for false.
            access = {name: True for name in ("privateIpGoogleAccess",) if body.get(name)}
            self.patch(identity, access, "setPrivateIpGoogleAccess")
        groups: tuple[tuple[str, ...], ...] = (
            ("privateIpv6GoogleAccess", "stackType", "ipv6AccessType",
             "allowSubnetCidrRoutesOverlap"),
            ("logConfig",),
            ("purpose",),
            ("role",),
        )  # fmt: skip

        def patch(given: Mapping[str, Any]) -> None:
            now = self.client.call(self.service, "GET", identity)["fingerprint"]
            self.patch(identity, {"fingerprint": now, **given})

        for group in groups:
            if changed(*group):
                patch({name: body[name] for name in group if name in body})
        if changed("secondaryIpRanges"):
            try:
                patch({"secondaryIpRanges": body.get("secondaryIpRanges", [])})
            except CloudError as error:
                raise NoLongerPartialError(str(error)) from None


def _ranges(inputs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in ("ipCidrRange", "internalIpv6Prefix"):
        if inputs.get(name) is not None:
            yield name, inputs[name]
    for index, each in enumerate(inputs.get("secondaryIpRanges") or []):
        if isinstance(each, Mapping) and each.get("ipCidrRange") is not None:
            yield f"secondaryIpRanges[{index}].ipCidrRange", each["ipCidrRange"]
