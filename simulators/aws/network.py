"""VPCs, subnets and internet gateways, with EC2's order of deletion."""

from collections.abc import Mapping
from typing import Any

from simulators.aws.ec2 import Ec2Kind, interface_name
from simulators.aws.kind import CloudError


class Vpc(Ec2Kind):
    """A VPC. A delete is refused while anything stands in it."""

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
    computed = ("cidrBlock", "enableDnsHostnames", "enableNetworkAddressUsageMetrics")
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
                attribute = {name[0].upper() + name[1:]: {"Value": inputs[name]}}
                self.ec2.modify_vpc_attribute(VpcId=identity, **attribute)

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        for name in ("enableDnsSupport", "enableDnsHostnames"):
            answer = self.ec2.describe_vpc_attribute(VpcId=identity, Attribute=name)
            now[name] = answer[name[0].upper() + name[1:]]["Value"]
        tables = self.rows("route_table", vpc_id=identity)
        main = next(t for t in tables if any(a.get("Main") for a in t["Associations"]))
        group = self.rows("security_group", vpc_id=identity, group_name="default")[0]
        acl = next(a for a in self.rows("network_acl", vpc_id=identity) if a["IsDefault"])
        return now | {
            "arn": self.account.arn("ec2", f"vpc/{identity}"),
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

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        users = [row["SubnetId"] for row in self.rows("subnet", vpc_id=identity)]
        users += [row["NatGatewayId"] for row in self.rows("nat_gateway", vpc_id=identity)]
        users += [row["VpcEndpointId"] for row in self.rows("vpc_endpoint", vpc_id=identity)]
        users += [
            row["InternetGatewayId"]
            for row in self.ec2.describe_internet_gateways()["InternetGateways"]
            if any(each["VpcId"] == identity for each in row["Attachments"])
        ]
        users += [
            row["GroupId"]
            for row in self.rows("security_group", vpc_id=identity)
            if row["GroupName"] != "default"
        ]
        users += [interface_name(row) for row in self.rows("network_interface", vpc_id=identity)]
        users += [
            row["RouteTableId"]
            for row in self.rows("route_table", vpc_id=identity)
            if not any(each.get("Main") for each in row["Associations"])
        ]
        self.refuse_used("vpc", identity, users)
        super().delete(identity, state)


class Subnet(Ec2Kind):
    """A subnet. Refused: a range outside the VPC or taken, a zone of another region; a delete while
    interfaces or the node groups that start their nodes in it are there."""

    token = "aws:ec2/subnet:Subnet"
    noun = "subnet"
    supported_inputs = (
        "vpcId", "availabilityZone", "availabilityZoneId", "cidrBlock", "mapPublicIpOnLaunch",
        "assignIpv6AddressOnCreation", "enableDns64", "ipv6Native",
        "enableResourceNameDnsARecordOnLaunch", "enableResourceNameDnsAaaaRecordOnLaunch", "tags",
    )  # fmt: skip
    sent = ("vpcId", "availabilityZone", "availabilityZoneId", "cidrBlock")
    computed = ("availabilityZone", "availabilityZoneId", "cidrBlock")
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
        zones = self.ec2.describe_availability_zones()["AvailabilityZones"]
        for name, key in (("availabilityZone", "ZoneName"), ("availabilityZoneId", "ZoneId")):
            names = [zone[key] for zone in zones]
            if inputs.get(name, names[0]) not in names:
                raise CloudError(
                    f"InvalidParameterValue: Value ({inputs[name]}) for parameter {name} is "
                    "invalid. Subnets can currently only be created in the following availability "
                    f"zones: {', '.join(names)}."
                )
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

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        users = [interface_name(row) for row in self.rows("network_interface", subnet_id=identity)]
        self.refuse_used("subnet", identity, users)
        for name, group in self.account.groups.items():
            if identity in group.inputs["subnetIds"]:
                raise CloudError(
                    f"EC2 would delete the subnet '{identity}', but the node group '{name}' starts "
                    "its nodes in it and would be degraded (Ec2SubnetNotFound): delete the node "
                    "group first"
                )
        super().delete(identity, state)


class InternetGateway(Ec2Kind):
    """An Internet gateway. Refused: a second one for a VPC; a delete while public addresses are
    mapped."""

    token = "aws:ec2/internetGateway:InternetGateway"
    noun = "internet_gateway"
    supported_inputs = ("vpcId", "tags")
    computed = ("vpcId",)
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
            for row in self.ec2.describe_internet_gateways()["InternetGateways"]:
                if any(each["VpcId"] == vpc for each in row["Attachments"]):
                    raise CloudError(
                        f"Resource.AlreadyAssociated: {vpc} already has the internet gateway "
                        f"{row['InternetGatewayId']}"
                    )
            self.ec2.attach_internet_gateway(InternetGatewayId=identity, VpcId=vpc)

    def _detach(self, identity: str) -> None:
        for attached in self.row(identity)["Attachments"]:
            vpc = attached["VpcId"]
            if any(
                address.get("PublicIp")
                for gateway in self.rows("nat_gateway", vpc_id=vpc)
                for address in gateway["NatGatewayAddresses"]
            ):
                raise CloudError(
                    f"DependencyViolation: Network {vpc} has some mapped public address(es). "
                    "Please unmap those public address(es) before detaching the gateway."
                )
            self.ec2.detach_internet_gateway(InternetGatewayId=identity, VpcId=vpc)

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        arn = self.account.arn("ec2", f"internet-gateway/{identity}")
        return super().read(identity, state) | {"arn": arn}

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        if old.get("vpcId") != new.get("vpcId"):
            self._detach(identity)
            self._attach(identity, new.get("vpcId"))

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        self._detach(identity)
        super().delete(identity, state)
