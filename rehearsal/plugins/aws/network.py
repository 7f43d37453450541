"""VPCs, subnets and internet gateways."""

from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.aws.ec2 import Ec2Kind, one
from rehearsal.plugins.aws.kind import CloudError, pascal


class Vpc(Ec2Kind):
    """A VPC."""

    token = "aws:ec2/vpc:Vpc"
    noun = "vpc"
    supported_inputs = (
        "cidrBlock",
        "enableDnsHostnames",
        "enableDnsSupport",
        "instanceTenancy",
        "tags",
    )
    sent = ("cidrBlock", "instanceTenancy")
    outputs = {  # noqa: RUF012
        "cidrBlock": "CidrBlock",
        "instanceTenancy": "InstanceTenancy",
        "ownerId": "OwnerId",
        "dhcpOptionsId": "DhcpOptionsId",
    }

    def create(self, inputs: dict[str, Any]) -> str:
        if "cidrBlock" not in inputs:
            raise CloudError("MissingParameter: Either 'cidrBlock' or 'ipv4IpamPoolId' is needed")
        identity = super().create(inputs)
        self._set_dns(identity, inputs)
        return identity

    def _set_dns(self, identity: str, inputs: Mapping[str, Any]) -> None:
        for name in ("enableDnsSupport", "enableDnsHostnames"):
            if name in inputs:
                attribute = {pascal(name): {"Value": inputs[name]}}
                self.ec2.modify_vpc_attribute(VpcId=identity, **attribute)

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        for name in ("enableDnsSupport", "enableDnsHostnames"):
            answer = self.ec2.describe_vpc_attribute(VpcId=identity, Attribute=name)
            now[name] = answer[pascal(name)]["Value"]
        main = one(
            self.ec2.describe_route_tables,
            "RouteTables",
            {"vpc-id": identity, "association.main": "true"},
        )
        group = one(
            self.ec2.describe_security_groups,
            "SecurityGroups",
            {"vpc-id": identity, "group-name": "default"},
        )
        acl = one(self.ec2.describe_network_acls, "NetworkAcls",
                  {"vpc-id": identity, "default": "true"})  # fmt: skip
        return now | {
            "arn": self.arn("vpc", identity, now),
            "mainRouteTableId": main["RouteTableId"],
            "defaultRouteTableId": main["RouteTableId"],
            "defaultSecurityGroupId": group["GroupId"],
            "defaultNetworkAclId": acl["NetworkAclId"],
            "enableNetworkAddressUsageMetrics": False,
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._set_dns(identity, new)

    def forces_replacement(self, path: str, old: Any, new: Any) -> bool:
        return path == "instanceTenancy" and (old, new) != ("dedicated", "default")


class Subnet(Ec2Kind):
    """A subnet."""

    token = "aws:ec2/subnet:Subnet"
    noun = "subnet"
    supported_inputs = (
        "vpcId", "availabilityZone", "availabilityZoneId", "cidrBlock", "mapPublicIpOnLaunch",
        "assignIpv6AddressOnCreation", "enableDns64", "ipv6Native",
        "enableResourceNameDnsARecordOnLaunch", "enableResourceNameDnsAaaaRecordOnLaunch", "tags",
    )  # fmt: skip
    sent = ("vpcId", "availabilityZone", "availabilityZoneId", "cidrBlock")
    outputs = {  # noqa: RUF012
        "vpcId": "VpcId",
        "arn": "SubnetArn",
        "ownerId": "OwnerId",
        "cidrBlock": "CidrBlock",
        "availabilityZone": "AvailabilityZone",
        "availabilityZoneId": "AvailabilityZoneId",
        "mapPublicIpOnLaunch": "MapPublicIpOnLaunch",
    }
    _off = (
        "assignIpv6AddressOnCreation", "enableDns64", "ipv6Native",
        "enableResourceNameDnsARecordOnLaunch", "enableResourceNameDnsAaaaRecordOnLaunch",
    )  # fmt: skip

    def create(self, inputs: dict[str, Any]) -> str:
        self._refuse_ipv6(inputs)
        identity = super().create(inputs)
        self._set_public(identity, inputs)
        return identity

    def _refuse_ipv6(self, inputs: Mapping[str, Any]) -> None:
        for name in self._off:
            if inputs.get(name):
                raise CloudError(f"a rehearsal does not simulate '{name}' of {self.token}")

    def _set_public(self, identity: str, inputs: Mapping[str, Any]) -> None:
        public = {"Value": bool(inputs.get("mapPublicIpOnLaunch"))}
        self.ec2.modify_subnet_attribute(SubnetId=identity, MapPublicIpOnLaunch=public)

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._refuse_ipv6(new)
        self._set_public(identity, new)


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
