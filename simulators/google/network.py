"""Compute Engine's networks: VPC, subnetworks, routers with Cloud NAT, firewall rules."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from plugins.cloud.handler import CloudError, Config
from plugins.cloud.schema import UNKNOWN, Problem
from simulators.google.kind import Kind
from simulators.google.resource import CloudResource, full_name, region_of, self_link


class _ComputeKind(Kind):
    def same(self, path: str, old: Any, new: Any) -> bool:
        return path in ("network", "subnetwork", "router") and _same_link(old, new)


class Router(_ComputeKind):
    """A Cloud Router."""

    token = "gcp:compute/router:Router"
    display_name = "router"
    computed = ("project", "region")

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        bgp = inputs.get("bgp")
        asn = bgp.get("asn") if isinstance(bgp, Mapping) else None
        if not isinstance(asn, int | float) or any(
            low <= asn <= high for low, high in _PRIVATE_ASNS
        ):
            return []
        words = f"expected bgp.asn to be a RFC6996-compliant Local ASN, got {asn}"
        return [Problem("bgp.asn", words)]

    def plan(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
        bgp = new.get("bgp")
        if not isinstance(bgp, Mapping):
            return None
        lists = [name for name in ("advertisedGroups", "advertisedIpRanges") if bgp.get(name)]
        if lists and bgp.get("advertiseMode", "DEFAULT") not in ("CUSTOM", UNKNOWN):
            return f"bgp.{lists[0]} can only be set with bgp.advertiseMode CUSTOM"
        return None

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        region = region_of(config, inputs)
        return f"projects/{inputs['project']}/regions/{region}/routers/{inputs['name']}"

    def depends_on(self, config: Config, state: Mapping[str, Any]) -> list[str]:
        if not state.get("network"):
            raise CloudError(
                "googleapi: Error 400: Required field 'resource.network' not specified"
            )
        return [network_name(config, state)]

    def validate_create(
        self, config: Config, state: dict[str, Any], old: CloudResource | None
    ) -> None:
        state.setdefault("region", region_of(config, state))
        identity = self.identity(config, state)
        state |= {"selfLink": self_link(identity), "creationTimestamp": "2026-01-01T00:00:00Z"}


_PRIVATE_ASNS = ((64512, 65534), (4200000000, 4294967294), (16550, 16550))
"""RFC 6996, and the one of Partner Interconnect."""


class RouterNat(_ComputeKind):
    """The NAT of a router, which takes it along when it is deleted."""

    token = "gcp:compute/routerNat:RouterNat"
    display_name = "router NAT"
    computed = (
        "project",
        "region",
        "minPortsPerVm",
        "natIpAllocateOption",
        "autoNetworkTier",
        "enableDynamicPortAllocation",
        "enableEndpointIndependentMapping",
        "endpointTypes",
    )

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        router = str(inputs["router"]).rpartition("/")[2]
        return f"{inputs['project']}/{region_of(config, inputs)}/{router}/{inputs['name']}"

    def plan(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
        before = old.get("natIps") or []
        draining = new.get("drainNatIps")
        for address in draining if isinstance(draining, list) else []:
            if address not in (*before, UNKNOWN):
                return f'drain_nat_ip "{address}" was not previously set in nat_ips {before}'
        return None

    def parent(self, config: Config, state: Mapping[str, Any]) -> str:
        region = region_of(config, state)
        return full_name(state["router"], f"projects/{state['project']}/regions/{region}/routers")

    def depends_on(self, config: Config, state: Mapping[str, Any]) -> list[str]:
        collection = f"projects/{state['project']}/regions/{region_of(config, state)}/subnetworks"
        return [full_name(each["name"], collection) for each in state.get("subnetworks", [])]

    def validate_create(
        self, config: Config, state: dict[str, Any], old: CloudResource | None
    ) -> None:
        listed = state["sourceSubnetworkIpRangesToNat"] == "LIST_OF_SUBNETWORKS"
        if listed != bool(state.get("subnetworks")):
            raise CloudError(
                "googleapi: Error 400: 'subnetworks' goes with sourceSubnetworkIpRangesToNat "
                "LIST_OF_SUBNETWORKS, and only with it, invalid"
            )
        option = state.setdefault("natIpAllocateOption", "AUTO_ONLY")
        if (option == "MANUAL_ONLY") != bool(state.get("natIps") or state.get("initialNatIps")):
            raise CloudError(
                "googleapi: Error 400: natIps are needed with natIpAllocateOption MANUAL_ONLY, and "
                "excluded with AUTO_ONLY, invalid"
            )
        _check_ports(state)
        state.setdefault("region", region_of(config, state))
        state.setdefault("autoNetworkTier", "PREMIUM")
        state.setdefault("endpointTypes", ["ENDPOINT_TYPE_VM"])


def _check_ports(state: dict[str, Any]) -> None:
    """Raises CloudError where Cloud NAT cannot give ports so (compute v1, `RouterNat`)."""
    dynamic = state.setdefault("enableDynamicPortAllocation", False)
    least = state.setdefault("minPortsPerVm", 32 if dynamic else 64)
    if state.setdefault("enableEndpointIndependentMapping", False) and dynamic:
        raise _invalid_nat("enableEndpointIndependentMapping", "true", "is exclusive with "
                           "enableDynamicPortAllocation")  # fmt: skip
    if "maxPortsPerVm" not in state:
        return
    most = state["maxPortsPerVm"]
    if not dynamic:
        raise _invalid_nat("maxPortsPerVm", most, "needs enableDynamicPortAllocation")
    for name, value in (("minPortsPerVm", least), ("maxPortsPerVm", most)):
        if not 32 <= value <= 65536 or value & (value - 1):
            raise _invalid_nat(name, value, "must be a power of two from 32 to 65536")
    if most <= least:
        raise _invalid_nat("maxPortsPerVm", most, f"must be more than minPortsPerVm {least}")


def _invalid_nat(field: str, value: Any, reason: str) -> CloudError:
    return CloudError(
        f"googleapi: Error 400: Invalid value for field 'resource.nats[0].{field}': '{value}'. It "
        f"{reason}., invalid"
    )


class Firewall(_ComputeKind):
    """A firewall rule of a network."""

    token = "gcp:compute/firewall:Firewall"
    display_name = "firewall"
    computed = ("project", "direction", "destinationRanges", "sourceRanges")

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        sources = ("sourceTags", "sourceRanges", "sourceServiceAccounts")
        if inputs.get("direction") != "EGRESS" and not any(inputs.get(name) for name in sources):
            return [Problem("sourceRanges", f"one of {', '.join(sources)} must be given")]
        return []

    def plan(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
        if new.get("logConfig") and new.get("enableLogging", old.get("enableLogging")) is False:
            return "log_config cannot be defined when enable_logging is false"
        return None

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        return f"projects/{inputs['project']}/global/firewalls/{inputs['name']}"

    def depends_on(self, config: Config, state: Mapping[str, Any]) -> list[str]:
        return [network_name(config, state)]

    def validate_create(
        self, config: Config, state: dict[str, Any], old: CloudResource | None
    ) -> None:
        state.setdefault("direction", "INGRESS")
        identity = self.identity(config, state)
        state |= {"selfLink": self_link(identity), "creationTimestamp": "2026-01-01T00:00:00Z"}


def network_name(config: Config, state: Mapping[str, Any]) -> str:
    """The id of the network that a resource names."""
    return full_name(str(state["network"]), f"projects/{state['project']}/global/networks")


def is_network(value: Any) -> bool:
    """Whether this is an IP network without host bits, e.g. `10.0.0.0/20`."""
    try:
        ipaddress.ip_network(value)
    except ValueError:
        return False
    return "/" in str(value)


def _same_link(old: Any, new: Any) -> bool:
    """A self link, a path and a bare name of the same resource are equal to the provider."""
    a, b = (str(each).partition("projects/")[2] or str(each) for each in (old, new))
    return a == b or ("/" not in b and a.rpartition("/")[2] == b)
