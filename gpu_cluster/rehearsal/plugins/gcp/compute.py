"""Subnetworks and firewall rules of Compute Engine, as far as their rows do not describe them."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.handler import Config
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, Problem
from gpu_cluster.rehearsal.plugins.gcp.addresses import is_network
from gpu_cluster.rehearsal.plugins.gcp.resource import Resource


class LoggedResource(Resource):
    """A type whose `logConfig` the provider returns only while logs are enabled."""

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        found = super().flatten(body, known)
        if not (body.get("logConfig") or {}).get("enable"):
            found.pop("logConfig", None)
        return found


class Subnetwork(LoggedResource):
    """A subnetwork; its primary range can grow in place."""

    token = "gcp:compute/subnetwork:Subnetwork"

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


def _ranges(inputs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in ("ipCidrRange", "internalIpv6Prefix"):
        if inputs.get(name) is not None:
            yield name, inputs[name]
    for index, block in enumerate(inputs.get("secondaryIpRanges") or []):
        if isinstance(block, Mapping) and block.get("ipCidrRange") is not None:
            yield f"secondaryIpRanges[{index}].ipCidrRange", block["ipCidrRange"]


class Firewall(LoggedResource):
    """A firewall rule of a network."""

    token = "gcp:compute/firewall:Firewall"
    computed = ("sourceRanges",)

    def plan(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
        logs = new.get("logConfig") not in (None, UNKNOWN)
        if logs and new.get("enableLogging", old.get("enableLogging")) is False:
            return "log_config cannot be defined when enable_logging is false"
        sources = ("sourceTags", "sourceRanges", "sourceServiceAccounts")
        given = any(new.get(name) is not None or old.get(name) for name in sources)
        if new.get("direction") == "EGRESS" or given:
            return None
        return "one of source_tags, source_ranges, or source_service_accounts must be defined"

    def expand(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        body = super().expand(inputs)
        given = body.get("logConfig")
        body["logConfig"] = {"enable": bool(given or inputs.get("enableLogging"))} | (given or {})
        return body
