"""The VPC of an EKS cluster: private nodes, NAT for internet access, no own group for nodes.

Nodes and control plane share the security group that EKS creates with the cluster: network
interfaces leak in a group of our own, which then keeps the VPC from being deleted. The interface
endpoints have their own group, whose interfaces are deleted with them.
"""

import ipaddress
from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from ..catalog import eks as catalog
from ..lifecycle import ownership
from . import regions
from .network_args import EksNetworkArgs, subnet_at


class EksNetwork(pulumi.ComponentResource):
    """Two or three private subnets with access to the internet, or those of an existing VPC."""

    private_subnets: dict[str, pulumi.Input[str]]
    """Place as in the settings -> the subnet's ID."""
    zones: dict[str, pulumi.Input[str]]
    """Zone as in the settings -> its name; empty in an existing VPC."""
    egress: list[pulumi.Resource]
    """Resources without which a node cannot reach the internet, to join or to pull an image."""

    def __init__(
        self,
        name: str,
        args: EksNetworkArgs,
        *,
        region: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:eks:Network", name, None, opts)
        self.private_subnets = {place: subnet_at(place) for place in args.places if args.subnet_ids}
        self.zones = {}
        self.egress = []
        if not args.subnet_ids:
            self._own_vpc(name, args, region)
        self.register_outputs({})

    def _own_vpc(self, name: str, args: EksNetworkArgs, region: str) -> None:
        child = pulumi.ResourceOptions(parent=self)
        vpc = aws.ec2.Vpc(
            name,
            cidr_block=args.cidr,
            # Nodes resolve the private endpoint by its name.
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=_tags(name),
            opts=child,
        )
        gateway = aws.ec2.InternetGateway(name, vpc_id=vpc.id, tags=_tags(name), opts=child)
        public_routes = aws.ec2.RouteTable(
            f"{name}-public", vpc_id=vpc.id, tags=_tags(f"{name}-public"), opts=child
        )
        to_internet = aws.ec2.Route(
            f"{name}-public",
            route_table_id=public_routes.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.id,
            opts=child,
        )
        ways_out: dict[str, aws.ec2.Route] = {}
        for zone, private, public in _blocks(args):
            subnet = _subnet(f"{name}-private-{zone}", zone, private, vpc, "internal-elb", child)
            self.private_subnets[zone] = subnet.id
            self.zones[zone] = subnet.availability_zone
            # In every zone, which costs nothing: an internet-facing load balancer needs two.
            outside = _subnet(f"{name}-public-{zone}", zone, public, vpc, "elb", child)
            association = aws.ec2.RouteTableAssociation(
                f"{name}-public-{zone}",
                subnet_id=outside.id,
                route_table_id=to_internet.route_table_id,
                opts=child,
            )
            if zone in args.exits:
                ways_out[zone] = self._exit(name, zone, outside, vpc, [to_internet, association])
            self.egress.append(
                aws.ec2.RouteTableAssociation(
                    f"{name}-private-{zone}",
                    subnet_id=subnet.id,
                    # The route's table: a zone that gets its own table keeps the old one until the
                    # new one leads to the internet.
                    route_table_id=(ways_out.get(zone) or ways_out[args.exits[0]]).route_table_id,
                    opts=child,
                )
            )
        # ECR stores image layers in S3: through this gateway, they cause no NAT traffic. Images of
        # other registries, such as nvcr.io and docker.io, still use the NAT gateway.
        aws.ec2.VpcEndpoint(
            f"{name}-s3",
            vpc_id=vpc.id,
            service_name=regions.endpoint_service(region, "s3"),
            vpc_endpoint_type="Gateway",
            route_table_ids=[route.route_table_id for route in ways_out.values()],
            tags=_tags(f"{name}-s3"),
            opts=child,
        )
        if args.interface_endpoints:
            self.egress += self._interface_endpoints(name, args, vpc, region)

    def _interface_endpoints(
        self, name: str, args: EksNetworkArgs, vpc: aws.ec2.Vpc, region: str
    ) -> list[pulumi.Resource]:
        """One endpoint per service, under its default name, with an interface in each subnet."""
        child, name = pulumi.ResourceOptions(parent=self), f"{name}-endpoints"
        group = aws.ec2.SecurityGroup(
            name,
            description="HTTPS from the VPC to its interface endpoints",
            vpc_id=vpc.id,
            ingress=[
                {
                    "protocol": "tcp",
                    "from_port": 443,
                    "to_port": 443,
                    "cidr_blocks": [args.cidr],
                    "description": "nodes and pods",
                }
            ],
            tags=_tags(name),
            opts=child,
        )
        return [
            aws.ec2.VpcEndpoint(
                f"{name}-{service}",
                vpc_id=vpc.id,
                service_name=regions.endpoint_service(region, service),
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=list(self.private_subnets.values()),
                security_group_ids=[group.id],
                tags=_tags(f"{name}-{service}"),
                opts=child,
            )
            for service in catalog.interface_endpoints(region)
        ]

    def _exit(
        self,
        name: str,
        zone: str,
        subnet: aws.ec2.Subnet,
        vpc: aws.ec2.Vpc,
        routed: list[pulumi.Resource],
    ) -> aws.ec2.Route:
        """A NAT gateway in a public subnet, and the route to it in a new table. `routed`: the
        resources that connect the subnet to the internet."""
        child, name = pulumi.ResourceOptions(parent=self), f"{name}-{zone}"
        address = aws.ec2.Eip(
            name,
            domain="vpc",
            tags=_tags(name),
            # A VPC's address is mapped only while the VPC has its internet gateway.
            opts=pulumi.ResourceOptions(parent=self, depends_on=routed[:1]),
        )
        nat = aws.ec2.NatGateway(
            name,
            subnet_id=subnet.id,
            allocation_id=address.id,
            tags=_tags(name),
            opts=pulumi.ResourceOptions(parent=self, depends_on=routed),
        )
        table = aws.ec2.RouteTable(name, vpc_id=vpc.id, tags=_tags(name), opts=child)
        return aws.ec2.Route(
            name,
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=nat.id,
            opts=child,
        )


def _tags(name: str) -> dict[str, str]:
    return {"Name": name, **ownership.aws_tags()}


def _subnet(
    name: str,
    zone: str,
    block: str,
    vpc: aws.ec2.Vpc,
    load_balancers: str,
    opts: pulumi.ResourceOptions,
) -> aws.ec2.Subnet:
    by_id = "-az" in zone
    return aws.ec2.Subnet(
        name,
        vpc_id=vpc.id,
        availability_zone=None if by_id else zone,
        availability_zone_id=zone if by_id else None,
        cidr_block=block,
        tags=_tags(name) | {f"kubernetes.io/role/{load_balancers}": "1"},
        opts=opts,
    )


def _blocks(args: EksNetworkArgs) -> Sequence[tuple[str, str, str]]:
    """Zone, CIDR of its private subnet and CIDR of its public subnet.

    Each private subnet is an eighth of the VPC, in the order of the zones; the public ones are in
    the last eighth. Appending a zone does not move any other.
    """
    block = ipaddress.IPv4Network(args.cidr)
    private = list(block.subnets(prefixlen_diff=3))
    public = list(private[-1].subnets(prefixlen_diff=5))
    return [
        (zone, str(private[position]), str(public[position]))
        for position, zone in enumerate(args.zones)
    ]
