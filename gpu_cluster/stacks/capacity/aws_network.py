"""Whether the subnets of an existing VPC meet the requirements of an EKS cluster; read-only.

Queries EC2: `DescribeSubnets`, `DescribeInstances`, `DescribeVpcAttribute`, `DescribeRouteTables`,
`DescribeVpcEndpoints`. Source of the requirements: AWS, "View Amazon EKS networking requirements
for VPC and subnets".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.components.catalog.eks_addons import LEAST_ADDRESSES, SPARE_ADDRESSES
from gpu_cluster.components.eks.settings import EksSettings
from gpu_cluster.components.schema.outputs import texts
from gpu_cluster.stacks.capacity.aws_account import filter_of, listed, nodes_of, unknown
from gpu_cluster.stacks.capacity.verdict import Finding

_AT = "cluster.network.subnetIds"
_LEAST_ADDRESSES = 6
"""Free addresses that EKS requires in each subnet of the control plane."""
_ANYWHERE = "0.0.0.0/0"
_PRIVATE_EXITS = (
    "NatGatewayId", "TransitGatewayId", "NetworkInterfaceId", "InstanceId", "CoreNetworkArn",
    "LocalGatewayId", "VpcPeeringConnectionId", "CarrierGatewayId",
)  # fmt: skip
"""Targets of a route that private addresses can use."""

Row = Mapping[str, Any]


def network_findings(
    ec2: Any,
    settings: EksSettings,
    claims: Mapping[str, tuple[str | None, Sequence[str]]] | None = None,
) -> list[Finding]:
    """A finding for each requirement that is not met or not known; none for a VPC that the stack
    creates. `claims`: name -> its disk's zone, and the pools whose pods mount it."""
    wanted = texts(settings.cluster.network.subnet_ids)
    if not wanted:
        return []
    pools = [place for pool in settings.pools.values() for place in pool.places]
    of_pools = [place for place in pools if place.startswith("subnet-")]
    try:
        every = list(dict.fromkeys([*wanted, *of_pools]))
        return list(_findings(ec2, settings, wanted, every, claims or {}))
    except Exception as error:
        return [Finding.unknown(_AT, unknown(error).reason)]


def _findings(
    ec2: Any, settings: EksSettings, wanted: Sequence[str], every: Sequence[str],
    claims: Mapping[str, tuple[str | None, Sequence[str]]],
) -> Iterator[Finding]:  # fmt: skip
    named = filter_of("subnet-id", *every)
    subnets = listed(ec2, "describe_subnets", "Subnets", Filters=[named])
    rows = {row["SubnetId"]: row for row in subnets}
    if missing := [subnet for subnet in every if subnet not in rows]:
        yield _wrong(
            f"{settings.region} has no subnet {' or '.join(missing)} that is visible to this "
            "account"
        )
    vpcs = sorted({row["VpcId"] for row in rows.values()})
    if len(vpcs) > 1:
        yield _wrong(f"they are in {' and '.join(vpcs)}; name subnets of one VPC")
    # The control plane of an existing cluster is in whatever subnets it has.
    system = settings.cluster.system_pool
    control = [rows[subnet] for subnet in wanted if subnet in rows and system is not None]
    zones = sorted({row["AvailabilityZone"] for row in control})
    if control and len(zones) < catalog.MIN_SUBNETS:
        yield _wrong(f"all are in {zones[0]}; EKS needs at least two zones")
    excluded = catalog.CONTROL_PLANE_EXCLUDED_ZONES.get(settings.region)
    for row in control:
        if row["AvailabilityZoneId"] == excluded:
            yield _wrong(
                f"{row['SubnetId']} is in {excluded}, which cannot host an EKS control plane"
            )
        if row["AvailableIpAddressCount"] < _LEAST_ADDRESSES:
            yield _wrong(
                f"{row['SubnetId']} has {row['AvailableIpAddressCount']} free addresses; EKS "
                f"needs {_LEAST_ADDRESSES} for the control plane"
            )
    yield from _too_few(ec2, settings, rows)
    yield from _apart(settings, rows, claims)
    for vpc in vpcs:
        for name in ("enableDnsSupport", "enableDnsHostnames"):
            found = ec2.describe_vpc_attribute(VpcId=vpc, Attribute=name)
            if not found[name[0].upper() + name[1:]]["Value"]:
                yield _wrong(f"{vpc} has {name} off, and nodes resolve the endpoint by its name")
        inside = [row for row in rows.values() if row["VpcId"] == vpc]
        yield from _ways_out(ec2, vpc, inside)


def _apart(
    settings: EksSettings,
    rows: Mapping[str, Row],
    claims: Mapping[str, tuple[str | None, Sequence[str]]],
) -> Iterator[Finding]:
    """Whether a claim's disk is in the zone in which each pool that mounts it starts its nodes."""
    for claim, (zone, pools) in claims.items():
        for pool in pools if zone else ():
            subnets = [rows[place] for place in settings.pools[pool].places if place in rows]
            others = [row for row in subnets if row["AvailabilityZone"] != zone]
            if others:
                places = ", ".join(
                    f"{row['SubnetId']} in {row['AvailabilityZone']}" for row in others
                )
                yield Finding.wrong(
                    f"volumeClaims.{claim}",
                    f"its disk is in {zone}, and nodes of pool {pool} start in {places}, "
                    f"where they cannot attach it; set gpuPools.{pool}.subnetIds to the subnet in "
                    f"{zone}, or volumeClaims.{claim}.zone to {others[0]['AvailabilityZone']}",
                )


def _too_few(ec2: Any, settings: EksSettings, rows: Mapping[str, Row]) -> Iterator[Finding]:
    """Whether the subnets have enough addresses for the maximum number of nodes: first for each
    pool, then for all of them together."""
    cluster, pods = settings.cluster, LEAST_ADDRESSES + SPARE_ADDRESSES
    system = cluster.system_nodes
    subnets = cluster.network.places
    groups = [
        *([("systemPool", system.instance_types, system.max_nodes, 0, subnets)] if system else []),
        *(
            (
                f"pool {name}",
                [kind for choice in pool.choices for kind in choice.args.instance_types],
                # Each node group or NodePool of an order may reach maxNodes.
                pool.args.max_nodes * len(pool.args.parts(name, cluster.scaler)),
                # A warm instance has one address, stopped or not, until it joins.
                pool.args.warm_pool.min_size if pool.args.warm_pool else 0,
                pool.places,
            )
            for name, pool in settings.pools.items()
        ),
        *(
            (f"pool {name}", cpu.instance_types, cpu.max_nodes, 0, cpu.places(name) or subnets)
            for name, cpu in cluster.cpu_pools.items()
        ),
    ]
    taken = _used_addresses(ec2, cluster.name)
    demands = []
    for name, types, most, waiting, places in groups:
        known = [row for kind in types if (row := catalog.instance_type(kind)) is not None]
        each_node = max(row.addresses(pods) for row in known)
        present = [place for place in places if place in rows]
        demands.append((name, present, most * each_node + waiting))
    if len(demands) > 1:
        places = list(dict.fromkeys(place for _, zones, _ in demands for place in zones))
        demands.append(("all pools", places, sum(demand for _, _, demand in demands)))
    for name, places, demand in demands:
        free = sum(rows[place]["AvailableIpAddressCount"] + taken.get(place, 0) for place in places)
        if places and free < demand:
            yield _wrong(
                f"{', '.join(places)} {'has' if len(places) == 1 else 'have'} {free} addresses "
                f"for {name}, whose nodes reserve {demand} at maxNodes ({pods} for pods on each "
                "node, and one for each interface); lower maxNodes, or name larger subnets"
            )
            return


def _used_addresses(ec2: Any, cluster: str) -> dict[str, int]:
    """Subnet -> addresses that existing nodes of this cluster use in it."""
    found: dict[str, int] = {}
    for instance in nodes_of(ec2, cluster):
        for interface in instance["NetworkInterfaces"]:
            subnet = interface["SubnetId"]
            found[subnet] = found.get(subnet, 0) + len(interface["PrivateIpAddresses"])
    return found


def _ways_out(ec2: Any, vpc: str, subnets: Sequence[Row]) -> Iterator[Finding]:
    tables = route_tables(ec2, vpc)
    within = filter_of("vpc-id", vpc)
    endpoints = listed(ec2, "describe_vpc_endpoints", "VpcEndpoints", Filters=[within])
    interfaces = any(endpoint["VpcEndpointType"] == "Interface" for endpoint in endpoints)
    for subnet in subnets:
        table = _table_of(tables, subnet["SubnetId"])
        reason = _no_way_out(subnet, table)
        if not reason:
            continue
        reason_ = f"{subnet['SubnetId']} has no route to the internet: {reason}"
        if interfaces:
            yield Finding.unknown(
                _AT, f"{reason_}; it is not known whether the VPC's endpoints are sufficient"
            )
        else:
            yield _wrong(f"{reason_}, so its nodes could not join")


def route_tables(ec2: Any, vpc: str) -> list[Row]:
    """The route tables of a VPC."""
    within = filter_of("vpc-id", vpc)
    return listed(ec2, "describe_route_tables", "RouteTables", Filters=[within])


def way_out(subnet: Row, tables: Sequence[Row]) -> Literal["nat", "internet", "none"]:
    """How nodes of a subnet reach the internet: `nat` stands for everything that private addresses
    can use. `tables`: the route tables of its VPC."""
    table = _table_of(tables, subnet["SubnetId"])
    if _no_way_out(subnet, table) or table is None:
        return "none"
    route = next(row for row in table["Routes"] if row.get("DestinationCidrBlock") == _ANYWHERE)
    return "internet" if str(route.get("GatewayId") or "").startswith("igw-") else "nat"


def _table_of(tables: Sequence[Row], subnet: str) -> Row | None:
    """The route table of the subnet, or else the VPC's main one."""
    for table in tables:
        if any(association.get("SubnetId") == subnet for association in table["Associations"]):
            return table
    return next((t for t in tables if any(a.get("Main") for a in t["Associations"])), None)


def _no_way_out(subnet: Row, table: Row | None) -> str:
    """Why nodes of the subnet cannot reach the internet; empty if they can."""
    if table is None:
        return "it has no route table"
    name = table["RouteTableId"]
    route = next((r for r in table["Routes"] if r.get("DestinationCidrBlock") == _ANYWHERE), None)
    if route is None:
        return f"its route table {name} has no route to {_ANYWHERE}"
    if route.get("State") == "blackhole":
        return f"the route to {_ANYWHERE} in {name} leads to a target that no longer exists"
    gateway = str(route.get("GatewayId") or "")
    if gateway.startswith("igw-") and not subnet["MapPublicIpOnLaunch"]:
        return f"{name} leads to the internet gateway, but its nodes have no public addresses"
    if gateway or any(route.get(key) for key in _PRIVATE_EXITS):
        return ""
    return f"the route to {_ANYWHERE} in {name} leads to an unknown target"


def _wrong(reason: str) -> Finding:
    return Finding.wrong(_AT, reason)
