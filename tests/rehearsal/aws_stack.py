"""A small stack on the simulated AWS, to build tests on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpu_cluster.rehearsal.plugins.aws import settings_for
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.simulators.aws import AwsCloud
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup, Scaler
from gpu_cluster.stacks.engine.urn import Urn
from tests.unit.plugins.offline_engine import Engine, Plane

VPC, SUBNET = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet"
GATEWAY = "aws:ec2/internetGateway:InternetGateway"
EIP, NAT = "aws:ec2/eip:Eip", "aws:ec2/natGateway:NatGateway"
TABLE, ROUTE = "aws:ec2/routeTable:RouteTable", "aws:ec2/route:Route"
ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
ROLE, ROLE_POLICY = "aws:iam/role:Role", "aws:iam/rolePolicy:RolePolicy"
ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
CLUSTER, GROUP, ADDON = (
    "aws:eks/cluster:Cluster",
    "aws:eks/nodeGroup:NodeGroup",
    "aws:eks/addon:Addon",
)
ENTRY = "aws:eks/accessEntry:AccessEntry"
ACCESS = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
IDENTITY = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
KEY, LOGS, TAG = "aws:kms/key:Key", "aws:cloudwatch/logGroup:LogGroup", "aws:autoscaling/tag:Tag"

ADMIN = "arn:aws:iam::123456789012:role/admin"
ADMIN_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
POD_TRUST = ("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession")
SCALE = {
    "Effect": "Allow",
    "Action": ["autoscaling:Describe*", "ec2:Describe*", "autoscaling:SetDesiredCapacity",
        "autoscaling:TerminateInstanceInAutoScalingGroup"],
    "Resource": "*",
}  # fmt: skip


def trust(service: str, *actions: str) -> str:
    """A trust policy for one service."""
    return document({
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": list(actions or ["sts:AssumeRole"]),
    })  # fmt: skip


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


class AwsStack(Engine):
    """`k8s-ml` in us-east-1, with quotas that tests may set."""

    def __init__(self, quota: dict[str, int] | None = None, **config: Any) -> None:
        self.subnets: list[str] = []
        self.held: list[str] = []
        self.plane = Plane()
        self.faults = Faults(quota=quota or {})
        self.cloud = AwsCloud(control_plane=self.plane, faults=self.faults)
        settings = settings_for({"AWS_ENDPOINT_URL": self.cloud.endpoint}, self.faults)
        super().__init__(settings, {"region": "us-east-1", **config})

    def role(self, name: str, service: str, *policies: str) -> str:
        """A role that a service may take, with AWS's policies attached; its ARN."""
        words = POD_TRUST if service == POD_TRUST[0] else (service,)
        role = self.up(ROLE, name, {"name": name, "assumeRolePolicy": trust(*words)})
        for policy in policies:
            arn = f"arn:aws:iam::aws:policy/{policy}"
            self.up(ATTACHMENT, f"{name}-{policy}", {"role": name, "policyArn": arn})
        return str(role["arn"])

    def network(self, zones: tuple[str, ...] = ("us-east-1a", "us-east-1b")) -> list[str]:
        """A VPC with a private subnet in each zone, and NAT; the private subnets' ids."""
        vpc = self.id(VPC, "net", {"cidrBlock": "10.0.0.0/16"})
        gateway = self.id(GATEWAY, "net", {"vpcId": vpc})
        public = self.id(SUBNET, "public", {"vpcId": vpc, "cidrBlock": "10.0.255.0/28"})
        tables = {name: self.id(TABLE, name, {"vpcId": vpc}) for name in ("public", "private")}
        route = {"destinationCidrBlock": "0.0.0.0/0"}
        self.up(ROUTE, "public", {"routeTableId": tables["public"], "gatewayId": gateway} | route)
        self.up(ASSOCIATION, "public", {"routeTableId": tables["public"], "subnetId": public})
        address = self.id(EIP, "nat", {"domain": "vpc"})
        nat = self.id(NAT, "nat", {"subnetId": public, "allocationId": address})
        self.up(ROUTE, "private", {"routeTableId": tables["private"], "natGatewayId": nat} | route)
        subnets = []
        for number, zone in enumerate(zones):
            block = {"cidrBlock": f"10.0.{number}.0/24", "availabilityZone": zone}
            subnets.append(self.id(SUBNET, zone, {"vpcId": vpc} | block))
            joined = {"routeTableId": tables["private"], "subnetId": subnets[-1]}
            self.up(ASSOCIATION, zone, joined)
        return subnets

    def id(self, token: str, name: str, inputs: dict[str, Any]) -> str:
        """Creates the resource; its id."""
        self.up(token, name, inputs)
        return self.state[self.urn(token, name)][0]

    def cluster(self, **changes: Any) -> list[str]:
        """The cluster with what nodes need of it; changes replace its properties."""
        subnets = self.network()
        self.role("control", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
        self.up(CLUSTER, "ml", cluster(subnets) | changes)
        self.role("cni", POD_TRUST[0], "AmazonEKS_CNI_Policy")
        self.up(ADDON, "agent", {"clusterName": "k8s-ml", "addonName": "eks-pod-identity-agent"})
        self.up(ADDON, "cni", {
            "clusterName": "k8s-ml",
            "addonName": "vpc-cni",
            "podIdentityAssociations": [
                {"roleArn": "arn:aws:iam::123456789012:role/cni", "serviceAccount": "aws-node"}
            ],
        })  # fmt: skip
        self.role(
            "nodes",
            "ec2.amazonaws.com",
            "AmazonEKSWorkerNodePolicy",
            "AmazonEC2ContainerRegistryPullOnly",
        )
        return subnets

    def group(self, subnets: list[str], **changes: Any) -> NodeGroup:
        """The node group `train-gpu` of T4s, at zero; changes replace its properties."""
        self.up(GROUP, "train-gpu", group(subnets) | changes)
        return next(each for each in self.cloud.node_groups() if each.name == "train-gpu")

    @property
    def scaling_group(self) -> str:
        """The Auto Scaling group's name, from the node group's outputs."""
        outputs = self.state[self.urn(GROUP, "train-gpu")][2]
        return str(outputs["resources"][0]["autoscalingGroups"][0]["name"])

    def tag(self, kind: str, key: str, value: str) -> None:
        """A tag for Cluster Autoscaler on the Auto Scaling group."""
        whole = f"k8s.io/cluster-autoscaler/node-template/{kind}/{key}"
        tag = {"key": whole, "value": value, "propagateAtLaunch": False}
        given = {"autoscalingGroupName": self.scaling_group, "tag": tag}
        self.up(TAG, f"{kind}-{key}", given)

    def autoscaler(self, *statements: dict[str, Any]) -> None:
        """A role for the service account `kube-system/cluster-autoscaler`."""
        arn = self.role("autoscaler", POD_TRUST[0])
        policy = document(*(statements or (SCALE,)))
        self.up(ROLE_POLICY, "autoscaler", {"role": "autoscaler", "name": "p", "policy": policy})
        self.up(IDENTITY, "autoscaler", {
            "clusterName": "k8s-ml",
            "namespace": "kube-system",
            "serviceAccount": "cluster-autoscaler",
            "roleArn": arn,
        })  # fmt: skip

    def destroy(self) -> None:
        """Deletes everything, in the reverse order of its creation."""
        for urn in reversed(list(self.state)):
            made = Urn.parse(urn)
            self.delete(made.type, made.name)


def cluster(subnets: list[str], **changes: Any) -> dict[str, Any]:
    return {
        "name": "k8s-ml",
        "roleArn": "arn:aws:iam::123456789012:role/control",
        "version": "1.35",
        "vpcConfig": {"subnetIds": subnets, "endpointPrivateAccess": True},
        "accessConfig": {
            "authenticationMode": "API",
            "bootstrapClusterCreatorAdminPermissions": False,
        },
        "bootstrapSelfManagedAddons": False,
    } | changes


def group(subnets: list[str], **changes: Any) -> dict[str, Any]:
    return {
        "clusterName": "k8s-ml",
        "nodeGroupName": "train-gpu",
        "nodeRoleArn": "arn:aws:iam::123456789012:role/nodes",
        "subnetIds": subnets,
        "instanceTypes": ["g4dn.xlarge"],
        "amiType": "AL2023_x86_64_NVIDIA",
        "scalingConfig": {"minSize": 0, "maxSize": 2, "desiredSize": 0},
        "labels": {"role": "train-gpu"},
        "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
    } | changes


AUTOSCALER = Scaler(
    namespace="kube-system",
    service_account="cluster-autoscaler",
    discovers=(("k8s.io/cluster-autoscaler/enabled", "k8s.io/cluster-autoscaler/k8s-ml=owned"),),
)


@contextmanager
def stack(quota: dict[str, int] | None = None, **config: Any) -> Iterator[AwsStack]:
    """A stack on an empty account, which ends with it."""
    made = AwsStack(quota, **config)
    try:
        yield made
    finally:
        made.cloud.close()


@pytest.fixture
def fresh() -> Iterator[AwsStack]:
    """A stack on an empty account."""
    with stack() as made:
        yield made
