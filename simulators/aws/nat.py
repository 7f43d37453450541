"""Public addresses and NAT gateways."""

from collections.abc import Mapping
from typing import Any

from simulators.aws.ec2 import Ec2Kind
from simulators.aws.kind import CloudError, NotFoundError


class Eip(Ec2Kind):
    """An elastic IP address. A delete is refused while something uses it."""

    token = "aws:ec2/eip:Eip"
    noun = "elastic_ip"
    supported_inputs = ("domain", "tags")
    computed = ("domain", "networkBorderGroup", "publicIpv4Pool", "instance", "networkInterface")
    outputs = {  # noqa: RUF012
        "allocationId": "AllocationId",
        "publicIp": "PublicIp",
        "domain": "Domain",
        "associationId": "AssociationId",
        "networkInterface": "NetworkInterfaceId",
        "privateIp": "PrivateIpAddress",
    }

    def create(self, inputs: dict[str, Any]) -> str:
        if inputs.get("domain", "vpc") != "vpc":
            raise CloudError("InvalidParameterValue: 'domain' must be vpc")
        answer = self.ec2.allocate_address(Domain="vpc", **self.specification(inputs))
        return str(answer["AllocationId"])

    def row(self, identity: str) -> dict[str, Any]:
        """The address as the API has it; raises NotFoundError."""
        for row in self.ec2.describe_addresses()["Addresses"]:
            if row.get("AllocationId") == identity:
                return dict(row)
        raise NotFoundError(f"InvalidAllocationID.NotFound: '{identity}' does not exist")

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        return super().read(identity, state) | {
            "arn": self.account.arn("ec2", f"elastic-ip/{identity}"),
            "networkBorderGroup": self.account.region,
            "publicIpv4Pool": "amazon",
            "publicDns": "",
        }

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        for gateway in self.rows("nat_gateway"):
            if any(each.get("AllocationId") == identity for each in gateway["NatGatewayAddresses"]):
                raise CloudError(
                    f"InvalidIPAddress.InUse: Address {state.get('publicIp', identity)} is in use "
                    f"by {gateway['NatGatewayId']}."
                )
        self.ec2.release_address(AllocationId=identity)


class NatGateway(Ec2Kind):
    """A zonal NAT gateway. Refused: an address in use, a network without an Internet gateway."""

    token = "aws:ec2/natGateway:NatGateway"
    noun = "nat_gateway"
    supported_inputs = ("allocationId", "connectivityType", "subnetId", "availabilityMode", "tags")
    sent = ("allocationId", "connectivityType", "subnetId")
    computed = ("availabilityMode", "privateIp", "vpcId", "secondaryPrivateIpAddresses")
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

    def create(self, inputs: dict[str, Any]) -> str:
        public = inputs.get("connectivityType", "public") == "public"
        if inputs.get("availabilityMode", "zonal") != "zonal":
            raise CloudError("a rehearsal simulates only zonal NAT gateways")
        if not inputs.get("subnetId"):
            raise CloudError("MissingParameter: a zonal NAT gateway needs 'subnetId'")
        if public != bool(inputs.get("allocationId")):
            words = "needs 'allocationId'" if public else "takes no 'allocationId'"
            kind = "public" if public else "private"
            raise CloudError(f"InvalidParameterCombination: a {kind} NAT gateway {words}")
        subnet = self.ec2.describe_subnets(SubnetIds=[inputs["subnetId"]])["Subnets"][0]
        vpc = subnet["VpcId"]
        attached = self.rows("internet_gateway", **{"attachment.vpc-id": vpc})
        if public and not attached:
            raise CloudError(f"Gateway.NotAttached: Network {vpc} has no Internet gateway attached")
        if public:
            Eip(self.account).row(inputs["allocationId"])
            taken = [
                gateway["NatGatewayId"]
                for gateway in self.rows("nat_gateway")
                for each in gateway["NatGatewayAddresses"]
                if each.get("AllocationId") == inputs["allocationId"]
            ]
            if taken:
                raise CloudError(
                    f"Resource.AlreadyAssociated: {inputs['allocationId']} is already associated "
                    f"with {taken[0]}"
                )
        return super().create(inputs)

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        mode = state.get("connectivityType", "public")
        return now | {"availabilityMode": "zonal", "connectivityType": mode}

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        interfaces = [
            each["NetworkInterfaceId"] for each in self.row(identity)["NatGatewayAddresses"]
        ]
        super().delete(identity, state)
        # moto keeps the gateway's interface and address association, EC2 does not.
        backend = self.account.backend("ec2")
        for interface in interfaces:
            backend.enis.pop(interface, None)
        for address in self.ec2.describe_addresses()["Addresses"]:
            if address.get("NetworkInterfaceId") in interfaces and address.get("AssociationId"):
                self.ec2.disassociate_address(AssociationId=address["AssociationId"])
