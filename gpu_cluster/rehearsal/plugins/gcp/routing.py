"""Routers and Cloud NATs, as far as their rows do not describe them."""

import threading
from collections.abc import Mapping
from typing import Any

from gpu_cluster.clouds.rows.google import Row
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, Config, NotFoundError
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, Problem
from gpu_cluster.rehearsal.plugins.gcp.client import Client
from gpu_cluster.rehearsal.plugins.gcp.resource import Resource

_PRIVATE_ASNS = ((64512, 65534), (4200000000, 4294967294), (16550, 16550))
"""RFC 6996, and the ASN of Partner Interconnect."""


class Router(Resource):
    """A Cloud Router."""

    token = "gcp:compute/router:Router"

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

    def expand(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        body = super().expand(inputs)
        empty: dict[str, Any] = {name: [] for name in ("advertisedGroups", "advertisedIpRanges")}
        return body | {"bgp": empty | body["bgp"] if "bgp" in body else None}


class RouterNat(Resource):
    """A router's NAT: an entry of a list in the router's body."""

    token = "gcp:compute/routerNat:RouterNat"
    computed = ("natIpAllocateOption",)
    _fixed = ("name", "initialNatIps", "endpointTypes", "type")
    _sent_empty = ("natIps", "initialNatIps", "drainNatIps", "subnetworks", "nat64Subnetworks",
                   "rules")  # fmt: skip

    def __init__(self, client: Client, row: Row) -> None:
        super().__init__(client, row)
        self._routers = threading.Lock()
        """Two NATs at once would each write the router without the other."""

    def completed(self, config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
        complete = super().completed(config, inputs)
        return complete | {"router": str(inputs["router"]).rpartition("/")[2]}

    def plan(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
        before = old.get("natIps") or []
        draining = new.get("drainNatIps")
        for address in draining if isinstance(draining, list) else []:
            if address not in (*before, UNKNOWN):
                return f'drain_nat_ip "{address}" was not previously set in nat_ips {before}'
        return None

    def path(self, identity: str) -> str:
        """The router's path."""
        return super().path(identity.rpartition("/")[0])

    def expand(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        body = super().expand(inputs)
        return {**{name: [] for name in self._sent_empty}, "logConfig": None, **body}

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        # The provider never reads the tier.
        return super().flatten({k: v for k, v in body.items() if k != "autoNetworkTier"}, known)

    def insert(self, inputs: Mapping[str, Any]) -> str:
        identity = self.identity(inputs)
        with self._routers:
            nats = self._nats(identity)
            if any(nat["name"] == inputs["name"] for nat in nats):
                raise CloudError(
                    f"Unable to create RouterNat, existing object already found: {identity}"
                )
            self._write(identity, [*nats, self.expand(inputs)])
        return identity

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        body = self.expand(new)

        def changed(nat: dict[str, Any]) -> dict[str, Any]:
            fixed = {name: nat.get(name) for name in self._fixed}
            return body | fixed | {name: nat[name] for name in nat if name not in self.fields}

        with self._routers:
            nats = self._nats(identity)
            written = [changed(nat) if nat["name"] == new["name"] else nat for nat in nats]
            self._write(identity, written)

    def fetch(self, identity: str, known: Mapping[str, Any]) -> dict[str, Any]:
        name = identity.rpartition("/")[2]
        for nat in self._nats(identity):
            if nat["name"] == name:
                return self.flatten(nat, known) | self.placed(identity)
        raise NotFoundError(f"the router has no NAT '{name}'")

    def remove(self, identity: str, state: Mapping[str, Any]) -> None:
        name = identity.rpartition("/")[2]
        with self._routers:
            nats = self._nats(identity)
            rest = [nat for nat in nats if nat["name"] != name]
            if len(rest) == len(nats):
                raise NotFoundError(f"the router has no NAT '{name}'")
            self._write(identity, rest)

    def _nats(self, identity: str) -> list[dict[str, Any]]:
        return list(self.get(identity).get("nats") or ())

    def _write(self, identity: str, nats: list[dict[str, Any]]) -> None:
        self.ask("PATCH", self.path(identity), {"nats": nats}, doing="updating RouterNat")
