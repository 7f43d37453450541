"""EKS: what the cluster and its network ask of AWS."""

import json

import pytest

from components.catalog.eks import interface_endpoints
from components.cluster import Runs
from components.eks.cluster_args import EksClusterArgs, EksSystemPoolArgs
from components.eks.network_args import EksNetworkArgs
from components.eks.pool_args import EksGpuNodeGroupArgs
from components.eks.provider_args import AwsProviderArgs
from components.eks.regions import endpoint_service
from components.eks.settings import resolve
from components.eks.user_args import EksUserArgs
from tests.components.eks_stack import ADMIN, OUTPUTS, declare
from tests.components.recording import Recording, record
from tests.program.environments import as_engine_config, run_program, values_of, with_changes

CLUSTER = "aws:eks/cluster:Cluster"
ADDON = "aws:eks/addon:Addon"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
SUBNETS = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]


@pytest.fixture(scope="module")
def stack() -> Recording:
    """A cluster with one T4 pool."""
    return declare()


def test_the_control_plane_answers_the_named_networks_only(stack: Recording) -> None:
    """Nodes reach it from inside; outside, the networks that the config names do."""
    access = stack.one(CLUSTER).inputs["vpcConfig"]
    assert access["endpointPrivateAccess"] is True
    assert access["endpointPublicAccess"] is True
    assert access["publicAccessCidrs"] == ["203.0.113.0/24"]
    assert "securityGroupIds" not in access


def test_a_private_endpoint_leaves_no_public_one() -> None:
    """With privateEndpoint, the control plane has no public endpoint at all."""
    stack = declare(authorized_networks={}, private_endpoint=True)
    access = stack.one(CLUSTER).inputs["vpcConfig"]
    assert (access["endpointPrivateAccess"], access["endpointPublicAccess"]) == (True, False)
    assert "publicAccessCidrs" not in access


RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
ANSWERED = {
    "aws:eks/cluster:Cluster": {
        **OUTPUTS["aws:eks/cluster:Cluster"],
        "vpcConfig": {"clusterSecurityGroupId": "sg-0a1b2c"},
    }
}


def test_private_networks_come_to_the_private_endpoint() -> None:
    """EKS takes no private address at the public endpoint, and lets none in at its own."""
    networks = {"office": "203.0.113.0/24", "vpn": "10.20.0.0/16", "mesh": "100.64.0.0/10"}
    stack = declare(authorized_networks=networks, outputs=ANSWERED)
    assert stack.one(CLUSTER).inputs["vpcConfig"]["publicAccessCidrs"] == ["203.0.113.0/24"]
    assert {rule.inputs["cidrIpv4"] for rule in stack.of(RULE)} == {"10.20.0.0/16", "100.64.0.0/10"}
    rule = stack.one(RULE, "k8s-ml-vpn")
    assert rule.inputs == {
        "securityGroupId": "sg-0a1b2c",
        "description": "Kubernetes API",
        "cidrIpv4": "10.20.0.0/16",
        "ipProtocol": "tcp",
        "fromPort": 443,
        "toPort": 443,
    }
    assert rule.deleted_with.endswith("eks/cluster:Cluster::k8s-ml")
    provider = stack.one("pulumi:providers:kubernetes")
    assert any(urn.endswith("SecurityGroupIngressRule::k8s-ml-vpn") for urn in provider.depends_on)


def test_without_a_public_endpoint_every_network_comes_to_the_private_one() -> None:
    """Public address space too, where a company has its own inside."""
    networks = {"office": "203.0.113.0/24", "vpn": "10.20.0.0/16"}
    stack = declare(authorized_networks=networks, private_endpoint=True, outputs=ANSWERED)
    assert "publicAccessCidrs" not in stack.one(CLUSTER).inputs["vpcConfig"]
    assert [rule.inputs["cidrIpv4"] for rule in stack.of(RULE)] == list(networks.values())


def test_access_is_by_entries_and_the_creator_gets_none(stack: Recording) -> None:
    """Only the admins of the config are admins, through the API."""
    assert stack.one(CLUSTER).inputs["accessConfig"] == {
        "authenticationMode": "API",
        "bootstrapClusterCreatorAdminPermissions": False,
    }
    assert stack.one("aws:eks/accessEntry:AccessEntry").inputs["principalArn"] == ADMIN
    association = stack.one("aws:eks/accessPolicyAssociation:AccessPolicyAssociation").inputs
    assert association["principalArn"] == ADMIN
    assert association["accessScope"] == {"type": "cluster"}
    assert association["policyArn"] == (
        "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    )


def test_secrets_are_encrypted_with_a_key_that_rotates(stack: Recording) -> None:
    """The stack's own KMS key, with rotation and an alias, encrypts Kubernetes secrets."""
    assert stack.one("aws:kms/key:Key").inputs["enableKeyRotation"] is True
    assert stack.one("aws:kms/alias:Alias").inputs["name"] == "alias/eks/k8s-ml"
    encryption = stack.one(CLUSTER).inputs["encryptionConfig"]
    assert encryption["resources"] == ["secrets"]
    assert encryption["provider"]["keyArn"].endswith("key/0a1b2c")


def test_the_control_plane_stays_where_it_was_made(stack: Recording) -> None:
    """EKS refuses it other zones than its first; a zone that is added is for nodes."""
    assert stack.one(CLUSTER).ignore_changes == ("vpcConfig.subnetIds",)
    zones = ["us-east-1a", "us-east-1b", "us-east-1c"]
    wider = declare(network=EksNetworkArgs(zones=zones))
    assert len(wider.one(NODE_GROUP, "train-gpu").inputs["subnetIds"]) == 3


def test_a_key_of_one_s_own_is_used_and_none_made() -> None:
    """With secretsEncryptionKey, no key is made."""
    own = "arn:aws:kms:us-east-1:123456789012:key/mine"
    stack = declare(secrets_encryption_key=own)
    assert stack.of("aws:kms/key:Key") == []
    assert stack.one(CLUSTER).inputs["encryptionConfig"]["provider"]["keyArn"] == own


def test_the_stack_owns_the_control_plane_s_logs(stack: Recording) -> None:
    """The log group is there before the cluster, which would make it without retention."""
    logs = stack.one("aws:cloudwatch/logGroup:LogGroup")
    assert logs.inputs["name"] == "/aws/eks/k8s-ml/cluster"
    assert logs.inputs["retentionInDays"] == 90
    cluster = stack.one(CLUSTER)
    assert cluster.inputs["enabledClusterLogTypes"] == ["api", "audit", "authenticator"]
    assert any(urn.endswith("logGroup:LogGroup::k8s-ml") for urn in cluster.depends_on)


def test_the_cluster_has_no_unmanaged_addons_and_standard_support(stack: Recording) -> None:
    """Addons are the stack's, and EKS upgrades before support gets dearer."""
    inputs = stack.one(CLUSTER).inputs
    assert inputs["bootstrapSelfManagedAddons"] is False
    assert inputs["upgradePolicy"] == {"supportType": "STANDARD"}
    assert inputs["version"] == "1.35"
    addons = {r.inputs["addonName"] for r in stack.of("aws:eks/addon:Addon")}
    assert addons == {
        "vpc-cni",
        "kube-proxy",
        "eks-pod-identity-agent",
        "coredns",
        "eks-node-monitoring-agent",
        "aws-ebs-csi-driver",
    }


def test_the_cni_enforces_network_policy_with_a_role_of_its_own(stack: Recording) -> None:
    """The CNI's permissions come by Pod Identity, so that the node's role does without."""
    inputs = stack.one("aws:eks/addon:Addon", "k8s-ml-vpc-cni").inputs
    assert json.loads(inputs["configurationValues"]) == {
        "enableNetworkPolicy": "true",
        # Else a node takes the addresses of a whole interface more than it needs.
        "env": {"MINIMUM_IP_TARGET": "10", "WARM_IP_TARGET": "5"},
    }
    (identity,) = inputs["podIdentityAssociations"]
    assert identity["serviceAccount"] == "aws-node"
    node_policies = [
        r.inputs["policyArn"].rpartition("/")[2]
        for r in stack.of("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
        if r.name.startswith("k8s-ml-nodes-")
    ]
    assert node_policies == ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"]


@pytest.mark.parametrize(
    ("instance_type", "workers", "warned"),
    [
        ("p5.48xlarge", 2, ["this stack does not set up EFA (32 interfaces)"]),
        ("p5.48xlarge", 1, []),
        ("g4dn.xlarge", 2, []),
        ("g5g.xlarge", 1, ["does not watch GPUs on arm64"]),
        (
            "p6e-gb200.36xlarge",
            2,
            ["secondary source", "does not watch GPUs", "does not set up IMEX", "not set up EFA"],
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
    settings = resolve({"aws:region": "us-east-1"}, cluster, {"pool": pool})
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
        (each.inputs["principalArn"], each.inputs["policyArn"].rpartition("/")[2]): (
            each.inputs["accessScope"].get("namespaces"),
            each.delete_before_replace,
        )
        for each in policies
    } == {
        (ADMIN, "AmazonEKSClusterAdminPolicy"): (None, False),
        (ml, "AmazonEKSEditPolicy"): (["team-a", "team-b"], True),
        (ml, "AmazonEKSViewPolicy"): (None, True),
        (ops, "AmazonEKSViewPolicy"): (None, True),
    }


def test_node_repair_hears_of_every_gpu_fault(stack: Recording) -> None:
    """The agent tolerates every taint by itself; the DCGM server that it asks is told to."""
    inputs = stack.one("aws:eks/addon:Addon", "k8s-ml-eks-node-monitoring-agent").inputs
    assert json.loads(inputs["configurationValues"]) == {
        "dcgmAgent": {"tolerations": [{"operator": "Exists"}]}
    }


def test_a_claim_without_a_class_gets_an_encrypted_volume(stack: Recording) -> None:
    """The CSI driver has a role for its own service account, and its class is the default."""
    addon = stack.one("aws:eks/addon:Addon", "k8s-ml-aws-ebs-csi-driver").inputs
    assert addon["podIdentityAssociations"] == [
        {
            "roleArn": "arn:aws:iam::123456789012:role/a-role",
            "serviceAccount": "ebs-csi-controller-sa",
        }
    ]
    storage = stack.one("kubernetes:storage.k8s.io/v1:StorageClass")
    assert storage.inputs["metadata"] == {
        "name": "gp3-encrypted",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    }
    assert {key: storage.inputs[key] for key in storage.inputs if key not in (
        "apiVersion", "kind", "metadata",
    )} == {
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"type": "gp3", "encrypted": "true"},
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
        "reclaimPolicy": "Delete",
    }  # fmt: skip
    # A class never changes, and its name is taken.
    assert storage.delete_before_replace


def test_a_key_of_disks_encrypts_every_disk() -> None:
    """Of nodes, of claims without a class and of the stack's own, which keep the key that they
    have; the driver of disks may use it."""
    key = "arn:aws:kms:us-east-1:123456789012:key/1"
    values = with_changes(
        values_of("train"),
        [["gpu-cluster:cluster", "disksEncryptionKey", key],
         ["gpu-cluster:volumeClaims", {"a": {"size": "1Gi"}}]],
    )  # fmt: skip
    stack = record(run_program, config=as_engine_config(values), outputs=OUTPUTS)
    templates = stack.of("aws:ec2/launchTemplate:LaunchTemplate")
    disks = [each["ebs"]["kmsKeyId"] for one in templates
             for each in one.inputs["blockDeviceMappings"]]  # fmt: skip
    assert disks == [key] * len(templates)
    storage = stack.one("kubernetes:storage.k8s.io/v1:StorageClass")
    assert storage.inputs["parameters"]["kmsKeyId"] == key
    volume = stack.one("aws:ebs/volume:Volume")
    assert (volume.inputs["kmsKeyId"], list(volume.ignore_changes)) == (key, ["kmsKeyId"])
    policy = stack.one("aws:iam/rolePolicy:RolePolicy", "k8s-ml-aws-ebs-csi-driver")
    grants, use = json.loads(policy.inputs["policy"])["Statement"]
    assert (grants["Resource"], use["Resource"]) == (key, key)
    assert grants["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    assert "kms:CreateGrant" in grants["Action"]
    assert "kms:GenerateDataKey*" in use["Action"]


def test_the_disks_of_claims_have_the_cluster_s_tags() -> None:
    """Also of claims that the stack does not declare: the driver puts them on."""
    addons = {one.inputs["addonName"]: one for one in declare(tags={"team": "ml"}).of(ADDON)}
    values = json.loads(addons["aws-ebs-csi-driver"].inputs["configurationValues"])
    assert values == {"controller": {"extraVolumeTags": {"team": "ml"}}}


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


def test_addon_versions_are_eks_s_unless_pinned() -> None:
    """A pinned addon has the config's version, another none."""
    stack = declare(addon_versions={"coredns": "v1.12.4-eksbuild.1"})
    by_name = {r.inputs["addonName"]: r.inputs for r in stack.of("aws:eks/addon:Addon")}
    assert by_name["coredns"]["addonVersion"] == "v1.12.4-eksbuild.1"
    assert "addonVersion" not in by_name["vpc-cni"]


def test_deletion_protection_is_on_unless_the_config_takes_it_off() -> None:
    """EKS and Pulumi both protect the cluster by default."""
    protected = declare().one(CLUSTER)
    assert (protected.inputs["deletionProtection"], protected.protect) == (True, True)
    free = declare(deletion_protection=False).one(CLUSTER)
    assert (free.inputs["deletionProtection"], free.protect) == (False, False)


def test_the_stack_makes_no_security_group(stack: Recording) -> None:
    """Only the cluster's own security group is used: another could outlive its interfaces."""
    assert [r.type for r in stack.resources if "securityGroup" in r.type] == []
    templates = stack.of("aws:ec2/launchTemplate:LaunchTemplate")
    assert not any("vpcSecurityGroupIds" in r.inputs for r in templates)


def test_the_system_pool_is_small_and_never_at_zero(stack: Recording) -> None:
    """One CPU node at least, grown by the autoscaler, with the plain image."""
    group = stack.one(NODE_GROUP, "k8s-ml-system")
    assert group.inputs["scalingConfig"] == {"minSize": 1, "maxSize": 3, "desiredSize": 1}
    assert group.inputs["amiType"] == "AL2023_x86_64_STANDARD"
    assert group.ignore_changes == ("scalingConfig.desiredSize",)


def test_a_system_pool_on_arm_has_arm_s_image() -> None:
    """The image follows the instance type's architecture."""
    stack = declare(system_pool=EksSystemPoolArgs(instance_types=["m7g.large"]))
    assert stack.one(NODE_GROUP, "k8s-ml-system").inputs["amiType"] == "AL2023_ARM_64_STANDARD"


def test_each_zone_has_private_nodes_and_one_nat_serves_them(stack: Recording) -> None:
    """Two /19 for nodes and pods; a public subnet each, one NAT gateway, S3 past it."""
    subnets = {r.name: r.inputs for r in stack.of("aws:ec2/subnet:Subnet")}
    assert {name: inputs["cidrBlock"] for name, inputs in subnets.items()} == {
        "k8s-ml-private-us-east-1a": "10.0.0.0/19",
        "k8s-ml-private-us-east-1b": "10.0.32.0/19",
        "k8s-ml-public-us-east-1a": "10.0.224.0/24",
        "k8s-ml-public-us-east-1b": "10.0.225.0/24",
    }
    assert not any(inputs.get("mapPublicIpOnLaunch") for inputs in subnets.values())
    private, public = subnets["k8s-ml-private-us-east-1b"], subnets["k8s-ml-public-us-east-1a"]
    assert private["tags"]["kubernetes.io/role/internal-elb"] == "1"
    assert public["tags"]["kubernetes.io/role/elb"] == "1"
    outside = {
        r.name: r.inputs["routeTableId"]
        for r in stack.of("aws:ec2/routeTableAssociation:RouteTableAssociation")
        if "public" in r.name
    }
    # A load balancer to the internet wants two zones; both lead there.
    assert outside == {f"k8s-ml-public-us-east-1{zone}": "k8s-ml-public-id" for zone in "ab"}
    assert len(stack.of("aws:ec2/natGateway:NatGateway")) == 1
    endpoint = stack.one("aws:ec2/vpcEndpoint:VpcEndpoint").inputs
    assert endpoint["serviceName"] == "com.amazonaws.us-east-1.s3"
    assert endpoint["vpcEndpointType"] == "Gateway"
    assert set(stack.one(CLUSTER).inputs["vpcConfig"]["subnetIds"]) == {
        "k8s-ml-private-us-east-1a-id",
        "k8s-ml-private-us-east-1b-id",
    }


def test_a_nat_gateway_in_each_zone_keeps_the_zones_apart() -> None:
    """With nat per-zone, every private subnet has the way out of its own zone."""
    network = EksNetworkArgs(zones=["us-east-1a", "us-east-1b", "us-east-1c"], nat="per-zone")
    stack = declare(network=network)
    assert len(stack.of("aws:ec2/natGateway:NatGateway")) == 3
    tables = {
        r.name: r.inputs["routeTableId"]
        for r in stack.of("aws:ec2/routeTableAssociation:RouteTableAssociation")
        if "private" in r.name
    }
    assert tables == {f"k8s-ml-private-us-east-1{z}": f"k8s-ml-us-east-1{z}-id" for z in "abc"}


def test_interface_endpoints_take_the_names_of_services_in_every_zone() -> None:
    """One for each service, with one security group that lets the VPC in; nodes wait for them."""
    zones = ["us-east-1a", "us-east-1b"]
    stack = declare(network=EksNetworkArgs(zones=zones, interface_endpoints=True))
    found = [r for r in stack.of("aws:ec2/vpcEndpoint:VpcEndpoint") if "-endpoints-" in r.name]
    services = ("ec2", "ecr.api", "ecr.dkr", "sts", "eks", "eks-auth", "autoscaling", "logs")
    assert [r.inputs["serviceName"] for r in found] == [
        f"com.amazonaws.us-east-1.{service}" for service in services
    ]
    for endpoint in found:
        assert endpoint.inputs["vpcEndpointType"] == "Interface"
        assert endpoint.inputs["privateDnsEnabled"] is True
        assert endpoint.inputs["subnetIds"] == [f"k8s-ml-private-{zone}-id" for zone in zones]
        assert endpoint.inputs["securityGroupIds"] == ["k8s-ml-endpoints-id"]
        assert endpoint.key in stack.before(stack.one(NODE_GROUP, "train-gpu"))
    group = stack.one("aws:ec2/securityGroup:SecurityGroup").inputs
    (rule,) = group["ingress"]
    assert (rule["fromPort"], rule["toPort"], rule["cidrBlocks"]) == (443, 443, ["10.0.0.0/16"])


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


def test_the_kubernetes_provider_survives_unknown_kubeconfigs() -> None:
    """Its identifier is known in the first preview, when the kubeconfig is not."""
    provider = declare(preview=True).one("pulumi:providers:kubernetes").inputs
    assert provider["clusterIdentifier"] == "eks/us-east-1/k8s-ml"
    assert "kubeconfig" not in provider


def test_the_kubeconfig_waits_until_its_user_is_admitted(stack: Recording) -> None:
    """The provider comes after the access policies, and gets tokens from the AWS CLI alone."""
    provider = stack.one("pulumi:providers:kubernetes")
    assert any("AccessPolicyAssociation" in urn for urn in provider.depends_on)
    (user,) = json.loads(provider.inputs["kubeconfig"])["users"]
    assert set(user["user"]) == {"exec"}
    assert user["user"]["exec"]["args"] == [
        "--region", "us-east-1", "eks", "get-token", "--cluster-name", "k8s-ml",
        "--output", "json",
    ]  # fmt: skip


def test_the_kubeconfig_is_of_the_provider_s_own_user() -> None:
    """Whom `aws:profile` and `aws:assumeRoles` name makes the cluster, and gets the tokens."""
    provider = AwsProviderArgs(region="us-east-1", profile="ml", role=ADMIN)
    stack = declare(provider=provider)
    kubeconfig = stack.one("pulumi:providers:kubernetes").inputs["kubeconfig"]
    command = json.loads(kubeconfig)["users"][0]["user"]["exec"]
    assert command["env"] == [{"name": "AWS_PROFILE", "value": "ml"}]
    assert command["args"][-2:] == ["--role-arn", ADMIN]
