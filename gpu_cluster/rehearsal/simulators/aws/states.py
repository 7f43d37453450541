"""The states of an account's resources, by their line in `list_resources`, to find changes to
another owner's resources."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.eks import bounds, group_tags


def states(account: Account) -> Mapping[str, str]:
    """Line -> state, without what changes automatically: health, and the number of nodes."""
    return {
        line: json.dumps(state, sort_keys=True, default=str) for line, state in _states(account)
    }


def _states(account: Account) -> Iterator[tuple[str, Any]]:
    for name, cluster in account.clusters.items():
        yield f"cluster {name}", cluster.row
        yield from ((f"addon {name}:{key}", row) for key, row in cluster.addons.items())
        yield from (
            (f"access entry {name}:{key}", [row, cluster.policies.get(key)])
            for key, row in cluster.entries.items()
        )
        yield from (
            (f"pod identity association {name}:{row['namespace']}/{row['serviceAccount']}", row)
            for row in cluster.associations.values()
        )
        for key, group in cluster.groups.items():
            tags = group_tags(account, group.scaling_group)
            yield f"node group {name}:{key}", [group.row, bounds(account, group), tags]
    ec2, iam = account.client("ec2"), account.client("iam")
    for row in ec2.describe_security_groups()["SecurityGroups"]:
        yield f"security group {row['GroupId']} ({row['GroupName']})", row
    for row in ec2.describe_subnets()["Subnets"]:
        yield f"subnet {row['SubnetId']}", row.get("Tags")
    for row in ec2.describe_route_tables()["RouteTables"]:
        yield f"route table {row['RouteTableId']}", [row["Routes"], row.get("Tags")]
    for row in ec2.describe_launch_templates()["LaunchTemplates"]:
        yield f"launch template {row['LaunchTemplateName']}", row["LatestVersionNumber"]
    for role in iam.list_roles()["Roles"]:
        name = role["RoleName"]
        attached = iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
        inline = iam.list_role_policies(RoleName=name)["PolicyNames"]
        yield f"role {name}", [role["AssumeRolePolicyDocument"], attached, inline]
