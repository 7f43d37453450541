"""An EKS cluster that existed before the stack, as its owner created it."""

import json
from typing import Any
from unittest.mock import patch

from gpu_cluster.rehearsal.simulators.aws.access import ENTRIES
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.addons import ADDONS
from gpu_cluster.rehearsal.simulators.aws.clusters import create_cluster
from gpu_cluster.rehearsal.simulators.aws.node_groups import create_nodegroup
from gpu_cluster.rehearsal.simulators.aws.pod_identity import ASSOCIATIONS
from gpu_cluster.rehearsal.simulators.inventory import EksCluster

_EC2 = "ec2.amazonaws.com"
_MANAGED = "arn:aws:iam::aws:policy/"
_NODES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryReadOnly", "AmazonEKS_CNI_Policy")
"""terraform-aws-modules/terraform-aws-eks modules/eks-managed-node-group/main.tf (bef29c4)."""
_AUTO_MODE = (
    *("AmazonEKSComputePolicy", "AmazonEKSBlockStoragePolicy"),
    *("AmazonEKSLoadBalancingPolicy", "AmazonEKSNetworkingPolicy"),
)
_AUTO_NODES = ("AmazonEKSWorkerNodeMinimalPolicy", "AmazonEC2ContainerRegistryPullOnly")
"""terraform-aws-modules/terraform-aws-eks main.tf, `eks_auto` (read 2026-11-24)."""
_LATE = ("coredns",)
"""Addons that wait for nodes."""


def lay_out(account: Account, cluster: EksCluster) -> None:
    """Creates the cluster with roles, security groups, addons, node groups and pod identities."""
    ec2, name = account.client("ec2"), cluster.name
    subnets = list(cluster.subnets)
    vpc = ec2.describe_subnets(SubnetIds=subnets)["Subnets"][0]["VpcId"]
    groups = [_security_group(ec2, vpc, group, f"{name}-node") for group in cluster.security_groups]
    create_cluster(
        account,
        {
            "name": name,
            "version": cluster.version,
            "roleArn": _role(account, f"{name}-cluster", "eks.amazonaws.com",
                             "AmazonEKSClusterPolicy",
                             *(() if cluster.auto_mode is None else _AUTO_MODE)),
            "resourcesVpcConfig": {
                "subnetIds": subnets,
                "endpointPrivateAccess": True,
                # The module's own group for the control plane, which admits its nodes' group.
                "securityGroupIds": groups,
            },
            # The user who rehearses is assumed to be the creator, whom EKS makes an administrator.
            "accessConfig": {"authenticationMode": cluster.authentication_mode},
            "bootstrapSelfManagedAddons": False,
            **_auto_mode(account, cluster),
        },
    )  # fmt: skip
    for addon in sorted(cluster.addons, key=lambda name: name in _LATE):
        values = cluster.addon_configuration.get(addon)
        given = {} if values is None else {"configurationValues": json.dumps(values)}
        ADDONS.create(account, {"clusterName": name, "addonName": addon, **given})
    nodes = _role(account, f"{name}-node", _EC2, *_NODES)
    launched = cluster.karpenter_node_role
    roles = [nodes, *([_role(account, launched, _EC2, *_NODES)] if launched else [])]
    for role in roles if cluster.authentication_mode != "CONFIG_MAP" else ():
        entry = {"clusterName": name, "principalArn": role, "type": "EC2_LINUX"}
        ENTRIES.add(account, entry)
    for group, row in cluster.node_groups.items():
        template = ec2.create_launch_template(
            LaunchTemplateName=f"{name}-{group}",
            LaunchTemplateData={"SecurityGroupIds": groups} if groups else {},
        )["LaunchTemplate"]["LaunchTemplateId"]
        size = row["nodes"]
        create_nodegroup(
            account,
            {
                "clusterName": name,
                "nodegroupName": group,
                "subnets": subnets,
                "nodeRole": nodes,
                "instanceTypes": [row["instanceType"]],
                "launchTemplate": {"id": template, "version": "1"},
                "scalingConfig": {"minSize": size, "maxSize": size, "desiredSize": size},
                "labels": {},
            },
        )
    for pod, actions in cluster.pod_identities.items():
        namespace, _, service_account = pod.partition("/")
        role = _role(account, f"{name}-{service_account}", "pods.eks.amazonaws.com", can=actions)
        given = {"clusterName": name, "namespace": namespace, "serviceAccount": service_account}
        ASSOCIATIONS.add(account, {**given, "roleArn": role})


def _auto_mode(account: Account, cluster: EksCluster) -> dict[str, Any]:
    """The three settings that turn it on; its role only for the built-in node pools."""
    if cluster.auto_mode is None:
        return {}
    compute: dict[str, Any] = {"enabled": True}
    if cluster.auto_mode:
        role = _role(account, f"{cluster.name}-eks-auto", _EC2, *_AUTO_NODES)
        compute |= {"nodePools": list(cluster.auto_mode), "nodeRoleArn": role}
    return {
        "computeConfig": compute,
        "storageConfig": {"blockStorage": {"enabled": True}},
        "kubernetesNetworkConfig": {"elasticLoadBalancing": {"enabled": True}},
    }


def _role(account: Account, name: str, service: str, *managed: str, can: Any = ()) -> str:
    iam = account.client("iam")
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": service},
                "Action": ["sts:AssumeRole", "sts:TagSession"],
            }
        ],
    }
    arn: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"][
        "Arn"
    ]
    for policy in managed:
        iam.attach_role_policy(RoleName=name, PolicyArn=f"{_MANAGED}{policy}")
    if can:
        statement = {"Effect": "Allow", "Action": list(can), "Resource": "*"}
        document = {"Version": "2012-10-17", "Statement": [statement]}
        iam.put_role_policy(RoleName=name, PolicyName=name, PolicyDocument=json.dumps(document))
    return arn


def _security_group(ec2: Any, vpc: str, identity: str, name: str) -> str:
    # With the ID that others use, which moto's API does not let a caller choose.
    with patch("moto.ec2.models.security_groups.random_security_group_id", return_value=identity):
        ec2.create_security_group(GroupName=f"{name}-{identity}", Description=name, VpcId=vpc)
    # All traffic between the nodes, so that pods reach the cluster's DNS.
    ec2.authorize_security_group_ingress(
        GroupId=identity,
        IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": identity}]}],
    )
    return identity
