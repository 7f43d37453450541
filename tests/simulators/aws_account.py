"""An account on the simulated AWS, filled by boto3 as any client would."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import boto3

from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.simulators.aws import AwsCloud
from gpu_cluster.rehearsal.simulators.aws.account import Existing
from gpu_cluster.rehearsal.simulators.inventory import EksCluster, Network
from gpu_cluster.rehearsal.simulators.reservations import Reservation
from tests.unit.plugins.offline_engine import Plane

NUMBER = "123456789012"
POLICIES = {
    "control": ("AmazonEKSClusterPolicy",),
    "nodes": (
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonEKS_CNI_Policy",
    ),
}
TRUSTS = {
    "control": ("eks.amazonaws.com", ["sts:AssumeRole"]),
    "nodes": ("ec2.amazonaws.com", ["sts:AssumeRole"]),
    "team/admin": ("ec2.amazonaws.com", ["sts:AssumeRole"]),
    "pods": ("pods.eks.amazonaws.com", ["sts:AssumeRole", "sts:TagSession"]),
}


def role(name: str) -> str:
    return f"arn:aws:iam::{NUMBER}:role/{name}"


class Account:
    """The cluster `ml` in us-east-1, with what its nodes need."""

    def __init__(
        self,
        reservations: Sequence[Reservation] = (),
        existing: Network | None = None,
        cluster: EksCluster | None = None,
        rehearsed: bool = True,
    ) -> None:
        self.faults = Faults()
        self.plane = Plane()
        self.cloud = AwsCloud(
            control_plane=self.plane,
            faults=self.faults,
            existing=Existing(network=existing, cluster=cluster, reservations=reservations),
            rehearsed=rehearsed,
        )
        self.clients: dict[str, Any] = {}
        self.subnets: list[str] = []

    def __getattr__(self, service: str) -> Any:
        """A boto3 client over HTTP: `account.eks`."""
        if service not in self.clients:
            self.clients[service] = self.client(service.replace("_", "-"), "anybody")
        return self.clients[service]

    def client(self, service: str, key: str) -> Any:
        """That of whoever has this access key."""
        return boto3.client(
            service,  # type: ignore[call-overload]
            region_name="us-east-1",
            endpoint_url=self.cloud.endpoint,
            aws_access_key_id=key,
            aws_secret_access_key="anything",
        )

    def network(self) -> None:
        """A VPC with two public subnets."""
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        gateway = self.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        self.ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        table = self.ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
        self.ec2.create_route(
            RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway
        )
        for number, zone in enumerate("ab"):
            subnet = self.ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=f"us-east-1{zone}"
            )["Subnet"]["SubnetId"]
            self.ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
            self.ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
            self.subnets.append(subnet)

    def roles(self) -> None:
        """Those of control plane, nodes and pods."""
        for name, (service, actions) in TRUSTS.items():
            statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": actions}
            document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
            path, _, last = f"/{name}".rpartition("/")
            self.iam.create_role(Path=f"{path}/", RoleName=last, AssumeRolePolicyDocument=document)
            for policy in POLICIES.get(name, ()):
                self.iam.attach_role_policy(
                    RoleName=name, PolicyArn=f"arn:aws:iam::aws:policy/{policy}"
                )

    def cluster(self) -> None:
        """Returns when it is active."""
        self.network()
        self.roles()
        self.eks.create_cluster(
            name="ml",
            roleArn=role("control"),
            resourcesVpcConfig={"subnetIds": self.subnets},
            accessConfig={"authenticationMode": "API"},
        )
        waiter = self.eks.get_waiter("cluster_active")
        waiter.wait(name="ml", WaiterConfig={"Delay": 1})

    def group(self, name: str, **changes: Any) -> dict[str, Any]:
        """A node group of T4s from zero to two; its description."""
        self.eks.create_nodegroup(**({
            "clusterName": "ml",
            "nodegroupName": name,
            "nodeRole": role("nodes"),
            "subnets": self.subnets,
            "instanceTypes": ["g4dn.xlarge"],
            "scalingConfig": {"minSize": 0, "maxSize": 2, "desiredSize": 0},
            "labels": {"role": name},
        } | changes))  # fmt: skip
        return self.described(name)

    def described(self, name: str) -> dict[str, Any]:
        row: dict[str, Any] = self.eks.describe_nodegroup(clusterName="ml", nodegroupName=name)[
            "nodegroup"
        ]
        return row


@contextmanager
def account(reservations: Sequence[Reservation] = (), **existing: Any) -> Iterator[Account]:
    """An account with reservations and what else exists before, which ends with it."""
    made = Account(reservations, **existing)
    try:
        yield made
    finally:
        made.cloud.close()
