"""Reads an existing EKS cluster for its inventory; changes nothing in AWS.

It queries EKS (the cluster, its addons, node groups and pod identities), EC2 (subnets, route
tables, the nodes' security groups) and IAM (what the roles of pods allow).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import botocore.exceptions
import yaml

from gpu_cluster.components.eks.existing_args import EksExistingClusterArgs
from gpu_cluster.components.eks.settings import EksSettings
from gpu_cluster.components.lifecycle.ownership import AWS_TAG
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.aws_session import session
from gpu_cluster.stacks.capacity.aws_account import unknown
from gpu_cluster.stacks.capacity.aws_existing import (
    kubeconfig_of,
    node_groups,
    security_groups_of_nodes,
)
from gpu_cluster.stacks.capacity.aws_network import route_tables, way_out
from gpu_cluster.stacks.outcome import CheckError

Read = tuple[dict[str, Any], str]
"""The keys of an inventory, and a kubeconfig of the cluster."""


def read_inventory(
    settings: Settings[EksSettings], owner: str, endpoint: str | None = None
) -> Read:
    """Describes the cluster from the account. `owner`: the stack, `<project>/<stack>`, whose own
    node groups are omitted; `endpoint`: a simulator's URL. Raises CheckError."""
    own = settings.own
    try:
        signed_in = session(own.provider, endpoint)
        eks, ec2, iam = (
            signed_in.client(name, endpoint_url=endpoint) for name in ("eks", "ec2", "iam")
        )
        row = eks.describe_cluster(name=own.cluster.name)["cluster"]
        return {**_network(ec2, row, own), "cluster": _cluster(eks, ec2, iam, row, own, owner)}, (
            kubeconfig_of(eks, own)
        )
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        raise CheckError(unknown(error).reason) from None


def _network(ec2: Any, row: Mapping[str, Any], own: EksSettings) -> dict[str, Any]:
    pools = [place for pool in own.pools.values() for place in pool.places]
    wanted = [*row["resourcesVpcConfig"]["subnetIds"], *own.cluster.network.places, *pools]
    subnets = ec2.describe_subnets(SubnetIds=list(dict.fromkeys(wanted)))["Subnets"]
    vpc = row["resourcesVpcConfig"]["vpcId"]
    tables = route_tables(ec2, vpc)
    (found,) = ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"]
    first = found["CidrBlock"]
    more = [
        block["CidrBlock"]
        for block in found.get("CidrBlockAssociationSet", ())
        if block["CidrBlockState"]["State"] == "associated" and block["CidrBlock"] != first
    ]
    return {
        "vpc": [first, *more] if more else first,
        "subnets": {
            subnet["SubnetId"]: {
                "zone": subnet["AvailabilityZone"],
                "cidr": subnet["CidrBlock"],
                "out": way_out(subnet, tables),
                **({"public": True} if subnet["MapPublicIpOnLaunch"] else {}),
            }
            for subnet in subnets
        },
    }


def _cluster(
    eks: Any, ec2: Any, iam: Any, row: Mapping[str, Any], own: EksSettings, owner: str
) -> dict[str, Any]:
    name = row["name"]
    mode = (row.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
    pages = eks.get_paginator("list_addons").paginate(clusterName=name)
    addons = [addon for page in pages for addon in page["addons"]]
    configured = {
        addon: yaml.safe_load(values)
        for addon in addons
        if (
            values := eks.describe_addon(clusterName=name, addonName=addon)["addon"].get(
                "configurationValues"
            )
        )
    }
    groups = {
        group["nodegroupName"]: {
            "instanceType": _type(ec2, group),
            "nodes": group["scalingConfig"]["desiredSize"],
        }
        for group in node_groups(eks, name)
        if (group.get("tags") or {}).get(AWS_TAG) != owner
    }
    of_eks = row["resourcesVpcConfig"]["clusterSecurityGroupId"]
    compute = row.get("computeConfig") or {}
    args = own.cluster
    assert isinstance(args, EksExistingClusterArgs)
    named = set(args.network.security_group_ids)
    return {
        "version": row["version"],
        "authenticationMode": mode,
        **({"autoMode": compute.get("nodePools") or []} if compute.get("enabled") else {}),
        # A rehearsed EKS creates its own, but not with the ID that the settings may name.
        "securityGroups": sorted((security_groups_of_nodes(ec2, name) - {of_eks}) | named),
        "addons": addons,
        **({"addonConfiguration": configured} if configured else {}),
        "nodeGroups": groups,
        "podIdentities": _pod_identities(eks, iam, name, owner),
    }


def _type(ec2: Any, group: Mapping[str, Any]) -> str:
    """The first instance type of a node group, which may be set in its launch template instead."""
    if types := group.get("instanceTypes"):
        return str(types[0])
    template = group["launchTemplate"]
    (version,) = ec2.describe_launch_template_versions(
        LaunchTemplateId=template["id"], Versions=[template["version"]]
    )["LaunchTemplateVersions"]
    return str(version["LaunchTemplateData"]["InstanceType"])


def _pod_identities(eks: Any, iam: Any, name: str, owner: str) -> dict[str, list[str]]:
    pages = eks.get_paginator("list_pod_identity_associations").paginate(clusterName=name)
    found = {}
    for row in (item for page in pages for item in page["associations"]):
        association = eks.describe_pod_identity_association(
            clusterName=name, associationId=row["associationId"]
        )["association"]
        if (association.get("tags") or {}).get(AWS_TAG) != owner:
            role = association["roleArn"].rpartition("/")[2]
            found[f"{row['namespace']}/{row['serviceAccount']}"] = _actions(iam, role)
    return found


def _actions(iam: Any, role: str) -> list[str]:
    """The actions that a role's policies allow, on any resources."""
    pages = iam.get_paginator("list_role_policies").paginate(RoleName=role)
    documents = [
        iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
        for page in pages
        for policy in page["PolicyNames"]
    ]
    for page in iam.get_paginator("list_attached_role_policies").paginate(RoleName=role):
        for policy in page["AttachedPolicies"]:
            arn = policy["PolicyArn"]
            version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
            shown = iam.get_policy_version(PolicyArn=arn, VersionId=version)
            documents.append(shown["PolicyVersion"]["Document"])
    statements = [
        statement for document in documents for statement in _listed(document["Statement"])
        if statement["Effect"] == "Allow"
    ]  # fmt: skip
    return sorted({action for rule in statements for action in _listed(rule.get("Action", ()))})


def _listed(value: Any) -> Iterable[Any]:
    return [value] if isinstance(value, str | Mapping) else value
