"""Route tables and routes, as far as their rows do not describe them."""

import zlib
from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.aws.rowed import Rowed
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError

_TARGETS = ("gatewayId", "natGatewayId")


class RouteTable(Rowed):
    """A route table of a VPC. A delete also deletes its associations."""

    token = "aws:ec2/routeTable:RouteTable"

    def create(self, inputs: dict[str, Any]) -> str:
        identity = super().create(inputs)
        try:
            self._set_routes(identity, [], inputs.get("routes") or [])
        except Exception:
            super().delete(identity, inputs)
            raise
        return identity

    def _set_routes(self, identity: str, old: list[Any], new: list[Any]) -> None:
        routes = Route(self.api)
        for route in old:
            if route not in new:
                routes.delete("", {"routeTableId": identity, **_inline(route)})
        for route in new:
            if route not in old:
                routes.create({"routeTableId": identity, **_inline(route)})

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._set_routes(identity, old.get("routes") or [], new.get("routes") or [])

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        for item in self.described(identity, state)["Associations"]:
            if not item.get("Main"):  # like the official provider
                self.client.disassociate_route_table(AssociationId=item["RouteTableAssociationId"])
        super().delete(identity, state)


def _inline(route: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in route.items() if value and name != "cidrBlock"}
    unknown = set(rest) - set(_TARGETS)
    if unknown:
        raise CloudError(f"a rehearsal does not simulate 'routes[].{min(unknown)}'")
    return rest | {"destinationCidrBlock": route.get("cidrBlock")}


class Route(Rowed):
    """A route, whose ID the provider generates."""

    token = "aws:ec2/route:Route"

    def create(self, inputs: dict[str, Any]) -> str:
        super().create(inputs)
        # For 0.0.0.0/0 it ends in 1080289494.
        checksum = zlib.crc32(str(inputs["destinationCidrBlock"]).encode())
        return f"r-{inputs['routeTableId']}{checksum}"
