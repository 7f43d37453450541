"""A strict simulator of AWS over moto, for the engine's `aws` provider."""

from collections.abc import Mapping
from typing import Any

from plugins.cloud.handler import Config, Handler
from plugins.cloud.server import ProviderServer, ProviderSettings
from simulators.aws.access import AccessEntry, AccessPolicyAssociation, PodIdentityAssociation
from simulators.aws.account import NUMBER
from simulators.aws.addons import Addon
from simulators.aws.cloud import AwsCloud
from simulators.aws.cluster import Cluster
from simulators.aws.iam import OpenIdConnectProvider, Role
from simulators.aws.iam_policies import Policy, RolePolicy, RolePolicyAttachment
from simulators.aws.keys_and_logs import Alias, Key, LogGroup
from simulators.aws.launch_template import LaunchTemplate
from simulators.aws.nat import Eip, NatGateway
from simulators.aws.network import InternetGateway, Subnet, Vpc
from simulators.aws.node_group import NodeGroup
from simulators.aws.provider_config import check_config
from simulators.aws.routes import Route, RouteTable, RouteTableAssociation, VpcEndpoint
from simulators.aws.scaling_group import Tag
from simulators.aws.security_groups import (
    DefaultSecurityGroup,
    SecurityGroup,
    SecurityGroupEgressRule,
    SecurityGroupIngressRule,
)

__all__ = ["AwsCloud", "serve", "settings_for"]

_KINDS = (
    Vpc,
    Subnet,
    InternetGateway,
    Eip,
    NatGateway,
    RouteTable,
    Route,
    RouteTableAssociation,
    VpcEndpoint,
    SecurityGroup,
    DefaultSecurityGroup,
    SecurityGroupIngressRule,
    SecurityGroupEgressRule,
    LaunchTemplate,
    Role,
    Policy,
    RolePolicy,
    RolePolicyAttachment,
    OpenIdConnectProvider,
    Key,
    Alias,
    LogGroup,
    Addon,
    AccessEntry,
    AccessPolicyAssociation,
    PodIdentityAssociation,
    Tag,
)


def settings_for(cloud: AwsCloud) -> ProviderSettings:
    """The provider of this account."""
    account = cloud.account
    handlers: dict[str, Handler] = {kind.token: kind(account) for kind in _KINDS}
    handlers[Cluster.token] = Cluster(account, cloud.control_plane)
    handlers[NodeGroup.token] = NodeGroup(account, cloud.faults)
    return ProviderSettings(
        package="aws",
        handlers=handlers,
        functions={
            "aws:index/getCallerIdentity:getCallerIdentity": _caller,
            "aws:index/getPartition:getPartition": _partition,
        },
        faults=cloud.faults,
        changed=cloud.notify,
        check_config=check_config,
    )


def serve(cloud: AwsCloud) -> ProviderServer:
    """Starts the provider for this account on loopback; its `port` goes to the engine."""
    return ProviderServer(settings_for(cloud))


def _caller(config: Config, arguments: Mapping[str, Any]) -> dict[str, Any]:
    arn = f"arn:aws:iam::{NUMBER}:user/rehearsal"
    return {"accountId": NUMBER, "arn": arn, "userId": "AIDAREHEARSAL", "id": NUMBER}


def _partition(config: Config, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "partition": "aws",
        "dnsSuffix": "amazonaws.com",
        "reverseDnsPrefix": "com.amazonaws",
        "id": "aws",
    }
