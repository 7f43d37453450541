"""The simulated AWS: what moto alone does not show, the cloud's order and its refusals.

Here and not among the unit tests, because an AWS account takes seconds to fill.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest

from gpu_cluster.rehearsal.plugins.aws.provider_config import check_config, default_tags
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN
from gpu_cluster.rehearsal.simulators.aws import attached
from gpu_cluster.rehearsal.simulators.aws.eks import access_granted, group_tags
from gpu_cluster.rehearsal.simulators.cloud import Mount, RefusedError, Wanted
from tests.rehearsal import aws_stack as aws
from tests.rehearsal.aws_stack import AwsStack, stack
from tests.unit.plugins.offline_engine import Refused

NODES_ROLE = "arn:aws:iam::123456789012:role/nodes"
CHANGE = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
CNI_ROLE = "arn:aws:iam::123456789012:role/cni"
fresh = aws.fresh


@pytest.fixture(scope="module")
def shared() -> Iterator[AwsStack]:
    """A cluster with a node group; tests that use it only ask for what is refused."""
    with stack() as made:
        made.subnets = made.cluster()
        made.group(made.subnets)
        made.autoscaler()
        made.held = made.cloud.list_resources()
        yield made


def test_an_account_remembers_nothing_of_the_one_before() -> None:
    """Although what is in every account is read once: no role is there, and nothing attached."""
    policy = {"PolicyArn": "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"}
    for _ in range(2):
        with stack() as made:
            iam = made.cloud.account.client("iam")
            assert iam.list_roles()["Roles"] == []
            assert iam.get_policy(**policy)["Policy"]["AttachmentCount"] == 0
            made.role("nodes", "ec2.amazonaws.com", "AmazonEKSWorkerNodePolicy")
            assert iam.get_policy(**policy)["Policy"]["AttachmentCount"] == 1


def test_a_preview_of_a_cluster_has_what_eks_adds_to_its_network(fresh: AwsStack) -> None:
    """The cluster's own security group is unknown before the cluster stands, and never missing."""
    subnets = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
    network = fresh.preview(aws.CLUSTER, "ml", aws.cluster(subnets))["vpcConfig"]
    assert network["subnetIds"] == subnets
    assert network["clusterSecurityGroupId"] == network["vpcId"] == UNKNOWN
    assert network["publicAccessCidrs"] == UNKNOWN


@pytest.mark.parametrize(
    ("token", "inputs"),
    [
        (aws.VPC, {"cidrBlock": "10.9.0.0/16"}),
        (aws.EIP, {"domain": "vpc"}),
        (aws.KEY, {"description": "secrets"}),
        (aws.LOGS, {"name": "/aws/eks/x/cluster"}),
    ],
)
def test_a_stacks_own_tag_is_added_in_place(
    fresh: AwsStack, token: str, inputs: dict[str, Any]
) -> None:
    """What an older version made gets it by an update, and nothing differs afterwards."""
    tagged = inputs | {"tags": {"gpu-cluster/stack": "gpu-cluster/dev"}}
    fresh.up(token, "one", inputs)
    _, answer = fresh.diff(token, "one", tagged)
    assert list(answer.replaces) == []
    assert fresh.up(token, "one", tagged)["tagsAll"] == tagged["tags"]
    assert fresh.diff(token, "one", tagged)[0] == {}


def test_a_groups_bounds_are_its_auto_scaling_groups(fresh: AwsStack) -> None:
    """Whoever changes them there changes what the autoscaler may do, whatever was declared."""
    assert fresh.group(fresh.cluster()).max_nodes == 2
    client = fresh.cloud.account.client("autoscaling")
    client.update_auto_scaling_group(AutoScalingGroupName=fresh.scaling_group, MaxSize=1)
    fresh.cloud.notify()
    (group,) = fresh.cloud.node_groups()
    assert (group.min_nodes, group.max_nodes) == (0, 1)
    with pytest.raises(RefusedError, match="value 2 is above max value 1 for the AutoScalingGroup"):
        fresh.cloud.set_size("train-gpu", 2)


def test_a_stack_leaves_nothing_behind(fresh: AwsStack) -> None:
    """Deleted in the reverse order of its creation, the account holds nothing of any kind."""
    subnets = fresh.cluster(enabledClusterLogTypes=[])
    assert fresh.plane.running
    fresh.group(subnets)
    fresh.autoscaler()
    fresh.tag("label", "role", "train-gpu")
    fresh.up(aws.KEY, "key", {"description": "secrets"})
    fresh.up(aws.LOGS, "logs", {"name": "/x"})
    held = fresh.cloud.list_resources()
    words = ("VPC", "subnet", "NAT gateway", "elastic IP", "Auto Scaling group", "node group",
             "role", "addon", "pod identity association", "key", "log group")  # fmt: skip
    assert all(any(line.startswith(f"{word} ") for line in held) for word in words)
    fresh.destroy()
    assert fresh.cloud.list_resources() == []
    assert not fresh.plane.running


@pytest.mark.parametrize(
    ("token", "name", "words"),
    [
        (aws.CLUSTER, "ml", "ResourceInUseException: Cluster has nodegroups attached: train-gpu"),
        (aws.VPC, "net", "DependencyViolation: The vpc '.*' has dependencies .*subnet-"),
        (aws.SUBNET, "us-east-1a", "DependencyViolation: The subnet .*Amazon EKS k8s-ml"),
        (aws.GATEWAY, "net", "has some mapped public address"),
        (aws.EIP, "nat", "InvalidIPAddress.InUse"),
        (aws.ROUTE, "private", "node group 'train-gpu' still needs it.*no route to the internet"),
        (
            aws.ASSOCIATION,
            "us-east-1b",
            "node group 'train-gpu' still needs it.*no route to the internet",
        ),
        (aws.ATTACHMENT, "nodes-AmazonEKSWorkerNodePolicy", "node group 'train-gpu' still needs"),
        (aws.ATTACHMENT, "cni-AmazonEKS_CNI_Policy", "may not ec2:AssignPrivateIpAddresses"),
        (aws.ATTACHMENT, "control-AmazonEKSClusterPolicy", "cluster 'k8s-ml' still needs it"),
        (aws.ADDON, "cni", "the cluster has no vpc-cni addon"),
        (aws.ADDON, "agent", "no eks-pod-identity-agent addon"),
        (aws.ROLE, "nodes", "node group train-gpu works with it"),
        (aws.ROLE, "cni", "pod identity association of kube-system/aws-node"),
    ],
)
def test_a_delete_in_the_wrong_order_is_refused(
    shared: AwsStack, token: str, name: str, words: str
) -> None:
    """What something else still needs cannot be deleted, and the refusal names who needs it."""
    with pytest.raises(Refused, match=words):
        shared.delete(token, name)
    assert shared.cloud.list_resources() == shared.held
    assert shared.refresh(token, name) is not None


@pytest.mark.parametrize(
    ("token", "inputs", "words"),
    [
        (aws.CLUSTER, {"name": "other"}, "one cluster at a time"),
        (aws.GROUP, {}, "NodeGroup already exists with name train-gpu"),
        (aws.GROUP, {"nodeGroupName": "a", "nodeRoleArn": f"{CNI_ROLE}x"}, "not exist"),
        (aws.GROUP, {"nodeGroupName": "a", "subnetIds": ["subnet-0"]}, "subnet-0"),
        (aws.GROUP, {"nodeGroupName": "a", "instanceTypes": ["p9.large"]}, "do not exist"),
        (aws.GROUP, {"nodeGroupName": "a", "clusterName": "x"}, "No cluster found for name: x"),
        (aws.GROUP, {"nodeGroupName": "a", "nodeRoleArn": CNI_ROLE}, "trust"),
        (aws.GROUP, {"nodeGroupName": "a", "launchTemplate": {"name": "gone", "version": "1"}},
         "gone"),
        (aws.ADDON, {"clusterName": "k8s-ml", "addonName": "dns"}, "dns specified is not support"),
        (aws.ADDON, {"clusterName": "k8s-ml", "addonName": "vpc-cni"}, "already exists"),
        (aws.ADDON, {"clusterName": "k8s-ml", "addonName": "kube-proxy", "addonVersion": "1.35"},
         "doesn't match regexp"),
        (aws.ADDON, {"clusterName": "k8s-ml", "addonName": "kube-proxy",
                     "configurationValues": "x"}, "not in valid JSON or YAML"),
        (aws.ENTRY, {"clusterName": "k8s-ml", "principalArn": "admin"}, "principalArn"),
        (aws.ENTRY, {"clusterName": "k8s-ml", "principalArn": aws.ADMIN},
         "The specified principalArn is invalid: invalid principal."),
        (aws.ENTRY, {"clusterName": "k8s-ml", "principalArn": NODES_ROLE}, "already in use"),
        (aws.ACCESS, {"clusterName": "k8s-ml", "principalArn": aws.ADMIN,
                      "policyArn": aws.ADMIN_POLICY, "accessScope": {"type": "cluster"}},
         "need an access entry for it first"),
        (aws.ACCESS, {"clusterName": "k8s-ml", "principalArn": NODES_ROLE,
                      "policyArn": aws.ADMIN_POLICY, "accessScope": {"type": "cluster"}},
         "STANDARD"),
        (aws.IDENTITY, {"clusterName": "k8s-ml", "namespace": "a", "serviceAccount": "b",
                        "roleArn": NODES_ROLE}, "does not let pods.eks.amazonaws.com take it"),
        (aws.IDENTITY, {"clusterName": "k8s-ml", "namespace": "kube-system",
                        "serviceAccount": "aws-node", "roleArn": CNI_ROLE},
         "Association already exists"),
        (aws.TAG, {"autoscalingGroupName": "eks-x",
                   "tag": {"key": "a", "value": "b", "propagateAtLaunch": True}}, "not found"),
        (aws.SUBNET, {"vpcId": "vpc-0", "cidrBlock": "10.0.9.0/24"}, "vpc-0 does not exist"),
        (aws.ROLE, {"name": "x", "assumeRolePolicy": "{"}, "invalid JSON"),
        (aws.ROLE, {"name": "x", "assumeRolePolicy": '{"Statement":[{"Effect":"Allow"}]}'},
         "MalformedPolicyDocument"),
        (aws.ATTACHMENT, {"role": "nodes", "policyArn": "arn:aws:iam::aws:policy/No"}, "NoSuchEnt"),
        (aws.VPC, {"cidrBlock": "10.1.0.0/16", "ipv6CidrBlock": "::/56"}, "ipv6"),
        (aws.VPC, {"cidrBlock": "10.1.0.0/16", "region": "eu-west-1"}, "one region"),
    ],
)  # fmt: skip
def test_what_aws_does_not_take_is_refused(
    shared: AwsStack, token: str, inputs: dict[str, Any], words: str
) -> None:
    """References that lead nowhere and values that AWS does not take are errors in one line."""
    if token == aws.GROUP:
        inputs = aws.group(shared.subnets) | inputs
    elif token == aws.CLUSTER:
        inputs = aws.cluster(shared.subnets) | inputs
    with pytest.raises(Refused, match=words) as refusal:
        shared.up(token, "new", inputs)
    assert "\n" not in str(refusal.value)
    assert shared.cloud.list_resources() == shared.held


@pytest.mark.parametrize(
    ("zones", "changes", "words"),
    [
        (("us-east-1a", "us-east-1e"), {}, "because us-east-1e, the targeted availability zone"),
        (("us-east-1a",), {}, "at least two different AZs"),
        (("us-east-1a", "us-east-1b"), {"version": "1.20"}, "unsupported Kubernetes version 1.20"),
        (("us-east-1a", "us-east-1b"), {"roleArn": NODES_ROLE}, "does not exist"),
    ],
)
def test_a_control_plane_needs_zones_version_and_role(
    fresh: AwsStack, zones: tuple[str, ...], changes: dict[str, Any], words: str
) -> None:
    """EKS makes no cluster in a zone, of a version or with a role that it cannot use."""
    subnets = fresh.network(zones)
    fresh.role("control", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
    with pytest.raises(Refused, match=words):
        fresh.up(aws.CLUSTER, "ml", aws.cluster(subnets, **changes))
    assert not fresh.plane.running


def test_a_cluster_that_is_protected_or_logs_alone_shows(fresh: AwsStack) -> None:
    """Deletion protection refuses the delete; a log group that EKS had to make stays behind."""
    subnets = fresh.network()
    fresh.role("control", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
    inputs = aws.cluster(subnets, deletionProtection=True, enabledClusterLogTypes=["api"])
    fresh.up(aws.CLUSTER, "ml", inputs)
    with pytest.raises(Refused, match="deletion protection is enabled"):
        fresh.delete(aws.CLUSTER, "ml")
    fresh.up(aws.CLUSTER, "ml", inputs | {"deletionProtection": False})
    fresh.destroy()
    assert fresh.cloud.list_resources() == ["log group /aws/eks/k8s-ml/cluster"]


@pytest.mark.parametrize(
    ("without", "words"),
    [
        ("nodes-AmazonEKSWorkerNodePolicy", "attach AmazonEKSWorkerNodePolicy"),
        ("nodes-AmazonEC2ContainerRegistryPullOnly", "attach AmazonEC2ContainerRegistryPullOnly"),
        ("cni-AmazonEKS_CNI_Policy", "attach AmazonEKS_CNI_Policy"),
    ],
)
def test_nodes_join_only_with_their_permissions(fresh: AwsStack, without: str, words: str) -> None:
    """A node group without one of its policies ends in CREATE_FAILED, and has no node."""
    subnets = fresh.cluster()
    fresh.delete(aws.ATTACHMENT, without)
    with pytest.raises(Refused, match=f"CREATE_FAILED.*NodeCreationFailure.*{words}"):
        fresh.group(subnets)
    assert fresh.cloud.node_groups() == []


def test_what_failed_half_way_is_in_the_state(fresh: AwsStack) -> None:
    """EKS keeps a cluster, an addon and a node group that failed, and so does the engine: an update
    that changes nothing finds nothing wrong, as with the official provider, and a delete takes them
    away."""
    subnets = fresh.network()
    fresh.role("control", "eks.amazonaws.com")
    failing: list[tuple[str, str, dict[str, Any]]] = [(aws.CLUSTER, "ml", aws.cluster(subnets))]
    driver = {"clusterName": "k8s-ml", "addonName": "aws-ebs-csi-driver"}
    failing += [(aws.ADDON, "ebs", driver), (aws.GROUP, "train-gpu", aws.group(subnets))]
    fresh.role("nodes", "ec2.amazonaws.com")
    for (token, name, inputs), identity, state in zip(
        failing,
        ("k8s-ml", "k8s-ml:aws-ebs-csi-driver", "k8s-ml:train-gpu"),
        ("FAILED", "DEGRADED", "CREATE_FAILED"),
        strict=True,
    ):
        with pytest.raises(Refused, match=f"(?s)^creating urn:.*'{state}'") as refused:
            fresh.up(token, name, inputs)
        assert refused.value.kept is not None
        assert refused.value.kept.id == identity
        if token == aws.CLUSTER:
            assert fresh.up(token, name, inputs)["status"] == "FAILED"
            fresh.delete(token, name)
            policy = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
            fresh.up(aws.ATTACHMENT, "control", {"role": "control", "policyArn": policy})
            fresh.up(token, name, inputs)
        else:
            fresh.up(token, name, inputs)
    fresh.destroy()
    assert fresh.cloud.list_resources() == []


def test_the_tags_are_what_the_autoscaler_believes(fresh: AwsStack) -> None:
    """At zero only tags count; what the nodes are follows from the node group; both are read back
    through the AWS API, here by a client of its own."""
    subnets = fresh.cluster()
    group = fresh.group(subnets)
    assert "role" not in group.template.labels
    assert group.template.taints == ()
    assert group.template.capacity["nvidia.com/gpu"] == "1"
    assert group.node.labels["role"] == "train-gpu"
    assert (group.driver, group.plugin, group.node_os) == ("cloud", "pod", "al2023")
    fresh.tag("label", "role", "train-gpu")
    fresh.tag("taint", "nvidia.com/gpu", "present:NoSchedule")
    fresh.tag("resources", "nvidia.com/gpu", "4")
    (group,) = fresh.cloud.node_groups()
    assert group.template.labels["role"] == "train-gpu"
    assert group.template.taints == group.node.taints
    assert group.template.capacity["nvidia.com/gpu"] == "4"
    client = boto3.client(
        "autoscaling", region_name="us-east-1", endpoint_url=fresh.cloud.endpoint,
        aws_access_key_id="x", aws_secret_access_key="x",
    )  # fmt: skip
    (row,) = client.describe_auto_scaling_groups()["AutoScalingGroups"]
    read = {tag["Key"]: tag["Value"] for tag in row["Tags"]}
    assert read == group_tags(fresh.cloud.account, row["AutoScalingGroupName"])
    assert read["k8s.io/cluster-autoscaler/node-template/label/role"] == "train-gpu"
    assert read["k8s.io/cluster-autoscaler/k8s-ml"] == "owned"


def test_without_nvidias_image_nobody_brings_a_driver(fresh: AwsStack) -> None:
    """The plain image has GPUs in the instance type and none on the node."""
    group = fresh.group(fresh.cluster(), amiType="AL2023_x86_64_STANDARD")
    assert "nvidia.com/gpu" in group.template.capacity
    assert "nvidia.com/gpu" not in group.node.capacity
    assert group.driver == "pod"


def test_an_autoscaler_needs_permission_on_the_group(fresh: AwsStack) -> None:
    """A group is scaled only where a role that a pod has may change it, by its tags too."""
    fresh.group(fresh.cluster())
    nobody = fresh.cloud.not_scaled([])
    assert nobody == {"train-gpu": "no Cluster Autoscaler runs in the cluster"}
    assert "no pod identity association" in fresh.cloud.not_scaled([aws.AUTOSCALER])["train-gpu"]
    condition = {"StringEquals": {"aws:ResourceTag/k8s.io/cluster-autoscaler/other": "owned"}}
    look = {"Effect": "Allow", "Action": ["autoscaling:Describe*", "ec2:Describe*"],
            "Resource": "*"}  # fmt: skip
    fresh.autoscaler(look, aws.SCALE | {"Action": CHANGE, "Condition": condition})
    reason = fresh.cloud.not_scaled([aws.AUTOSCALER])["train-gpu"]
    assert "kube-system/cluster-autoscaler with its role autoscaler may not do autosc" in reason
    own = {"StringEquals": {"aws:ResourceTag/k8s.io/cluster-autoscaler/k8s-ml": "owned"}}
    change = aws.SCALE | {"Action": CHANGE, "Condition": own}
    policy = {"role": "autoscaler", "name": "p", "policy": aws.document(look, change)}
    fresh.up(aws.ROLE_POLICY, "autoscaler", policy)
    assert fresh.cloud.not_scaled([aws.AUTOSCALER]) == {}
    elsewhere = replace(aws.AUTOSCALER, discovers=(("k8s.io/cluster-autoscaler/other",),))
    assert "this one has no such tag" in fresh.cloud.not_scaled([elsewhere])["train-gpu"]
    assert fresh.cloud.not_scaled([elsewhere, aws.AUTOSCALER]) == {}


def test_quotas_count_vcpus_of_running_nodes() -> None:
    """A g4dn.xlarge takes 4 vCPUs of the G and VT quota: one starts within 4, a second does not."""
    with stack(quota={"G_VT": 4}) as made:
        made.group(made.cluster())
        made.cloud.set_size("train-gpu", 1)
        with pytest.raises(RefusedError, match=r"VcpuLimitExceeded.*limit of 4 .*quota G_VT"):
            made.cloud.set_size("train-gpu", 2)
        with pytest.raises(RefusedError, match="above max value 2"):
            made.cloud.set_size("train-gpu", 3)
        made.cloud.set_size("train-gpu", 0)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("p3.2xlarge", r"The following supplied instance types do not exist: \[p3\.2xlarge\]"),
        ("g3s.xlarge", r"do not exist: \[g3s\.xlarge\]"),
        # EC2 has it in us-east-1a and us-east-1c.
        ("g7e.2xlarge", r"\(g7e\.2xlarge\) is not supported in your requested Availability Zone "
                        r"\(us-east-1b\)\. .* choosing us-east-1a, us-east-1c\."),
        ("p3dn.24xlarge", r"Availability Zone \(us-east-1a, us-east-1b\)"),
    ],
)  # fmt: skip
def test_ec2_has_no_such_instance_there(fresh: AwsStack, kind: str, words: str) -> None:
    """A retired type exists nowhere, whatever the program's catalog says; another is in some zones
    alone, and a node group at zero is refused as well."""
    subnets = fresh.cluster()
    with pytest.raises(Refused, match=words):
        fresh.group(subnets, instanceTypes=[kind])
    fresh.group(subnets, instanceTypes=["g4dn.xlarge"])


def test_the_autoscalers_size_is_eks_size(fresh: AwsStack) -> None:
    """A refresh shows what the autoscaler made of the group; EKS keeps only what was declared."""
    subnets = fresh.cluster()
    fresh.group(subnets)
    fresh.cloud.set_size("train-gpu", 1)
    outputs = fresh.refresh(aws.GROUP, "train-gpu")
    assert outputs is not None
    assert outputs["scalingConfig"]["desiredSize"] == 1
    assert fresh.cloud.node_groups()[0].target_nodes == 0
    with pytest.raises(Refused, match="Minimum capacity 2 can't be greater than desired size 1"):
        fresh.group(subnets, scalingConfig={"minSize": 2, "maxSize": 2, "desiredSize": 1})
    raised = fresh.group(subnets, scalingConfig={"minSize": 2, "maxSize": 2, "desiredSize": 2})
    assert raised.target_nodes == 1


def test_addons_with_pods_need_a_node(fresh: AwsStack) -> None:
    """coredns becomes active once a node without a taint that keeps it away is there."""
    subnets = fresh.cluster()
    addon = {"clusterName": "k8s-ml", "addonName": "coredns"}
    kept = {"minSize": 1, "maxSize": 2, "desiredSize": 1}
    fresh.group(subnets, scalingConfig=kept)
    with pytest.raises(Refused, match="no node that its pods can run on"):
        fresh.up(aws.ADDON, "dns", addon)
    fresh.group(subnets, scalingConfig=kept, taints=[])
    fresh.up(aws.ADDON, "dns", addon)


def test_an_addon_works_with_the_role_of_its_own_service_account(fresh: AwsStack) -> None:
    """The EBS CSI controller asks EC2 as ebs-csi-controller-sa: another account's role, or one
    without the rights, leaves the addon degraded until an update brings the right one."""
    subnets = fresh.cluster()
    kept = {"minSize": 1, "maxSize": 1, "desiredSize": 1}
    fresh.group(subnets, scalingConfig=kept, taints=[])
    good = fresh.role("disks", aws.POD_TRUST[0], "AmazonEBSCSIDriverPolicyV2")
    poor = fresh.role("poor", aws.POD_TRUST[0], "AmazonEKS_CNI_Policy")

    def addon(role: str, account: str) -> dict[str, Any]:
        identity = {"roleArn": role, "serviceAccount": account}
        return {
            "clusterName": "k8s-ml",
            "addonName": "aws-ebs-csi-driver",
            "podIdentityAssociations": [identity],
        }

    bare = {"clusterName": "k8s-ml", "addonName": "aws-ebs-csi-driver"}
    for given, words in (
        (bare, "service account ebs-csi-controller-sa, which has no role"),
        (addon(good, "ebs-csi-node-sa"), "has no role: the addon's is ebs-csi-node-sa's"),
        (
            addon(poor, "ebs-csi-controller-sa"),
            "its role poor may not do ec2:DescribeAvailabilityZones",
        ),
    ):
        with pytest.raises(Refused, match=words):
            fresh.up(aws.ADDON, "disks", given)
    fresh.up(aws.ADDON, "disks", addon(good, "ebs-csi-controller-sa"))
    strange = {
        "addonName": "eks-node-monitoring-agent",
        "configurationValues": '{"tolerations": []}',
    }
    with pytest.raises(Refused, match="tolerations: is not defined in the schema"):
        fresh.up(aws.ADDON, "agent-of-nodes", bare | strange)


def test_access_comes_with_the_policy_and_not_at_once(
    fresh: AwsStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An access entry without a policy opens nothing; its policy does, seconds later: sooner than
    a node group that is created meanwhile, which takes minutes in AWS."""
    monkeypatch.setattr("gpu_cluster.rehearsal.simulators.aws.eks.NODE_GROUP_SECONDS", 0.0)
    subnets = fresh.cluster()
    fresh.group(subnets)
    entry = {"clusterName": "k8s-ml", "principalArn": fresh.role("admin", "ec2.amazonaws.com")}
    fresh.up(aws.ENTRY, "admin", entry)
    cluster = fresh.cloud.account.clusters["k8s-ml"]
    assert not access_granted(cluster)
    scope = {"policyArn": aws.ADMIN_POLICY, "accessScope": {"type": "cluster"}}
    fresh.up(aws.ACCESS, "admin", entry | scope)
    assert not access_granted(cluster)
    with monkeypatch.context() as slow:
        slow.setattr("gpu_cluster.rehearsal.simulators.aws.eks.NODE_GROUP_SECONDS", 60.0)
        assert access_granted(cluster)
    assert not access_granted(cluster)
    fresh.up(aws.GROUP, "another", aws.group(subnets, nodeGroupName="another"))
    assert access_granted(cluster)
    fresh.delete(aws.ACCESS, "admin")
    assert not access_granted(cluster)
    monkeypatch.setattr("gpu_cluster.rehearsal.simulators.aws.eks.LATE_SECONDS", 0.5)
    fresh.up(aws.ACCESS, "admin", entry | scope)
    assert not access_granted(cluster)
    time.sleep(0.6)
    assert access_granted(cluster)
    fresh.delete(aws.ACCESS, "admin")
    assert not access_granted(cluster)


def test_a_launch_template_renews_its_version(fresh: AwsStack) -> None:
    """A changed template has a new version, unknown in the preview; new tags alone make none."""
    size = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": 100, "encrypted": "true"}}
    inputs = {"name": "tpl", "blockDeviceMappings": [size], "tags": {"a": "b"}}
    assert fresh.up(aws.TEMPLATE, "t", inputs)["latestVersion"] == 1
    assert fresh.up(aws.TEMPLATE, "t", inputs | {"tags": {}})["latestVersion"] == 1
    bigger = size | {"ebs": {"volumeSize": 200}}
    assert fresh.up(aws.TEMPLATE, "t", inputs | {"blockDeviceMappings": [bigger]})[
        "latestVersion"
    ] == 2  # fmt: skip
    fresh.up(aws.VPC, "v", {"cidrBlock": "10.0.0.0/16"})


def test_the_providers_default_tags_go_on_everything() -> None:
    """They show in tagsAll, in the account, and never in a resource's own tags."""
    with stack(defaultTags=json.dumps({"tags": {"team": "ml"}})) as made:
        outputs = made.up(aws.VPC, "net", {"cidrBlock": "10.0.0.0/16", "tags": {"Name": "net"}})
        assert outputs["tagsAll"] == {"Name": "net", "team": "ml"}
        assert outputs["tags"] == {"Name": "net"}
        assert made.refresh(aws.VPC, "net") == outputs


def test_the_providers_settings_are_read_strictly() -> None:
    """A region is needed; unknown settings and those with no meaning here are refused."""
    assert check_config({"region": "us-east-1", "profile": "dev"}) == []
    words = {"regoin": "did you mean 'region'", "endpoints": "does not simulate 'aws:endpoints'"}
    for name, text in words.items():
        (problem,) = check_config({"region": "us-east-1", name: "x"})
        assert text in problem.reason
    assert "is not set" in check_config({})[0].reason
    with pytest.raises(CloudError, match="one key, 'tags'"):
        default_tags({"defaultTags": '{"team": "ml"}'})


def test_nothing_of_the_persons_own_aws_settings_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles, keys and endpoints of the environment are gone once an account is there."""
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://192.0.2.1")
    with stack() as made:
        made.up(aws.VPC, "net", {"cidrBlock": "10.0.0.0/16"})
        assert "AWS_PROFILE" not in os.environ


def with_disk_driver(made: AwsStack) -> str:
    """The EBS CSI driver with its role; the role's name."""
    role = made.role("disks", aws.POD_TRUST[0], "AmazonEBSCSIDriverPolicyV2")
    made.up(aws.ADDON, "disks", {
        "clusterName": "k8s-ml",
        "addonName": "aws-ebs-csi-driver",
        "podIdentityAssociations": [{"roleArn": role, "serviceAccount": "ebs-csi-controller-sa"}],
    })  # fmt: skip
    return role.rpartition("/")[2]


def test_only_a_driver_with_its_rights_deletes_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not at once: the disk is still attached when its claim is gone. Without rights it stays,
    as it does when the cluster is deleted."""
    monkeypatch.setattr(attached, "RELEASE_SECONDS", 0.2)
    claim = Wanted(uid="9abc", kind="disk", name="default/data", driver="ebs.csi.aws.com")
    with stack() as made:
        kept = {"minSize": 1, "maxSize": 1, "desiredSize": 1}
        made.group(made.cluster(), scalingConfig=kept, taints=[])
        role = with_disk_driver(made)
        before = made.cloud.list_resources()
        iam, policy = made.cloud.account.client("iam"), (
            "arn:aws:iam::aws:policy/AmazonEBSCSIDriverPolicyV2"
        )  # fmt: skip
        handles = made.cloud.attach([claim])
        assert made.cloud.attach([]) == handles
        iam.detach_role_policy(RoleName=role, PolicyArn=policy)
        time.sleep(0.3)
        assert made.cloud.attach([]) == handles
        assert made.cloud.list_resources() != before
        iam.attach_role_policy(RoleName=role, PolicyArn=policy)
        assert made.cloud.attach([]) == {}
        assert made.cloud.list_resources() == before


def test_a_disk_is_attached_in_its_own_zone() -> None:
    """A node group that can start nodes in another zone fails the pod that mounts it, in EC2's
    words; so does a disk that is not there or that has not the driver's tag, and a driver without
    its rights."""
    labels = {"eks.amazonaws.com/nodegroup": "train-gpu"}
    mount = Mount(volume="default.data", namespace="default", service_account="default",
                  driver="ebs.csi.aws.com", attributes={}, options=(), writes=True, annotations={},
                  taints=(), node_labels=labels)  # fmt: skip
    with stack() as made:
        kept = {"minSize": 1, "maxSize": 1, "desiredSize": 1}
        made.group(made.cluster(), scalingConfig=kept, taints=[])
        says = made.cloud.why_not_mounted
        assert "the aws-ebs-csi-driver addon does not work: the cluster has none" in says(mount)
        with_disk_driver(made)
        assert "InvalidVolume.NotFound: The volume 'vol-1'" in says(replace(mount, handle="vol-1"))
        ec2 = made.cloud.account.client("ec2")
        here, there = (
            ec2.create_volume(AvailabilityZone=f"us-east-1{zone}", Size=1)["VolumeId"]
            for zone in "ab"
        )
        assert "UnauthorizedOperation" in says(replace(mount, handle=here))
        driven = [{"Key": "ebs.csi.aws.com/cluster", "Value": "true"}]
        ec2.create_tags(Resources=[here, there], Tags=driven)
        (group,) = made.cloud.account.groups.values()
        first, second = group.row["subnets"]
        assert "nodes of the node group can start in us-east-1b" in says(
            replace(mount, handle=here)
        )
        group.row["subnets"] = [first]
        assert says(replace(mount, handle=here)) == ""
        assert "The volume is in us-east-1b, and nodes" in says(replace(mount, handle=there))
        assert "runs as user 1000" in says(replace(mount, handle=here, user=1000))
        assert says(replace(mount, handle=here, user=1000, group=1000)) == ""
        assert second != first


def test_what_a_deleted_cluster_leaves_keeps_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load balancer's network interfaces keep their subnet, its security group the VPC. Without
    the driver's addon nothing makes a claim's disk."""
    balancer = Wanted(uid="1234-5678", kind="load balancer", name="default/web")
    monkeypatch.setattr(attached, "RELEASE_SECONDS", 0.0)
    claim = Wanted(
        uid="9abc", kind="disk", name="default/data", gib=7, driver="kubernetes.io/aws-ebs"
    )
    with stack() as made:
        kept = {"minSize": 1, "maxSize": 1, "desiredSize": 1}
        made.group(made.cluster(), scalingConfig=kept, taints=[])
        (eks_own,) = made.cloud.storage_classes()
        assert (eks_own["metadata"]["name"], eks_own["metadata"]["annotations"]) == ("gp2", {})
        assert made.cloud.attach([claim]) == {}
        with_disk_driver(made)
        before = made.cloud.list_resources()
        handles = made.cloud.attach([balancer, claim])
        assert handles["1234-5678"] == "a12345678.us-east-1.elb.amazonaws.com"
        assert handles["9abc"].startswith("ebs.csi.aws.com:vol-")
        ec2, identity = made.cloud.account.client("ec2"), handles["9abc"].rpartition(":")[2]
        (volume,) = ec2.describe_volumes(VolumeIds=[identity])["Volumes"]
        assert volume["Size"] == 7
        made.cloud.attach([])
        assert made.cloud.list_resources() == before
        made.cloud.attach([balancer, claim])
        kinds = [line.split()[0] for line in set(made.cloud.list_resources()) - set(before)]
        assert sorted(kinds) == ["EBS", "network", "security"]
        made.delete(aws.GROUP, "train-gpu")
        for addon in ("disks", "cni", "agent"):
            made.delete(aws.ADDON, addon)
        made.delete(aws.CLUSTER, "ml")
        made.cloud.attach([])
        with pytest.raises(Refused, match=r"DependencyViolation: .* dependencies .*ELB a12345678"):
            made.delete(aws.SUBNET, "us-east-1a")
