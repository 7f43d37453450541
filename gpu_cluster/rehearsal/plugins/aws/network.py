"""VPCs, internet gateways and VPC endpoints, as far as their rows do not describe them."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.aws.api_request import pascal
from gpu_cluster.rehearsal.plugins.aws.rowed import Rowed
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError


class Vpc(Rowed):
    """A VPC."""

    token = "aws:ec2/vpc:Vpc"

    def create(self, inputs: dict[str, Any]) -> str:
        if "cidrBlock" not in inputs:
            raise CloudError("MissingParameter: Either 'cidrBlock' or 'ipv4IpamPoolId' is needed")
        return super().create(inputs)

    def forces_replacement(self, path: str, old: Any, new: Any) -> bool:
        return path == "instanceTenancy" and (old, new) != ("dedicated", "default")


class InternetGateway(Rowed):
    """An internet gateway, which is attached to its VPC."""

    token = "aws:ec2/internetGateway:InternetGateway"

    def create(self, inputs: dict[str, Any]) -> str:
        identity = super().create(inputs)
        try:
            self._attach(identity, inputs)
        except Exception:
            super().delete(identity, inputs)
            raise
        return identity

    def _attach(self, identity: str, inputs: Mapping[str, Any]) -> None:
        if vpc := inputs.get("vpcId"):
            self.client.attach_internet_gateway(InternetGatewayId=identity, VpcId=vpc)

    def _detach(self, identity: str, state: Mapping[str, Any]) -> None:
        for attached in self.described(identity, state)["Attachments"]:
            self.client.detach_internet_gateway(InternetGatewayId=identity, VpcId=attached["VpcId"])

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        if old.get("vpcId") != new.get("vpcId"):
            self._detach(identity, new)
            self._attach(identity, new)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        self._detach(identity, state)
        super().delete(identity, state)


class VpcEndpoint(Rowed):
    """An endpoint for an AWS service; updates add to its lists and remove from them."""

    token = "aws:ec2/vpcEndpoint:VpcEndpoint"

    def create(self, inputs: dict[str, Any]) -> str:
        # The API's own default is true; the provider always sends one.
        return super().create({"privateDnsEnabled": False} | inputs)

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        for name in ("routeTableIds", "subnetIds", "securityGroupIds"):
            if sorted(now[name] or []) == sorted(state.get(name) or []):
                now[name] = state.get(name)  # sets: their order is irrelevant
        return now

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        request: dict[str, Any] = {}
        for name in ("routeTableIds", "subnetIds", "securityGroupIds"):
            before, after = set(old.get(name) or []), set(new.get(name) or [])
            for verb, ids in (("Add", after - before), ("Remove", before - after)):
                if ids:
                    request[f"{verb}{pascal(name)}"] = sorted(ids)
        if old.get("privateDnsEnabled") != new.get("privateDnsEnabled"):
            request["PrivateDnsEnabled"] = bool(new.get("privateDnsEnabled"))
        if "policy" in new and old.get("policy") != new["policy"]:
            request["PolicyDocument"] = new["policy"]
        if request:
            self.client.modify_vpc_endpoint(VpcEndpointId=identity, **request)
