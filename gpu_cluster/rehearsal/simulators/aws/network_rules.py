"""Network rules that EC2 enforces and moto does not: resources in use, routes that lead nowhere."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, rule
from gpu_cluster.rehearsal.simulators.aws.node_join_checks import guarded
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal

_GONE = ("deleting", "deleted")


def _gateways(account: Account) -> list[Any]:
    """The existing NAT gateways."""
    found = account.backend("ec2").nat_gateways.values()
    return [gateway for gateway in found if gateway.state not in _GONE]


def _interfaces(account: Account, **of: str) -> list[str]:
    """The network interfaces of a `subnet` or a `vpc`, with their purpose."""
    return [
        _named(interface)
        for interface in account.backend("ec2").enis.values()
        if of.get("subnet") in (None, interface.subnet.id)
        and of.get("vpc") in (None, interface.subnet.vpc_id)
    ]


def _named(interface: Any) -> str:
    described = f" ({interface.description})" if interface.description else ""
    return f"{interface.id}{described}"


def _refuse_used(word: str, identity: str, users: list[str]) -> None:
    if users:
        raise Refusal(
            "DependencyViolation",
            f"The {word} '{identity}' has dependencies and cannot be deleted: "
            f"{', '.join(sorted(users))}",
        )


def _gateway_of(account: Account, vpc: str) -> Any:
    """The internet gateway of a VPC, or None."""
    found = account.backend("ec2").internet_gateways.values()
    return next((gateway for gateway in found if gateway.vpc and gateway.vpc.id == vpc), None)


NETWORK = {"L-F678F1CE": 5, "L-0263D0A3": 5}
"""A region's default quotas of VPCs and of Elastic IPs."""


@rule("ec2", "CreateVpc")
def create_vpc(account: Account, params: Params) -> None:
    """Refuses more VPCs than the quota."""
    if len(account.backend("ec2").vpcs) >= NETWORK["L-F678F1CE"]:
        words = "The maximum number of VPCs has been reached."
        raise Refusal("VpcLimitExceeded", words)


@rule("ec2", "DeleteVpc")
def delete_vpc(account: Account, params: Params) -> None:
    """Refuses to delete a VPC that contains anything."""
    ec2, vpc = account.backend("ec2"), params["VpcId"]
    users = [subnet.id for subnet in ec2.describe_subnets() if subnet.vpc_id == vpc]
    users += [gateway.id for gateway in _gateways(account) if gateway.vpc_id == vpc]
    users += [
        point.id
        for point in ec2.vpc_end_points.values()
        if point.vpc_id == vpc and point.state not in _GONE
    ]
    users += [gateway.id] if (gateway := _gateway_of(account, vpc)) else []
    users += [group.id for group in ec2.groups[vpc].values() if group.name != "default"]
    users += _interfaces(account, vpc=vpc)
    users += [
        table.id
        for table in ec2.route_tables.values()
        if table.vpc_id == vpc and table.main_association_id is None
    ]
    _refuse_used("vpc", vpc, users)


@rule("ec2", "CreateSubnet")
def create_subnet(account: Account, params: Params) -> None:
    """Refuses a zone of another region."""
    zones = account.client("ec2").describe_availability_zones()["AvailabilityZones"]
    for name, key in (("AvailabilityZone", "ZoneName"), ("AvailabilityZoneId", "ZoneId")):
        names = [zone[key] for zone in zones]
        if params.get(name, names[0]) not in names:
            raise Refusal(
                "InvalidParameterValue",
                f"Value ({params[name]}) for parameter {name[0].lower()}{name[1:]} is invalid. "
                "Subnets can currently only be created in the following availability zones: "
                f"{', '.join(names)}.",
            )


@rule("ec2", "DeleteSubnet")
def delete_subnet(account: Account, params: Params) -> None:
    """Refuses to delete a subnet with interfaces, or with node groups that start nodes in it."""
    identity = params["SubnetId"]
    _refuse_used("subnet", identity, _interfaces(account, subnet=identity))
    for name, group in account.groups.items():
        if identity in group.row["subnets"]:
            raise Refusal(
                "DependencyViolation",
                f"EC2 would delete the subnet '{identity}', but the node group '{name}' starts its "
                "nodes in it and would be degraded (Ec2SubnetNotFound): delete the node group "
                "first",
            )


@rule("ec2", "AttachInternetGateway")
def attach_internet_gateway(account: Account, params: Params) -> None:
    """Refuses a second internet gateway for a VPC."""
    if attached := _gateway_of(account, params["VpcId"]):
        words = f"{params['VpcId']} already has the internet gateway {attached.id}"
        raise Refusal("Resource.AlreadyAssociated", words)


@rule("ec2", "DetachInternetGateway")
def detach_internet_gateway(account: Account, params: Params) -> None:
    """Refuses to detach a gateway while public addresses are mapped."""
    vpc = params["VpcId"]
    if any(
        address.get("publicIp")
        for gateway in _gateways(account)
        if gateway.vpc_id == vpc
        for address in gateway.address_set
    ):
        raise Refusal(
            "DependencyViolation",
            f"Network {vpc} has some mapped public address(es). Please unmap those public "
            "address(es) before detaching the gateway.",
        )


@rule("ec2", "AllocateAddress")
def allocate_address(account: Account, params: Params) -> None:
    """Refuses EC2-Classic, which no longer exists, and more addresses than the quota."""
    if len(account.backend("ec2").addresses) >= NETWORK["L-0263D0A3"]:
        words = "The maximum number of addresses has been reached."
        raise Refusal("AddressLimitExceeded", words)
    if params.get("Domain", "vpc") != "vpc":
        raise Refusal("InvalidParameterValue", "'domain' must be vpc")


@rule("ec2", "ReleaseAddress")
def release_address(account: Account, params: Params) -> None:
    """Refuses to release an address that a NAT gateway uses."""
    for gateway in _gateways(account):
        for address in gateway.address_set:
            if address.get("allocationId") == params.get("AllocationId"):
                words = f"Address {address.get('publicIp')} is in use by {gateway.id}."
                raise Refusal("InvalidIPAddress.InUse", words)


@rule("ec2", "CreateNatGateway")
def create_nat_gateway(account: Account, params: Params) -> None:
    """Refuses an address in use, and a network without an internet gateway."""
    if params.get("AvailabilityMode", "zonal") != "zonal":
        raise Refusal("UnsupportedOperation", "a rehearsal simulates only zonal NAT gateways")
    if not params.get("SubnetId"):
        raise Refusal("MissingParameter", "a zonal NAT gateway needs 'subnetId'")
    kind, allocation = params.get("ConnectivityType", "public"), params.get("AllocationId")
    if (kind == "public") != bool(allocation):
        words = "takes no 'allocationId'" if allocation else "needs 'allocationId'"
        raise Refusal("InvalidParameterCombination", f"a {kind} NAT gateway {words}")
    vpc = account.backend("ec2").get_subnet(params["SubnetId"]).vpc_id
    if kind != "public":
        return
    if _gateway_of(account, vpc) is None:
        words = f"Network {vpc} has no Internet gateway attached"
        raise Refusal("Gateway.NotAttached", words)
    known = [address.allocation_id for address in account.backend("ec2").addresses]
    if allocation not in known:
        raise Refusal("InvalidAllocationID.NotFound", f"'{allocation}' does not exist")
    for gateway in _gateways(account):
        if any(address.get("allocationId") == allocation for address in gateway.address_set):
            words = f"{allocation} is already associated with {gateway.id}"
            raise Refusal("Resource.AlreadyAssociated", words)


@rule("ec2", "DeleteNatGateway")
def delete_nat_gateway(account: Account, params: Params) -> Iterator[None]:
    """Removes the gateway's interface and address association, which moto keeps."""
    ec2 = account.backend("ec2")
    gateway = ec2.nat_gateways.get(params["NatGatewayId"])
    if gateway is None:
        words = f"NatGateway {params['NatGatewayId']} was not found"
        raise Refusal("NatGatewayNotFound", words)
    yield
    interfaces = [address.get("networkInterfaceId") for address in gateway.address_set]
    for identity in interfaces:
        ec2.enis.pop(identity, None)
    for address in ec2.addresses:
        if address.eni is not None and address.eni.id in interfaces and address.association_id:
            ec2.disassociate_address(association_id=address.association_id)


@rule("ec2", "CreateRoute", "ReplaceRoute")
def create_route(account: Account, params: Params) -> Iterator[None]:
    """Refuses a gateway that does not exist or is in another network."""
    ec2, target = account.backend("ec2"), params.get("NatGatewayId")
    if target and target not in [gateway.id for gateway in _gateways(account)]:
        words = f"The natGateway ID '{target}' does not exist"
        raise Refusal("InvalidNatGatewayID.NotFound", words)
    table, gateway = ec2.get_route_table(params["RouteTableId"]), params.get("GatewayId")
    attached = _gateway_of(account, table.vpc_id)
    if gateway and (attached is None or attached.id != gateway):
        raise Refusal(
            "InvalidParameterValue",
            f"route table {table.id} and network gateway {gateway} belong to different networks",
        )
    with _kept_routes(account, table):
        yield


def _kept_routes(account: Account, table: Any) -> Any:
    before: Mapping[str, Any] = dict(table._routes)

    def undo() -> None:
        table._routes = dict(before)

    return guarded(account, undo=undo)


@rule("ec2", "DeleteRoute")
def delete_route(account: Account, params: Params) -> Iterator[None]:
    """Refuses to delete a route that nodes need."""
    with _kept_routes(account, account.backend("ec2").get_route_table(params["RouteTableId"])):
        yield


@rule("ec2", "DisassociateRouteTable", "ReplaceRouteTableAssociation")
def disassociate_route_table(account: Account, params: Params) -> Iterator[None]:
    """Refuses to remove an association that nodes need."""
    tables = account.backend("ec2").route_tables
    before = {name: dict(table._associations) for name, table in tables.items()}

    def undo() -> None:
        for name, associations in before.items():
            tables[name]._associations = associations

    with guarded(account, undo=undo):
        yield


@rule("ec2", "AssociateRouteTable")
def associate_route_table(account: Account, params: Params) -> None:
    """Refuses a subnet that already has a route table."""
    if not (subnet := params.get("SubnetId")):
        return
    for table in account.backend("ec2").route_tables.values():
        for identity, other in table._associations.items():
            if other == subnet:
                raise Refusal(
                    "Resource.AlreadyAssociated",
                    f"the specified association for route table {params['RouteTableId']} conflicts "
                    f"with an existing association {identity} of {subnet}",
                )


@rule("ec2", "DeleteRouteTable")
def delete_route_table(account: Account, params: Params) -> None:
    """Refuses to delete the main route table."""
    table = account.backend("ec2").get_route_table(params["RouteTableId"])
    if table.main_association_id is not None:
        _refuse_used("routeTable", table.id, ["it is the main one"])
