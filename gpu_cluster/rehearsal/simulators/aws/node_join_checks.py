"""Whether nodes of a node group can join their cluster, and leave it cleanly: roles, CNI, routes.

EC2 and IAM allow these to be removed while nodes run, which then neither work nor terminate: the
node group's deletion hangs on network interfaces that cannot be detached. Such a removal is
therefore refused here.
"""

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.eks import subnets
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.aws.roles import lacks, role_name
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster, Group

_WORK = ("eks-auth:AssumeRoleForPodIdentity",)
"""Actions that both AmazonEKSWorkerNodePolicy and AmazonEKSWorkerNodeMinimalPolicy allow."""
_PULL = ("ecr:GetAuthorizationToken", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
_NETWORK = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:AttachNetworkInterface",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DetachNetworkInterface",
)
_CONTROL = ("ec2:DescribeSubnets", "ec2:DescribeNetworkInterfaces", "ec2:CreateSecurityGroup")
_CALLED = (".ec2", ".ecr.api", ".ecr.dkr", ".eks", ".eks-auth", ".sts")
"""Services that a node calls before it is ready (EKS user guide private-clusters, 2026-11-24)."""
_ANYWHERE = "0.0.0.0/0"
_KUBELET = 10250
_CNI_ACCOUNT = ("kube-system", "aws-node")
_CODES = {"iam": "DeleteConflict", "eks": "InvalidRequestException"}
"""Service -> its error code for the refusal of a change that would break another resource."""


def why_nodes_fail(account: Account, cluster: Cluster, group: Mapping[str, Any]) -> str | None:
    """Why nodes of this node group (a row) would never become ready; None if they would."""
    return (
        why_role_fails(account, cluster, group)
        or _why_no_way_out(account, group["subnets"])
        or _why_endpoint_closed(account, cluster, group["subnets"])
    )


def why_role_fails(account: Account, cluster: Cluster, group: Mapping[str, Any]) -> str | None:
    """Why nodes with this role would not become ready, and would leave network interfaces."""
    role = group["nodeRole"]
    name = role_name(role)
    if missing := lacks(account, role, _WORK):
        return (
            f"the node role {name} may not {missing[0]}: attach AmazonEKSWorkerNodePolicy before "
            "the node group is created"
        )
    if missing := lacks(account, role, _PULL):
        return (
            f"the node role {name} may not {missing[0]}: attach AmazonEC2ContainerRegistryPullOnly "
            "before the node group is created"
        )
    return None if group.get("automatic") else _why_no_network(account, cluster, role)


def _why_no_network(account: Account, cluster: Cluster, node_role: str) -> str | None:
    addon = cluster.addons.get("vpc-cni")
    if addon is None and not cluster.self_managed:
        return (
            "container runtime network not ready: cni plugin not initialized: the cluster has no "
            "vpc-cni addon"
        )
    role, whose = node_role, "the node role"
    if association := cluster.association(*_CNI_ACCOUNT):
        if "eks-pod-identity-agent" not in cluster.addons:
            return (
                "the vpc-cni has its role by pod identity, but the cluster has no "
                "eks-pod-identity-agent addon"
            )
        role, whose = association["roleArn"], "the vpc-cni's role"
    elif addon and addon.get("serviceAccountRoleArn"):
        role, whose = addon["serviceAccountRoleArn"], "the vpc-cni's role"
    if missing := lacks(account, role, _NETWORK):
        return f"{whose} {role_name(role)} may not {missing[0]}: attach AmazonEKS_CNI_Policy"
    return None


def _why_no_way_out(account: Account, ids: Sequence[str]) -> str | None:
    tables = list(account.backend("ec2").route_tables.values())
    for subnet in subnets(account, ids):
        own = [t for t in tables if any(a.get("SubnetId") == subnet.id for a in t.associations)]
        main = [t for t in tables if t.main_association_id and t.vpc_id == subnet.vpc_id]
        for table in (own or main)[:1]:
            if not any(
                route.destination_cidr_block == _ANYWHERE
                and (route.nat_gateway or (route.gateway and subnet.map_public_ip_on_launch))
                for route in table.routes
            ):
                return (
                    f"the subnet {subnet.id} has no route to the internet: its route table "
                    f"{table.id} leads to no NAT gateway"
                )
    return None


def _why_endpoint_closed(account: Account, cluster: Cluster, ids: Sequence[str]) -> str | None:
    """Nodes use an interface endpoint with private names for the service, whether or not its
    security groups admit them."""
    ec2 = account.backend("ec2")
    for endpoint in ec2.vpc_end_points.values():
        if not endpoint.private_dns_enabled or endpoint.state != "available":
            continue
        if not endpoint.service_name.endswith(_CALLED):
            continue
        rules = _rules(account, endpoint.security_group_ids, "ingress_rules")
        for subnet in subnets(account, ids):
            if subnet.vpc_id == endpoint.vpc_id and not any(
                _admits(rule, subnet.cidr_block, [cluster.security_group]) for rule in rules
            ):
                return (
                    f"nodes in {subnet.id} do not reach {endpoint.service_name}: no security group "
                    f"of the endpoint {endpoint.id} lets {subnet.cidr_block} in at port 443"
                )
    return None


def why_unreachable(account: Account, cluster: Cluster, group: Group) -> str:
    """Why nodes with the launch template's security groups cannot call the cluster's API server, or
    in a rehearsal why it cannot call their kubelets; empty if they can. Membership in the cluster's
    own group is one way, rules between any groups are another (EKS user guide, launch-templates,
    "Using custom security groups", and sec-group-reqs).

    With private access, the name resolves to the control plane's interfaces; without it, to public
    addresses (EKS user guide, cluster-endpoint). Nodes become ready without a way to their kubelet,
    but logs, exec and metrics do not work.
    """
    names = group.data.get("SecurityGroupIds") or [
        name
        for interface in (group.data.get("NetworkInterfaces") or [])[:1]
        for name in interface.get("Groups") or []
    ]
    if not names:
        return ""  # EKS attaches the cluster's own group.
    config = cluster.row["resourcesVpcConfig"]
    nodes = _Side(names, [subnet.cidr_block for subnet in subnets(account, group.row["subnets"])])
    control = _Side(
        [cluster.security_group, *config["securityGroupIds"]],
        [subnet.cidr_block for subnet in subnets(account, config["subnetIds"])],
    )
    if not config["endpointPrivateAccess"]:
        public = _Side([], [_ANYWHERE])
        why = _why_closed(account, "egress", nodes, public, 443)
    else:
        why = _why_closed(account, "egress", nodes, control, 443)
        why = why or _why_closed(account, "ingress", control, nodes, 443)
    if why:
        return f"nodes do not reach the cluster's endpoint: {why}"
    if account.rehearsed and (
        why := _why_closed(account, "egress", control, nodes, _KUBELET)
        or _why_closed(account, "ingress", nodes, control, _KUBELET)
    ):
        return f"the control plane does not reach the nodes' kubelets: {why}"
    return ""


@dataclass(frozen=True, slots=True)
class _Side:
    """One end of a connection: its security groups, and the blocks of its subnets."""

    groups: Sequence[str]
    blocks: Sequence[str]


def _why_closed(account: Account, way: str, side: _Side, other: _Side, port: int) -> str:
    """Why no rule of the first side's groups admits the port with all of the other's subnets."""
    rules = _rules(account, side.groups, f"{way}_rules")
    for block in other.blocks:
        if not any(_admits(rule, block, other.groups, port) for rule in rules):
            peers = " or ".join([*other.groups, block])
            into = "out to" if way == "egress" else "in from"
            return f"no rule of {', '.join(side.groups)} lets port {port} {into} {peers}"
    return ""


def _rules(account: Account, names: Sequence[str], kind: str) -> list[Any]:
    ec2 = account.backend("ec2")
    groups = [ec2.get_security_group_from_id(name) for name in names]
    return [rule for group in groups if group for rule in getattr(group, kind)]


def _admits(rule: Any, block: str, groups: Sequence[str], port: int = 443) -> bool:
    """Whether a security group's rule admits the TCP port, with the block or one of the groups."""
    if rule.ip_protocol != "-1" and not (
        rule.ip_protocol == "tcp" and int(rule.from_port) <= port <= int(rule.to_port)
    ):
        return False
    source = rule.ip_range.get("CidrIp")
    return rule.source_group.get("GroupId") in groups or (
        source is not None and ipaddress.IPv4Network(block).subnet_of(ipaddress.IPv4Network(source))
    )


def why_cluster_fails(account: Account, role: str) -> str | None:
    """Why a control plane could not work with this role; None if it could."""
    if missing := lacks(account, role, _CONTROL):
        return (
            f"the cluster's role {role_name(role)} may not {missing[0]}: attach "
            "AmazonEKSClusterPolicy"
        )
    return None


@contextmanager
def guarded(account: Account, *, undo: Callable[[], object]) -> Iterator[None]:
    """Undoes the change inside the context and raises Refusal if a node group or cluster breaks.
    An account that is not rehearsed does what AWS does, and accepts it."""
    if not account.rehearsed:
        yield
        return
    before = _broken(account)
    yield
    for what, reason in _broken(account).items():
        if what not in before:
            undo()
            raise Refusal(
                _CODES.get(account.asking.response.boto3_service_name, "DependencyViolation"),
                f"AWS would do this, but the {what} still needs it and could not be deleted "
                f"afterwards ({reason}): delete the {what} first",
            )


def _broken(account: Account) -> dict[str, str]:
    found = {}
    for name, group in account.groups.items():
        if reason := why_nodes_fail(account, account.clusters[group.cluster], group.row):
            found[f"node group '{name}'"] = reason
    for name, cluster in account.clusters.items():
        if reason := why_cluster_fails(account, cluster.row["roleArn"]):
            found[f"cluster '{name}'"] = reason
    return found
