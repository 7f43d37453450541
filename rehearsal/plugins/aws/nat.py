"""Public addresses and NAT gateways."""

from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.aws.ec2 import Ec2Kind


class Eip(Ec2Kind):
    """An elastic IP address."""

    token = "aws:ec2/eip:Eip"
    noun = "elastic_ip"
    supported_inputs = ("domain", "tags")
    outputs = {  # noqa: RUF012
        "allocationId": "AllocationId",
        "publicIp": "PublicIp",
        "domain": "Domain",
        "associationId": "AssociationId",
        "networkInterface": "NetworkInterfaceId",
        "privateIp": "PrivateIpAddress",
    }

    def create(self, inputs: dict[str, Any]) -> str:
        domain = inputs.get("domain", "vpc")
        answer = self.ec2.allocate_address(Domain=domain, **self.specification(inputs))
        return str(answer["AllocationId"])

    def row(self, identity: str) -> dict[str, Any]:
        return dict(self.ec2.describe_addresses(AllocationIds=[identity])["Addresses"][0])

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        return now | {
            "arn": self.arn("elastic-ip", identity, now),
            "networkBorderGroup": self.api.region,
            "publicIpv4Pool": "amazon",
            "publicDns": "",
        }

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        self.ec2.release_address(AllocationId=identity)


class NatGateway(Ec2Kind):
    """A NAT gateway."""

    token = "aws:ec2/natGateway:NatGateway"
    noun = "nat_gateway"
    supported_inputs = ("allocationId", "connectivityType", "subnetId", "availabilityMode", "tags")
    sent = ("allocationId", "availabilityMode", "connectivityType", "subnetId")
    outputs = {  # noqa: RUF012
        "subnetId": "SubnetId",
        "vpcId": "VpcId",
        "allocationId": "NatGatewayAddresses[0].AllocationId",
        "associationId": "NatGatewayAddresses[0].AssociationId",
        "networkInterfaceId": "NatGatewayAddresses[0].NetworkInterfaceId",
        "privateIp": "NatGatewayAddresses[0].PrivateIp",
        "publicIp": "NatGatewayAddresses[0].PublicIp",
    }

    def specification(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        found = super().specification(inputs)
        for each in found.get("TagSpecifications", ()):
            each["ResourceType"] = "natgateway"
        return found

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        mode = state.get("connectivityType", "public")
        return now | {"availabilityMode": "zonal", "connectivityType": mode}
