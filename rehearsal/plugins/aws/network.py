"""VPCs, subnets and internet gateways."""

from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.aws.ec2 import Ec2Kind
from rehearsal.plugins.aws.kind import CloudError
from rehearsal.plugins.aws.rowed import Rowed


class Vpc(Rowed):
    """A VPC."""

    token = "aws:ec2/vpc:Vpc"

    def create(self, inputs: dict[str, Any]) -> str:
        if "cidrBlock" not in inputs:
            raise CloudError("MissingParameter: Either 'cidrBlock' or 'ipv4IpamPoolId' is needed")
        return super().create(inputs)

    def forces_replacement(self, path: str, old: Any, new: Any) -> bool:
        return path == "instanceTenancy" and (old, new) != ("dedicated", "default")


class InternetGateway(Ec2Kind):
    """An Internet gateway."""

    token = "aws:ec2/internetGateway:InternetGateway"
    noun = "internet_gateway"
    supported_inputs = ("vpcId", "tags")
    outputs = {"ownerId": "OwnerId", "vpcId": "Attachments[0].VpcId"}  # noqa: RUF012

    def create(self, inputs: dict[str, Any]) -> str:
        identity = super().create(inputs)
        try:
            self._attach(identity, inputs.get("vpcId"))
        except Exception:
            super().delete(identity, {})
            raise
        return identity

    def _attach(self, identity: str, vpc: str | None) -> None:
        if vpc:
            self.ec2.attach_internet_gateway(InternetGatewayId=identity, VpcId=vpc)

    def _detach(self, identity: str) -> None:
        for attached in self.row(identity)["Attachments"]:
            self.ec2.detach_internet_gateway(InternetGatewayId=identity, VpcId=attached["VpcId"])

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        return now | {"arn": self.arn("internet-gateway", identity, now)}

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        if old.get("vpcId") != new.get("vpcId"):
            self._detach(identity)
            self._attach(identity, new.get("vpcId"))

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        self._detach(identity)
        super().delete(identity, state)
