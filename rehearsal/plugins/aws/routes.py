"""Route tables and routes."""

import zlib
from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.aws.ec2 import Ec2Kind
from rehearsal.plugins.aws.kind import CloudError, NotFoundError

_TARGETS = ("gatewayId", "natGatewayId")


class RouteTable(Ec2Kind):
    """A route table of a VPC. A delete takes its associations along."""

    token = "aws:ec2/routeTable:RouteTable"
    noun = "route_table"
    supported_inputs = ("vpcId", "routes", "tags")
    sent = ("vpcId",)
    outputs = {"vpcId": "VpcId", "ownerId": "OwnerId"}  # noqa: RUF012

    def create(self, inputs: dict[str, Any]) -> str:
        identity = super().create(inputs)
        try:
            self._set_routes(identity, [], inputs.get("routes") or [])
        except Exception:
            super().delete(identity, {})
            raise
        return identity

    def _set_routes(self, identity: str, old: list[Any], new: list[Any]) -> None:
        for route in old:
            if route not in new:
                Route(self.api).delete("", {"routeTableId": identity, **_inline(route)})
        for route in new:
            if route not in old:
                Route(self.api).create({"routeTableId": identity, **_inline(route)})

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        now["arn"] = self.arn("route-table", identity, now)
        now["propagatingVgws"] = []
        return now

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._set_routes(identity, old.get("routes") or [], new.get("routes") or [])

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        for each in self.row(identity)["Associations"]:
            if not each.get("Main"):  # as the official provider does
                self.ec2.disassociate_route_table(AssociationId=each["RouteTableAssociationId"])
        super().delete(identity, state)


def _inline(route: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in route.items() if value and name != "cidrBlock"}
    unknown = set(rest) - set(_TARGETS)
    if unknown:
        raise CloudError(f"a rehearsal does not simulate 'routes[].{min(unknown)}'")
    return rest | {"destinationCidrBlock": route.get("cidrBlock")}


class Route(Ec2Kind):
    """A route."""

    token = "aws:ec2/route:Route"
    noun = "route"
    supported_inputs = ("routeTableId", "destinationCidrBlock", *_TARGETS)

    def create(self, inputs: dict[str, Any]) -> str:
        self.ec2.create_route(**self._request(inputs))
        return _route_id(inputs)

    def _request(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        given = {
            "RouteTableId": inputs["routeTableId"],
            "DestinationCidrBlock": inputs["destinationCidrBlock"],
            "GatewayId": inputs.get("gatewayId"),
            "NatGatewayId": inputs.get("natGatewayId"),
        }
        return {name: value for name, value in given.items() if value}

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        for row in RouteTable(self.api).row(state["routeTableId"])["Routes"]:
            if row.get("DestinationCidrBlock") == state["destinationCidrBlock"]:
                return {
                    "gatewayId": row.get("GatewayId"),
                    "natGatewayId": row.get("NatGatewayId"),
                    "origin": row.get("Origin"),
                    "state": row.get("State"),
                }
        raise NotFoundError(
            f"InvalidRoute.NotFound: no route with destination-cidr-block "
            f"{state['destinationCidrBlock']} in route table {state['routeTableId']}"
        )

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self.ec2.replace_route(**self._request(new))

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        self.ec2.delete_route(
            RouteTableId=state["routeTableId"],
            DestinationCidrBlock=state["destinationCidrBlock"],
        )


def _route_id(inputs: Mapping[str, Any]) -> str:
    """As the official provider makes it up: of 0.0.0.0/0 it ends in 1080289494."""
    return f"r-{inputs['routeTableId']}{zlib.crc32(str(inputs['destinationCidrBlock']).encode())}"
