"""EKS: what stands before what, so that destroying it needs no waiting and leaves nothing."""

from typing import Any

import pytest

from tests.program.environments import recorded, values_of, with_changes

GPU_GROUP = "aws:eks/nodeGroup:NodeGroup::train-gpu"
SYSTEM_GROUP = "aws:eks/nodeGroup:NodeGroup::k8s-ml-system"
CLUSTER = "aws:eks/cluster:Cluster::k8s-ml"
JOB = "kubernetes:batch/v1:Job::sample-gpu-job"
AUTOSCALER = "kubernetes:apps/v1:Deployment::cluster-autoscaler"


@pytest.fixture(scope="module")
def outlived_by() -> dict[str, frozenset[str]]:
    return _outlived_by(values_of("train"))


def _outlived_by(values: dict[str, Any]) -> dict[str, frozenset[str]]:
    """Resource -> all that must stand before it, and is deleted after it; `type::name` each."""
    recording = recorded(values)
    return {resource.key: recording.before(resource) for resource in recording.resources}


@pytest.mark.parametrize("group", [GPU_GROUP, SYSTEM_GROUP])
@pytest.mark.parametrize(
    "behind",
    [
        CLUSTER,
        "aws:iam/role:Role::k8s-ml-nodes",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment::k8s-ml-nodes-AmazonEKSWorkerNodePolicy",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment::"
        "k8s-ml-nodes-AmazonEC2ContainerRegistryPullOnly",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment::k8s-ml-vpc-cni-AmazonEKS_CNI_Policy",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment::"
        "k8s-ml-aws-ebs-csi-driver-AmazonEBSCSIDriverPolicyV2",
        "aws:eks/addon:Addon::k8s-ml-vpc-cni",
        "aws:eks/addon:Addon::k8s-ml-kube-proxy",
        "aws:eks/addon:Addon::k8s-ml-eks-pod-identity-agent",
        "aws:ec2/subnet:Subnet::k8s-ml-private-us-east-1a",
        "aws:ec2/subnet:Subnet::k8s-ml-private-us-east-1b",
        "aws:ec2/route:Route::k8s-ml-us-east-1a",
        "aws:ec2/route:Route::k8s-ml-public",
        "aws:ec2/natGateway:NatGateway::k8s-ml-us-east-1a",
        "aws:ec2/routeTableAssociation:RouteTableAssociation::k8s-ml-private-us-east-1b",
        "aws:ec2/internetGateway:InternetGateway::k8s-ml",
        "aws:ec2/vpc:Vpc::k8s-ml",
    ],
)
def test_nodes_go_before_what_they_stand_on(
    outlived_by: dict[str, frozenset[str]], group: str, behind: str
) -> None:
    """Roles, their policies, the CNI, subnets and the way out all outlive the node groups."""
    assert behind in outlived_by[group]


def test_gpu_nodes_do_not_wait_for_the_system_pool(outlived_by: dict[str, frozenset[str]]) -> None:
    """The node groups are made side by side, and coredns once the system nodes are there."""
    assert SYSTEM_GROUP not in outlived_by[GPU_GROUP]
    assert SYSTEM_GROUP in outlived_by["aws:eks/addon:Addon::k8s-ml-coredns"]


@pytest.mark.parametrize(
    "behind",
    [
        "aws:cloudwatch/logGroup:LogGroup::k8s-ml",
        "aws:kms/key:Key::k8s-ml",
        "aws:iam/rolePolicy:RolePolicy::k8s-ml-cluster",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment::k8s-ml-cluster-AmazonEKSClusterPolicy",
        "aws:ec2/subnet:Subnet::k8s-ml-private-us-east-1a",
    ],
)
def test_the_cluster_goes_before_what_it_uses(
    outlived_by: dict[str, frozenset[str]], behind: str
) -> None:
    """The cluster's role, key, log group and subnets outlive it."""
    assert behind in outlived_by[CLUSTER]


@pytest.mark.parametrize(
    "item", [JOB, AUTOSCALER, "kubernetes:apps/v1:DaemonSet::nvidia-device-plugin"]
)
def test_objects_in_the_cluster_outlive_neither_access_nor_nodes(
    outlived_by: dict[str, frozenset[str]], item: str
) -> None:
    """Access policy, system nodes, CNI and DNS are there as long as there are objects."""
    assert {
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation::"
        "k8s-ml-123456789012:role/deployer",
        "aws:eks/accessEntry:AccessEntry::k8s-ml-123456789012:role/deployer",
        "aws:eks/addon:Addon::k8s-ml-coredns",
        SYSTEM_GROUP,
        CLUSTER,
    } <= outlived_by[item]


def test_a_disk_goes_after_its_claim_and_before_its_driver() -> None:
    """The engine waits until the PersistentVolume is deleted, which is once the disk is detached:
    until then the driver has its addon, its rights and nodes for its pods."""
    behind = _outlived_by(
        with_changes(values_of("train"), [["gpu-cluster:volumeClaims", {"a": {"size": "1Gi"}}]])
    )
    claim, volume = (f"kubernetes:core/v1:{kind}::" for kind in (
        "PersistentVolumeClaim", "PersistentVolume"))  # fmt: skip
    assert {f"{volume}default.a", "aws:ebs/volume:Volume::claim-a"} <= behind[f"{claim}a"]
    assert {
        "aws:ebs/volume:Volume::claim-a",
        "aws:eks/addon:Addon::k8s-ml-aws-ebs-csi-driver",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment::"
        "k8s-ml-aws-ebs-csi-driver-AmazonEBSCSIDriverPolicyV2",
        SYSTEM_GROUP,
    } <= behind[f"{volume}default.a"]


def test_the_provider_is_configured_once_the_cluster_can_be_used(
    outlived_by: dict[str, frozenset[str]],
) -> None:
    """It looks once: by then the access entry has had the minutes that nodes take."""
    assert {
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation::"
        "k8s-ml-123456789012:role/deployer",
        SYSTEM_GROUP,
    } <= outlived_by["pulumi:providers:kubernetes::k8s-ml"]


def test_the_autoscaler_starts_with_its_credentials_and_rights(
    outlived_by: dict[str, frozenset[str]],
) -> None:
    """A pod that starts before its Pod Identity association never gets credentials."""
    assert {
        "aws:eks/podIdentityAssociation:PodIdentityAssociation::cluster-autoscaler",
        "aws:iam/rolePolicy:RolePolicy::k8s-ml-autoscaler",
        "kubernetes:core/v1:ServiceAccount::cluster-autoscaler",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding::cluster-autoscaler",
        "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding::cluster-autoscaler",
    } <= outlived_by[AUTOSCALER]


def test_the_autoscaler_s_identity_is_there_minutes_before_its_pod(
    outlived_by: dict[str, frozenset[str]],
) -> None:
    """It waits for no node, while the pod does: EKS takes seconds to know it everywhere."""
    identity = "aws:eks/podIdentityAssociation:PodIdentityAssociation::cluster-autoscaler"
    assert CLUSTER in outlived_by[identity]
    assert SYSTEM_GROUP not in outlived_by[identity]
    assert {identity, SYSTEM_GROUP} <= outlived_by[AUTOSCALER]


def test_an_address_goes_before_the_internet_gateway(
    outlived_by: dict[str, frozenset[str]],
) -> None:
    """AWS detaches no gateway from a VPC that still has public addresses."""
    gateway = "aws:ec2/internetGateway:InternetGateway::k8s-ml"
    assert gateway in outlived_by["aws:ec2/eip:Eip::k8s-ml-us-east-1a"]
    nat = outlived_by["aws:ec2/natGateway:NatGateway::k8s-ml-us-east-1a"]
    assert gateway in nat
    # Without it, the NAT gateway's own subnet leads nowhere.
    assert "aws:ec2/routeTableAssociation:RouteTableAssociation::k8s-ml-public-us-east-1a" in nat


def test_a_subnet_gets_a_table_that_leads_out() -> None:
    """With a NAT gateway for each zone instead of one, no zone is without a way out for the minutes
    that a NAT gateway takes."""
    change = ["gpu-cluster:cluster", "network", "nat", "per-zone"]
    behind = _outlived_by(with_changes(values_of("train"), [change]))
    for zone in ("us-east-1a", "us-east-1b"):
        subnet = f"aws:ec2/routeTableAssociation:RouteTableAssociation::k8s-ml-private-{zone}"
        assert f"aws:ec2/route:Route::k8s-ml-{zone}" in behind[subnet]
