"""The engine's `aws` provider, offline: a thin translation between a resource's inputs and the API
at the endpoint that the environment names."""

from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.aws.api import Api
from rehearsal.plugins.aws.eks import (
    AccessEntry,
    AccessPolicyAssociation,
    Addon,
    Cluster,
    PodIdentityAssociation,
)
from rehearsal.plugins.aws.iam import OpenIdConnectProvider, Role
from rehearsal.plugins.aws.iam_policies import Policy, RolePolicy, RolePolicyAttachment
from rehearsal.plugins.aws.keys_and_logs import Alias, Key, LogGroup
from rehearsal.plugins.aws.launch_template import LaunchTemplate
from rehearsal.plugins.aws.nat import Eip, NatGateway
from rehearsal.plugins.aws.network import InternetGateway, Subnet, Vpc
from rehearsal.plugins.aws.node_group import NodeGroup, Tag
from rehearsal.plugins.aws.provider_config import check_config
from rehearsal.plugins.aws.routes import Route, RouteTable, RouteTableAssociation, VpcEndpoint
from rehearsal.plugins.aws.security_groups import (
    DefaultSecurityGroup,
    SecurityGroup,
    SecurityGroupEgressRule,
    SecurityGroupIngressRule,
)
from rehearsal.plugins.aws.volumes import Volume
from rehearsal.plugins.cloud.handler import Config
from rehearsal.plugins.cloud.server import ProviderSettings
from rehearsal.plugins.faults import Faults

__all__ = ["settings_for"]

_KINDS = (
    AccessEntry, AccessPolicyAssociation, Addon, Alias, Cluster, DefaultSecurityGroup, Eip,
    InternetGateway, Key, LaunchTemplate, LogGroup, NatGateway, NodeGroup, OpenIdConnectProvider,
    PodIdentityAssociation, Policy, Role, RolePolicy, RolePolicyAttachment, Route, RouteTable,
    RouteTableAssociation, SecurityGroup, SecurityGroupEgressRule, SecurityGroupIngressRule, Subnet,
    Tag, Volume, Vpc, VpcEndpoint,
)  # fmt: skip


def settings_for(environment: Mapping[str, str], faults: Faults) -> ProviderSettings:
    """The provider for the API that `AWS_ENDPOINT_URL` names."""
    api = Api(environment)

    def caller(config: Config, arguments: Mapping[str, Any]) -> dict[str, Any]:
        api.open(config)
        row = api.client("sts").get_caller_identity()
        number = row["Account"]
        return {"accountId": number, "arn": row["Arn"], "userId": row["UserId"], "id": number}

    return ProviderSettings(
        package="aws",
        handlers={kind.token: kind(api) for kind in _KINDS},
        functions={
            "aws:index/getCallerIdentity:getCallerIdentity": caller,
            "aws:index/getPartition:getPartition": _partition,
        },
        faults=faults,
        check_config=check_config,
    )


def _partition(config: Config, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "partition": "aws",
        "dnsSuffix": "amazonaws.com",
        "reverseDnsPrefix": "com.amazonaws",
        "id": "aws",
    }
