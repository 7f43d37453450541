"""Rules for VPC endpoints that EC2 enforces and moto does not, and changes that moto drops.

AWS PrivateLink guide, create-interface-endpoint and vpc-endpoints-dns; EC2 API reference, error
codes; 2026-11-24.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, rule
from gpu_cluster.rehearsal.simulators.aws.node_join_checks import guarded
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal


@rule("ec2", "CreateVpcEndpoint")
def create_vpc_endpoint(account: Account, params: Params) -> Iterator[None]:
    """Refuses a service that the region does not have, two subnets of a zone, private names that
    the VPC cannot have, and an endpoint through which nodes would no longer reach AWS."""
    ec2, name = account.backend("ec2"), params.get("ServiceName", "")
    forms = [f"com.amazonaws.{account.region}."]
    forms += [f"cn.{forms[0]}"] if account.region.startswith("cn-") else []
    if not name.startswith(tuple(forms)):
        words = f"The Vpc Endpoint Service '{name}' does not exist in {account.region}"
        raise Refusal("InvalidServiceName", words)
    for table in params.get("RouteTableIds") or []:
        ec2.get_route_table(table)
    for group in params.get("SecurityGroupIds") or []:
        found = ec2.get_security_group_from_id(group)
        if found is None or found.vpc_id != params["VpcId"]:
            words = f"The security group '{group}' does not exist in {params['VpcId']}"
            raise Refusal("InvalidGroup.NotFound", words)
    _check_zones(account, params.get("SubnetIds") or [])
    if params.get("PrivateDnsEnabled"):
        _check_names(account, params["VpcId"], name)
    before = set(ec2.vpc_end_points)

    def undo() -> None:
        ec2.delete_vpc_endpoints([*(set(ec2.vpc_end_points) - before)])

    with guarded(account, undo=undo):
        yield


def _check_zones(account: Account, ids: Sequence[str]) -> None:
    zones: dict[str, str] = {}
    for identity in ids:
        zone = account.backend("ec2").get_subnet(identity).availability_zone
        if zone in zones:
            raise Refusal(
                "DuplicateSubnetsInSameZone",
                f"Found another VPC endpoint subnet in the availability zone of {identity}. VPC "
                "endpoint subnets should be in different availability zones supported by the VPC "
                "endpoint service.",
            )
        zones[zone] = identity


def _check_names(account: Account, vpc: str, service: str) -> None:
    ec2 = account.backend("ec2")
    for attribute in ("enable_dns_support", "enable_dns_hostnames"):
        if str(getattr(ec2.get_vpc(vpc), attribute)).lower() != "true":
            raise Refusal(
                "InvalidParameter",
                "Enabling private DNS requires both enableDnsSupport and enableDnsHostnames VPC "
                f"attributes set to true for {vpc}",
            )
    for point in ec2.vpc_end_points.values():
        if point.vpc_id == vpc and point.service_name == service and private_names(point):
            raise Refusal(
                "InvalidParameter",
                "private-dns-enabled cannot be set because there is already a conflicting DNS "
                f"domain for {service} in the VPC {vpc}",
            )


def private_names(endpoint: Any) -> bool:
    """Whether the service's usual name resolves to this endpoint in its VPC."""
    return bool(endpoint.private_dns_enabled) and endpoint.state == "available"


@rule("ec2", "ModifyVpcEndpoint")
def modify_vpc_endpoint(account: Account, params: Params) -> Iterator[None]:
    """Applies `PrivateDnsEnabled`, which moto drops; refuses what a create refuses."""
    (endpoint,) = account.backend("ec2").describe_vpc_endpoints([params["VpcEndpointId"]])
    removed = params.get("RemoveSubnetIds") or []
    kept = [subnet for subnet in endpoint.subnet_ids or [] if subnet not in removed]
    _check_zones(account, [*kept, *(params.get("AddSubnetIds") or [])])
    wanted = params.get("PrivateDnsEnabled")
    if wanted and not private_names(endpoint):
        _check_names(account, endpoint.vpc_id, endpoint.service_name)
    before = dict(vars(endpoint))
    with guarded(account, undo=lambda: vars(endpoint).update(before)):
        yield
        if wanted is not None:
            endpoint.private_dns_enabled = wanted
