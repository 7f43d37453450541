"""EKS: what the cluster and its network ask of AWS."""

import json

import pytest

from gpu_cluster.components.catalog.eks import interface_endpoints
from gpu_cluster.components.cluster import Runs
from gpu_cluster.components.eks.cluster_args import EksClusterArgs, EksSystemPoolArgs
from gpu_cluster.components.eks.network_args import EksNetworkArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.eks.provider_args import AwsProviderArgs
from gpu_cluster.components.eks.regions import endpoint_service
from gpu_cluster.components.eks.settings import resolve
from gpu_cluster.components.eks.user_args import EksUserArgs
from gpu_cluster.components.schema.refusal import Refusals
from tests.components.eks_stack import ADMIN, OUTPUTS, declare
from tests.components.recording import record
from tests.program.environments import as_engine_config, run_program, values_of, with_changes

CLUSTER = "aws:eks/cluster:Cluster"
ADDON = "aws:eks/addon:Addon"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
SUBNETS = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]


RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
ANSWERED = {
    "aws:eks/cluster:Cluster": {
        **OUTPUTS["aws:eks/cluster:Cluster"],
        "vpcConfig": {"clusterSecurityGroupId": "sg-0a1b2c"},
    }
}


def test_without_a_public_endpoint_every_network_comes_to_the_private_one() -> None:
    """Public address space too, where a company has its own inside."""
    networks = {"office": "203.0.113.0/24", "vpn": "10.20.0.0/16"}
    stack = declare(authorized_networks=networks, private_endpoint=True, outputs=ANSWERED)
    assert "publicAccessCidrs" not in stack.one(CLUSTER).inputs["vpcConfig"]
    assert [rule.inputs["cidrIpv4"] for rule in stack.of(RULE)] == list(networks.values())


@pytest.mark.parametrize(
    ("instance_type", "workers", "warned"),
    [
        ("p5.48xlarge", 2, ["set efa: true for its 32 EFA interfaces"]),
        ("p5.48xlarge", 1, []),
        ("g4dn.xlarge", 2, []),
        ("g5g.xlarge", 1, ["does not watch GPUs on arm64"]),
        (
            "p6e-gb200.36xlarge",
            2,
            ["secondary source", "does not watch GPUs", "does not set up IMEX", "set efa: true"],
        ),
    ],
)
def test_a_pool_is_warned_of_what_the_stack_does_not_set_up(
    instance_type: str, workers: int, warned: list[str]
) -> None:
    """Networks of the machine that no pod would use, and GPUs that no agent watches."""
    block = instance_type.startswith("p6e")
    pool = EksGpuNodeGroupArgs(
        instance_types=[instance_type],
        zones=["us-east-1a"],
        max_nodes=2,
        capacity_type="capacity-block" if block else "on-demand",
        reservation="cr-0123456789abcdef0" if block else None,
    )
    network = EksNetworkArgs(zones=["us-east-1a", "us-east-1b"])
    cluster = EksClusterArgs(
        name="a", admins=[ADMIN], authorized_networks={"a": "198.18.0.0/24"}, network=network
    )
    settings = resolve({"aws:region": "us-east-1"}, cluster, {"pool": pool}, Refusals())
    lines = settings.warnings(Runs(training_nodes={"pool": workers}))
    found = [line for line in lines if line.startswith("gpuPools.pool")]
    assert len(found) == len(warned)
    for line, words in zip(found, warned, strict=True):
        assert words in line


def test_users_have_entries_groups_and_namespaces_and_are_no_admins() -> None:
    """A principal in two groups has one entry, and one scope for each policy."""
    ml, ops = (f"arn:aws:iam::123456789012:role/{name}" for name in ("ml", "ops"))
    found = declare(
        users={
            "researchers": EksUserArgs(principals=[ml], access="edit", namespaces=["team-a"]),
            "readers": EksUserArgs(principals=[ml, ops], access="view"),
            "students": EksUserArgs(principals=[ml], access="edit", namespaces=["team-b"]),
        }
    )
    groups = {
        each.inputs["principalArn"]: each.inputs.get("kubernetesGroups")
        for each in found.of("aws:eks/accessEntry:AccessEntry")
    }
    assert groups == {ADMIN: None, ml: ["researchers", "readers", "students"], ops: ["readers"]}
    policies = found.of("aws:eks/accessPolicyAssociation:AccessPolicyAssociation")
    assert {
        (policy.inputs["principalArn"], policy.inputs["policyArn"].rpartition("/")[2]): (
            policy.inputs["accessScope"].get("namespaces"),
            policy.delete_before_replace,
        )
        for policy in policies
    } == {
        (ADMIN, "AmazonEKSClusterAdminPolicy"): (None, False),
        (ml, "AmazonEKSEditPolicy"): (["team-a", "team-b"], True),
        (ml, "AmazonEKSViewPolicy"): (None, True),
        (ops, "AmazonEKSViewPolicy"): (None, True),
    }


def test_a_key_of_disks_encrypts_those_of_claims() -> None:
    """Those that exist keep the key that they have; the others are in `train_choices.txt`."""
    key = "arn:aws:kms:us-east-1:123456789012:key/1"
    values = with_changes(
        values_of("train"),
        [["gpu-cluster:cluster", "disksEncryptionKey", key],
         ["gpu-cluster:volumeClaims", {"a": {"size": "1Gi"}}]],
    )  # fmt: skip
    stack = record(run_program, config=as_engine_config(values), outputs=OUTPUTS)
    volume = stack.one("aws:ebs/volume:Volume")
    assert (volume.inputs["kmsKeyId"], list(volume.ignore_changes)) == (key, ["kmsKeyId"])


REFUSED_TAGS = {
    "kubernetes.io/team": "ml", "kubernetes.io": "ml", "CSIVolumeName": "a", "a": "b,c", "d,e": "f",
    "CSIVolumeSnapshotName": "a", "ebs.csi.aws.com/cluster": "true", "g=h": "i",
}  # fmt: skip


def test_the_driver_of_disks_gets_no_tag_that_it_refuses() -> None:
    """Its controller would exit; the stack's own resources have these tags."""
    found = declare(tags={"team": "ml", **REFUSED_TAGS})
    addons = {one.inputs["addonName"]: one for one in found.of(ADDON)}
    values = json.loads(addons["aws-ebs-csi-driver"].inputs["configurationValues"])
    assert values == {"controller": {"extraVolumeTags": {"team": "ml"}}}
    assert found.one("aws:eks/cluster:Cluster").inputs["tags"].items() >= REFUSED_TAGS.items()


def test_a_system_pool_on_arm_has_arm_s_image() -> None:
    """The image follows the instance type's architecture."""
    stack = declare(system_pool=EksSystemPoolArgs(instance_types=["m7g.large"]))
    assert stack.one(NODE_GROUP, "k8s-ml-system").inputs["amiType"] == "AL2023_ARM_64_STANDARD"


@pytest.mark.parametrize(
    ("region", "service", "name"),
    [
        ("us-east-1", "ecr.api", "com.amazonaws.us-east-1.ecr.api"),
        ("cn-north-1", "ecr.api", "cn.com.amazonaws.cn-north-1.ecr.api"),
        ("cn-north-1", "s3", "com.amazonaws.cn-north-1.s3"),
    ],
)
def test_services_have_another_name_in_china(region: str, service: str, name: str) -> None:
    """Except S3 and Logs; a region lacks some, which are left out."""
    assert endpoint_service(region, service) == name
    assert "eks" not in interface_endpoints("mx-central-1")
    assert "eks-auth" in interface_endpoints("ap-southeast-5")


def test_a_zone_id_is_given_as_such() -> None:
    """A zone's ID goes to AWS as an ID, a name as a name."""
    stack = declare(network=EksNetworkArgs(zones=["use1-az1", "use1-az2"]))
    subnet = stack.one("aws:ec2/subnet:Subnet", "k8s-ml-private-use1-az1").inputs
    assert subnet["availabilityZoneId"] == "use1-az1"
    assert "availabilityZone" not in subnet


def test_an_existing_network_is_used_as_it_is() -> None:
    """With subnetIds nothing of a network is made, and nodes are in those subnets."""
    stack = declare(network=EksNetworkArgs(subnet_ids=SUBNETS))
    assert [r.type for r in stack.resources if ":Vpc" in r.type or ":Subnet" in r.type] == []
    assert stack.one(CLUSTER).inputs["vpcConfig"]["subnetIds"] == SUBNETS
    assert stack.one(NODE_GROUP, "train-gpu").inputs["subnetIds"] == SUBNETS


def test_the_kubeconfig_is_of_the_provider_s_own_user() -> None:
    """Whom `aws:profile` and `aws:assumeRoles` name makes the cluster, and gets the tokens."""
    provider = AwsProviderArgs(region="us-east-1", profile="ml", role=ADMIN)
    stack = declare(provider=provider)
    kubeconfig = stack.one("pulumi:providers:kubernetes").inputs["kubeconfig"]
    command = json.loads(kubeconfig)["users"][0]["user"]["exec"]
    assert command["env"] == [{"name": "AWS_PROFILE", "value": "ml"}]
    assert command["args"][-2:] == ["--role-arn", ADMIN]
