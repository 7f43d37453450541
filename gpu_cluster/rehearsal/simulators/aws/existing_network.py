"""A VPC that existed before the stack, with the subnet IDs that the settings name."""

from typing import Any
from unittest.mock import patch

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.inventory import Network, Subnet

_ANYWHERE = "0.0.0.0/0"


def lay_out(account: Account, network: Network) -> None:
    """Creates the VPC in the account's region; raises Refusal for a missing zone."""
    ec2 = account.client("ec2")
    zones = {z["ZoneName"] for z in ec2.describe_availability_zones()["AvailabilityZones"]}
    if unknown := sorted({subnet.zone for subnet in network.subnets.values()} - zones):
        raise Refusal(
            "InvalidParameterValue",
            f"the VPC's inventory has {', '.join(unknown)}, and the simulated {account.region} has "
            f"the zones {', '.join(sorted(zones))}",
        )
    first, *more = map(str, network.cidrs)
    vpc = ec2.create_vpc(CidrBlock=first)["Vpc"]["VpcId"]
    for block in more:
        ec2.associate_vpc_cidr_block(VpcId=vpc, CidrBlock=block)
    for name in ("EnableDnsSupport", "EnableDnsHostnames"):
        ec2.modify_vpc_attribute(VpcId=vpc, **{name: {"Value": True}})
    tables: dict[str, str] = {}
    for identity, subnet in network.subnets.items():
        # With the ID that others use, which moto's API does not let a caller choose.
        with patch("moto.ec2.models.subnets.random_subnet_id", return_value=identity):
            ec2.create_subnet(VpcId=vpc, CidrBlock=str(subnet.cidr), AvailabilityZone=subnet.zone)
        # moto assumes that the first subnet of a zone is public.
        ec2.modify_subnet_attribute(SubnetId=identity, MapPublicIpOnLaunch={"Value": subnet.public})
        if subnet.out not in tables:
            tables[subnet.out] = _table(ec2, vpc, identity, subnet)
        ec2.associate_route_table(RouteTableId=tables[subnet.out], SubnetId=identity)


def _table(ec2: Any, vpc: str, identity: str, subnet: Subnet) -> str:
    """A route table with this route to the internet. The NAT gateway's subnet is not read."""
    table: str = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    if subnet.out == "nat":
        address = ec2.allocate_address(Domain="vpc")["AllocationId"]
        made = ec2.create_nat_gateway(SubnetId=identity, AllocationId=address)["NatGateway"]
        target = {"NatGatewayId": made["NatGatewayId"]}
        ec2.create_route(RouteTableId=table, DestinationCidrBlock=_ANYWHERE, **target)
    elif subnet.out == "internet":
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        ec2.create_route(RouteTableId=table, DestinationCidrBlock=_ANYWHERE, GatewayId=gateway)
    return table
