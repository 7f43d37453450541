"""The simulated AWS through boto3, as any client of AWS meets it: what is added to moto answers in
the shapes of botocore's models, and refuses in AWS's words.
"""

import base64
import json
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpu_cluster.rehearsal.simulators.aws.instances import why_no_quota
from gpu_cluster.rehearsal.simulators.cloud import GpuSharing
from gpu_cluster.stacks.capacity import eks_addons
from tests.simulators.aws_account import Account, role
from tests.unit.components.test_settings_eks import read

pytestmark = pytest.mark.usefixtures("emptied")

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def everything(client: Any, operation: str, key: str, *, size: int = 1, **given: Any) -> list[Any]:
    """All pages, of one thing each."""
    config = {"PageSize": size}
    pages = client.get_paginator(operation).paginate(**given, PaginationConfig=config)
    return [each for page in pages for each in page[key]]


def test_a_cluster_is_described_as_eks_does(ml: Account) -> None:
    """With the endpoint of the control plane, its own security group, and what was left out."""
    row = ml.eks.describe_cluster(name="ml")["cluster"]
    assert (row["status"], row["endpoint"]) == ("ACTIVE", "https://127.0.0.1:6443")
    config = row["resourcesVpcConfig"]
    assert config["subnetIds"] == ml.subnets
    assert config["publicAccessCidrs"] == ["0.0.0.0/0"]
    groups = ml.ec2.describe_security_groups(GroupIds=[config["clusterSecurityGroupId"]])
    assert groups["SecurityGroups"][0]["GroupName"] == "eks-cluster-sg-ml"
    assert row["upgradePolicy"] == {"supportType": "EXTENDED"}
    assert ml.eks.list_clusters()["clusters"] == ["ml"]


def test_an_addon_lives_and_dies(ml: Account) -> None:
    """Created, listed page by page, changed with an update to ask for, tagged and deleted."""
    for name in ("kube-proxy", "vpc-cni"):
        made = ml.eks.create_addon(clusterName="ml", addonName=name, tags={"team": "ml"})["addon"]
        assert made["status"] == "CREATING"
    assert everything(ml.eks, "list_addons", "addons", clusterName="ml") == [
        "kube-proxy", "vpc-cni",
    ]  # fmt: skip
    update = ml.eks.update_addon(
        clusterName="ml", addonName="kube-proxy", addonVersion="v1.35.2-eksbuild.1"
    )["update"]
    found = ml.eks.describe_update(name="ml", updateId=update["id"], addonName="kube-proxy")
    assert (found["update"]["type"], found["update"]["status"]) == ("AddonUpdate", "Successful")
    addon = ml.eks.describe_addon(clusterName="ml", addonName="kube-proxy")["addon"]
    assert (addon["addonVersion"], addon["status"]) == ("v1.35.2-eksbuild.1", "ACTIVE")
    ml.eks.tag_resource(resourceArn=addon["addonArn"], tags={"a": "b"})
    ml.eks.untag_resource(resourceArn=addon["addonArn"], tagKeys=["team"])
    assert ml.eks.list_tags_for_resource(resourceArn=addon["addonArn"])["tags"] == {"a": "b"}
    with pytest.raises(ClientError, match=r"ResourceInUse.*Addon already exists: kube-proxy"):
        ml.eks.create_addon(clusterName="ml", addonName="kube-proxy")
    with pytest.raises(ClientError, match="InvalidParameterException"):
        ml.eks.create_addon(clusterName="ml", addonName="kubeproxy")
    values = '{"env": {"WARM_IP_TARGET": 5}, "enableNetworkPolicy": "true"}'
    words = r"\[\$\.env\.WARM_IP_TARGET: integer found, string expected\]$"
    with pytest.raises(ml.eks.exceptions.InvalidParameterException, match=words):
        ml.eks.update_addon(clusterName="ml", addonName="vpc-cni", configurationValues=values)
    for name in ("kube-proxy", "vpc-cni"):
        ml.eks.delete_addon(clusterName="ml", addonName=name)
    with pytest.raises(ml.eks.exceptions.ResourceNotFoundException):
        ml.eks.describe_addon(clusterName="ml", addonName="vpc-cni")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("kubernetes.io/team", "a", "Tag key prefix 'kubernetes.io' is reserved"),
        ("CSIVolumeName", "a", "Tag key 'CSIVolumeName' is reserved"),
        ("ebs.csi.aws.com/cluster", "a", "Tag key 'ebs.csi.aws.com/cluster' is reserved"),
        ("team", "a,b", "malformed pair, expect string=string: b"),
    ],
)
def test_the_driver_of_disks_exits_on_a_tag(ml: Account, key: str, value: str, said: str) -> None:
    """The addon is created, and degraded until its configuration is repaired."""
    ml.group("system", scalingConfig={"minSize": 1, "maxSize": 1, "desiredSize": 1})
    values = json.dumps({"controller": {"extraVolumeTags": {key: value}}})
    name = "aws-ebs-csi-driver"
    ml.eks.create_addon(clusterName="ml", addonName=name, configurationValues=values)
    addon = ml.eks.describe_addon(clusterName="ml", addonName=name)["addon"]
    (issue,) = addon["health"]["issues"]
    assert (addon["status"], issue["message"].endswith(said)) == ("DEGRADED", True)


def test_an_upgrade_names_the_addon_that_does_not_fit(ml: Account) -> None:
    """kube-proxy is for one minor of Kubernetes; the CNI of the minor before fits this one, too."""
    now = str(ml.eks.describe_cluster(name="ml")["cluster"]["version"])
    major, _, number = now.partition(".")
    before = f"v{major}.{int(number) - 1}.0-eksbuild.1"
    for name in ("kube-proxy", "vpc-cni"):
        ml.eks.create_addon(clusterName="ml", addonName=name, addonVersion=before)
    cluster = "gpu-cluster:cluster"
    settings = read([cluster, "name", "ml"], [cluster, "version", now])
    findings, _ = eks_addons.addon_findings(ml.eks, settings, simulated=True)
    fits = f"v{now}.0-eksbuild.1"
    assert [str(finding) for finding in findings] == [
        f"cluster.addonVersions.kube-proxy: is not set, and the running version {before} does not "
        f"fit Kubernetes {now}; the default is {fits}, the newest is {fits}"
    ]


def test_an_addon_without_a_node_is_degraded(ml: Account) -> None:
    """Until there is one: its health is what is so now."""
    ml.eks.create_addon(clusterName="ml", addonName="coredns")
    addon = ml.eks.describe_addon(clusterName="ml", addonName="coredns")["addon"]
    assert addon["status"] == "DEGRADED"
    assert addon["health"]["issues"][0]["code"] == "InsufficientNumberOfReplicas"
    ml.group("system", scalingConfig={"minSize": 1, "maxSize": 1, "desiredSize": 1})
    addon = ml.eks.describe_addon(clusterName="ml", addonName="coredns")["addon"]
    assert (addon["status"], addon["health"]["issues"]) == ("ACTIVE", [])


def test_an_access_entry_and_its_policies(ml: Account) -> None:
    """An ARN with slashes is one path segment; a policy needs an entry, an entry a principal."""
    me = {"clusterName": "ml", "principalArn": role("team/admin")}
    scope = {"policyArn": ADMIN, "accessScope": {"type": "cluster"}}
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        ml.eks.associate_access_policy(**me, **scope)
    ml.eks.create_access_entry(**me, kubernetesGroups=["a"], tags={"x": "y"})
    ml.eks.associate_access_policy(**me, **scope)
    ml.eks.update_access_entry(**me, username="someone")
    entry = ml.eks.describe_access_entry(**me)["accessEntry"]
    assert (entry["username"], entry["kubernetesGroups"]) == ("someone", ["a"])
    (policy,) = everything(
        ml.eks, "list_associated_access_policies", "associatedAccessPolicies", **me
    )
    assert (policy["policyArn"], policy["accessScope"]["type"]) == (ADMIN, "cluster")
    found = everything(ml.eks, "list_access_entries", "accessEntries", clusterName="ml")
    assert role("team/admin") in found
    named = ml.eks.list_access_entries(clusterName="ml", associatedPolicyArn=ADMIN)
    assert role("team/admin") in named["accessEntries"]
    # Who signs with keys that nobody gave is taken for the admin.
    assert ml.sts.get_caller_identity()["Arn"].startswith(f"arn:aws:iam::{role('x')[13:25]}:")
    ml.eks.disassociate_access_policy(**me, policyArn=ADMIN)
    ml.eks.delete_access_entry(**me)
    for principal, words in (
        ("admin", "The principalArn parameter format is not valid"),
        (role("admin"), "The specified principalArn is invalid: invalid principal."),
        (role("aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS"),
         "The caller is not allowed to modify access entries with a principalArn value of a "
         "Service Linked Role"),
    ):  # fmt: skip
        with pytest.raises(ClientError, match=rf"InvalidParameter.*: {words}$"):
            ml.eks.create_access_entry(clusterName="ml", principalArn=principal)


def test_a_pod_identity_association(ml: Account) -> None:
    """Found by its account; a role that does not trust pods, and a second one, are refused."""
    given = {"clusterName": "ml", "namespace": "team", "serviceAccount": "job"}
    with pytest.raises(ClientError, match=r"does not let pods\.eks\.amazonaws\.com take it"):
        ml.eks.create_pod_identity_association(**given, roleArn=role("nodes"))
    made = ml.eks.create_pod_identity_association(**given, roleArn=role("pods"))["association"]
    one = {"clusterName": "ml", "associationId": made["associationId"]}
    with pytest.raises(ml.eks.exceptions.ResourceInUseException):
        ml.eks.create_pod_identity_association(**given, roleArn=role("pods"))
    assert ml.eks.describe_pod_identity_association(**one)["association"]["roleArn"] == role("pods")
    ml.eks.update_pod_identity_association(**one, roleArn=role("pods"), disableSessionTags=True)
    listed = ml.eks.list_pod_identity_associations(clusterName="ml", namespace="team")
    (row,) = listed["associations"]
    assert (row["serviceAccount"], "roleArn" in row) == ("job", False)
    assert ml.eks.list_pod_identity_associations(clusterName="ml", namespace="x")[
        "associations"
    ] == []  # fmt: skip
    with pytest.raises(ClientError, match="DeleteConflict"):
        ml.iam.delete_role(RoleName="pods")
    ml.eks.delete_pod_identity_association(**one)


def test_a_node_group_and_its_auto_scaling_group(ml: Account) -> None:
    """The group is there under the name that EKS tells, with its launch template and its tags."""
    row = ml.group("train-gpu")
    assert (row["status"], row["amiType"]) == ("ACTIVE", "AL2023_x86_64_NVIDIA")
    (name,) = [each["name"] for each in row["resources"]["autoScalingGroups"]]
    answer = ml.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
    (group,) = answer["AutoScalingGroups"]
    assert (group["MinSize"], group["MaxSize"], group["DesiredCapacity"]) == (0, 2, 0)
    template = group["LaunchTemplate"]
    version = ml.ec2.describe_launch_template_versions(
        LaunchTemplateId=template["LaunchTemplateId"], Versions=[template["Version"]]
    )["LaunchTemplateVersions"][0]
    assert version["LaunchTemplateData"]["InstanceType"] == "g4dn.xlarge"
    tag = {"ResourceId": name, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": True}
    key = "k8s.io/cluster-autoscaler/node-template/label/role"
    ml.autoscaling.create_or_update_tags(Tags=[tag | {"Key": key, "Value": "train-gpu"}])
    tags = ml.autoscaling.describe_tags(Filters=[{"Name": "auto-scaling-group", "Values": [name]}])
    found = {each["Key"]: each["Value"] for each in tags["Tags"]}
    assert found[key] == "train-gpu"
    assert found["k8s.io/cluster-autoscaler/enabled"] == "true"
    with pytest.raises(ClientError, match="ValidationError"):
        ml.autoscaling.create_or_update_tags(Tags=[tag | {"Key": "aws:x", "Value": "y"}])
    ml.eks.update_nodegroup_config(
        clusterName="ml",
        nodegroupName="train-gpu",
        labels={"addOrUpdateLabels": {"a": "b"}, "removeLabels": ["role"]},
        taints={"addOrUpdateTaints": [{"key": "gpu", "effect": "NO_SCHEDULE"}]},
        scalingConfig={"minSize": 0, "maxSize": 3, "desiredSize": 1},
    )
    row = ml.described("train-gpu")
    assert (row["labels"], row["taints"][0]["key"]) == ({"a": "b"}, "gpu")
    assert row["scalingConfig"] == {"minSize": 0, "maxSize": 3, "desiredSize": 1}
    with pytest.raises(ml.eks.exceptions.ResourceInUseException):
        ml.eks.delete_cluster(name="ml")
    ml.eks.delete_nodegroup(clusterName="ml", nodegroupName="train-gpu")
    answer = ml.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
    assert answer["AutoScalingGroups"] == []
    assert ml.eks.list_nodegroups(clusterName="ml")["nodegroups"] == []


def running(ml: Account, group: str) -> list[str]:
    """Ids of instances that are running and in the group, by EC2 and by Auto Scaling."""
    filters = [
        {"Name": "tag:aws:autoscaling:groupName", "Values": [group]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    reservations = ml.ec2.describe_instances(Filters=filters)["Reservations"]
    ids = sorted(instance["InstanceId"] for one in reservations for instance in one["Instances"])
    rows = ml.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])
    held = [instance["InstanceId"] for instance in rows["AutoScalingGroups"][0]["Instances"]]
    assert ids == sorted(held)
    return ids


def test_anybody_scales_a_node_group(ml: Account) -> None:
    """What Cluster Autoscaler asks, with its parameters: instances come and go, each with the
    provider id of a node that the rehearsal starts; the network is free of them afterwards."""
    seen: list[int] = []
    count = lambda: sum(group.target_nodes for group in ml.cloud.node_groups())  # noqa: E731
    ml.cloud.on_change(lambda: seen.append(count()))
    row = ml.group("train-gpu")
    name = row["resources"]["autoScalingGroups"][0]["name"]
    scale = ml.autoscaling.set_desired_capacity
    scale(AutoScalingGroupName=name, DesiredCapacity=2, HonorCooldown=False)
    first, second = running(ml, name)
    (group,) = ml.cloud.node_groups()
    assert sorted(group.instances) == [f"aws:///us-east-1a/{each}" for each in (first, second)]
    assert ml.described("train-gpu")["scalingConfig"]["desiredSize"] == 2
    with pytest.raises(ClientError, match=r"ValidationError.*: New SetDesiredCapacity value 3 is"):
        scale(AutoScalingGroupName=name, DesiredCapacity=3)
    ml.autoscaling.terminate_instance_in_auto_scaling_group(
        InstanceId=first, ShouldDecrementDesiredCapacity=True
    )
    assert running(ml, name) == [second]
    with pytest.raises(ClientError, match="No managed instance found"):
        ml.autoscaling.terminate_instance_in_auto_scaling_group(
            InstanceId=first, ShouldDecrementDesiredCapacity=True
        )
    # The rehearsal's own autoscaler adds one, and ends its own alone.
    ml.cloud.set_size("train-gpu", 2)
    assert len(running(ml, name)) == 2
    ml.cloud.set_size("train-gpu", 0)
    assert running(ml, name) == [second]
    ml.autoscaling.update_auto_scaling_group(AutoScalingGroupName=name, DesiredCapacity=0)
    assert running(ml, name) == []
    assert seen[-1] == 0
    assert max(seen) == 2
    activities = ml.autoscaling.describe_scaling_activities(AutoScalingGroupName=name)["Activities"]
    assert activities[0]["Description"] == f"Terminating EC2 instance: {second}"
    assert everything(ml.autoscaling, "describe_scaling_activities", "Activities") == activities
    ml.eks.delete_nodegroup(clusterName="ml", nodegroupName="train-gpu")
    assert not any(line.startswith(("instance", "Auto")) for line in ml.cloud.list_resources())


def test_a_quota_ends_the_scaling_and_says_so(ml: Account) -> None:
    """A second g4dn.xlarge does not fit into 4 vCPUs: the activity fails, as Cluster Autoscaler
    reads it, and the quota is what Service Quotas tells."""
    ml.faults.quota["G_VT"] = 4
    name = ml.group("train-gpu")["resources"]["autoScalingGroups"][0]["name"]
    ml.autoscaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=2)
    assert len(running(ml, name)) == 1
    answer = ml.autoscaling.describe_scaling_activities(AutoScalingGroupName=name)
    assert answer["Activities"][0]["StatusCode"] == "Failed"
    assert "VcpuLimitExceeded" in answer["Activities"][0]["StatusMessage"]
    quota = ml.service_quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-DB2E81BA")
    assert quota["Quota"]["Value"] == 4
    rows = everything(ml.service_quotas, "list_service_quotas", "Quotas", ServiceCode="ec2")
    assert [row["Value"] for row in rows if row["QuotaCode"] == "L-DB2E81BA"] == [4]


def test_a_version_update_takes_time(ml: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster is UPDATING until it is over, and takes no other change of itself before."""
    end: list[Callable[[], None]] = []
    timer = SimpleNamespace(start=lambda: None, daemon=True)
    monkeypatch.setattr("threading.Timer", lambda seconds, work: end.append(work) or timer)
    old, new = "1.35", ml.eks.describe_cluster(name="ml")["cluster"]["version"]
    ml.cloud.account.clusters["ml"].row["version"] = old
    update = ml.eks.update_cluster_version(name="ml", version=new)["update"]
    row = ml.eks.describe_cluster(name="ml")["cluster"]
    assert (row["status"], row["version"]) == ("UPDATING", old)
    asked = {"name": "ml", "updateId": update["id"]}
    assert ml.eks.describe_update(**asked)["update"]["status"] == "InProgress"
    words = f"DeletionProtectionUpdate because cluster ml currently has update {update['id']}"
    with pytest.raises(ClientError, match=f"ResourceInUseException.*Cannot {words}"):
        ml.eks.update_cluster_config(name="ml", deletionProtection=True)
    end[0]()
    row = ml.eks.describe_cluster(name="ml")["cluster"]
    assert (row["status"], row["version"]) == ("ACTIVE", new)
    assert ml.eks.describe_update(**asked)["update"]["status"] == "Successful"


def test_a_version_is_rolled_back_for_seven_days(
    ml: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same request with the previous minor, once, after the node groups."""
    end: list[Callable[[], None]] = []
    timer = SimpleNamespace(start=lambda: None, daemon=True)
    monkeypatch.setattr("threading.Timer", lambda seconds, work: end.append(work) or timer)
    new = ml.eks.describe_cluster(name="ml")["cluster"]["version"]
    cluster, old = ml.cloud.account.clusters["ml"], "1.35"
    cluster.row["version"] = old
    ml.eks.update_cluster_version(name="ml", version=new)
    end.pop()()
    cluster.upgraded = (old, time.monotonic() - 8 * 24 * 3600)
    with pytest.raises(ClientError, match="Unsupported Kubernetes minor version update"):
        ml.eks.update_cluster_version(name="ml", version=old)
    cluster.upgraded = (old, time.monotonic())
    with pytest.raises(ClientError, match="Unsupported Kubernetes minor version update"):
        ml.eks.update_cluster_version(name="ml", version="1.34")
    update = ml.eks.update_cluster_version(name="ml", version=old)["update"]
    assert update["type"] == "VersionRollback"
    end.pop()()
    assert ml.eks.describe_cluster(name="ml")["cluster"]["version"] == old
    # No rollback of a rollback.
    with pytest.raises(ClientError):
        ml.eks.update_cluster_version(name="ml", version="1.34")
    cluster.row["version"] = new


def test_a_node_group_is_rolled_back_before_its_cluster(ml: Account) -> None:
    """EKS refuses the control plane's rollback while nodes are newer than its target."""
    version = ml.eks.describe_cluster(name="ml")["cluster"]["version"]
    ml.group("train-gpu", scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 0})
    named = {"clusterName": "ml", "nodegroupName": "train-gpu"}
    with pytest.raises(ClientError, match="cannot roll back a node group"):
        ml.eks.update_nodegroup_version(**named, version="1.35")
    ml.cloud.account.clusters["ml"].upgraded = ("1.35", time.monotonic())
    with pytest.raises(ClientError, match=rf"train-gpu \({version}\)"):
        ml.eks.update_cluster_version(name="ml", version="1.35")
    ml.eks.update_nodegroup_version(**named, version="1.35")
    assert ml.described("train-gpu")["version"] == "1.35"
    ml.cloud.account.clusters["ml"].upgraded = ("", 0.0)


def test_the_autoscaler_ends_a_node_that_somebody_else_wanted(ml: Account) -> None:
    """That very instance, without a successor: another may be busy."""
    name = ml.group("train-gpu")["resources"]["autoScalingGroups"][0]["name"]
    ml.autoscaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=2)
    first, second = running(ml, name)
    zone = next(group for group in ml.cloud.node_groups() if group.name == "train-gpu").instances
    assert zone is not None
    ml.cloud.release("train-gpu", next(one for one in zone if one.endswith(first)))
    assert running(ml, name) == [second]


def test_a_rehearsals_quota_suffices_for_its_node_groups(
    ml: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 nodes of 48 vCPUs are more than an account has by itself."""
    asked = (ml.cloud.account, "another", ["g4dn.12xlarge"], False, 100)
    assert "vCPU limit of 2048 allows" in why_no_quota(*asked)
    monkeypatch.setattr(ml.cloud.account, "quota_suffices", True)
    assert why_no_quota(*asked) == ""
    sizes = {"minSize": 0, "maxSize": 100, "desiredSize": 0}
    ml.group("train-gpu", instanceTypes=["g4dn.12xlarge"], scalingConfig=sizes)
    quota = ml.service_quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-DB2E81BA")
    assert quota["Quota"]["Value"] == 4800


def test_nodes_that_cannot_join_end_in_create_failed(ml: Account) -> None:
    """The node group says so and stays until somebody deletes it."""
    policy = {"RoleName": "nodes", "PolicyArn": "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"}
    ml.iam.detach_role_policy(**policy)
    row = ml.group("train-gpu", scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 1})
    assert row["status"] == "CREATE_FAILED"
    (issue,) = row["health"]["issues"]
    assert issue["code"] == "NodeCreationFailure"
    assert "attach AmazonEKS_CNI_Policy" in issue["message"]
    assert ml.cloud.node_groups() == []
    ml.eks.delete_nodegroup(clusterName="ml", nodegroupName="train-gpu")
    ml.iam.attach_role_policy(**policy)


def test_versions_follow_each_other(ml: Account) -> None:
    """What may follow, and how long in life the nodes take."""
    with pytest.raises(ClientError, match="InvalidParameterException"):
        ml.eks.update_cluster_version(name="ml", version="1.30")
    ml.group("train-gpu", releaseVersion="1.36.2-20260714",
             scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 1})  # fmt: skip
    named = {"clusterName": "ml", "nodegroupName": "train-gpu"}
    recycled = threading.Event()
    ml.cloud.followed(lambda *_: "done" if recycled.is_set() else "going on")
    answer = ml.eks.update_nodegroup_version(**named, releaseVersion="1.36.3-20261015")
    assert answer["ResponseMetadata"]["HTTPHeaders"]["x-simulated-seconds"] == "420.0"
    assert ml.described("train-gpu")["status"] == "UPDATING"
    recycled.set()
    ml.eks.get_waiter("nodegroup_active").wait(**named, WaiterConfig={"Delay": 1})
    update = ml.eks.describe_update(
        name="ml", nodegroupName="train-gpu", updateId=answer["update"]["id"]
    )
    assert update["update"]["status"] == "Successful"
    assert ml.cloud.node_groups()[0].revision == 1
    with pytest.raises(ClientError, match="cannot roll back a node group"):
        ml.eks.update_nodegroup_version(**named, version="1.35")
    updates = everything(ml.eks, "list_updates", "updateIds", name="ml", nodegroupName="train-gpu")
    assert updates == [answer["update"]["id"]]


def test_a_node_that_needs_it_keeps_what_would_be_taken_away(ml: Account) -> None:
    """Any client is refused what a node group could no longer be deleted without."""
    ml.group("train-gpu")
    policy = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
    tables = ml.ec2.describe_route_tables()["RouteTables"]
    (table,) = [one for one in tables if any(a.get("SubnetId") for a in one["Associations"])]
    attempts = [
        lambda: ml.iam.detach_role_policy(RoleName="nodes", PolicyArn=policy),
        lambda: ml.ec2.delete_route(
            RouteTableId=table["RouteTableId"], DestinationCidrBlock="0.0.0.0/0"
        ),
        lambda: ml.ec2.delete_subnet(SubnetId=ml.subnets[0]),
        lambda: ml.iam.delete_role(RoleName="nodes"),
    ]
    before = ml.cloud.list_resources()
    for attempt in attempts:
        with pytest.raises(ClientError):
            attempt()
    assert ml.cloud.list_resources() == before


def test_bottlerockets_user_data_shares_the_gpus(ml: Account) -> None:
    """Read from the launch template that EC2 keeps, whichever client wrote it."""
    plugin = "settings.kubelet-device-plugins.nvidia"
    text = f"""[{plugin}]
device-sharing-strategy = "time-slicing"
[{plugin}.time-slicing]
replicas = 4
rename-by-default = false
"""
    data = {"InstanceType": "g4dn.xlarge", "UserData": base64.b64encode(text.encode()).decode()}
    ml.ec2.create_launch_template(LaunchTemplateName="shared", LaunchTemplateData=data)
    template = {"name": "shared", "version": "1"}
    ml.eks.create_nodegroup(
        clusterName="ml",
        nodegroupName="shared",
        nodeRole=role("nodes"),
        subnets=ml.subnets,
        amiType="BOTTLEROCKET_x86_64_NVIDIA",
        scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 0},
        launchTemplate=template,
    )
    (group,) = (one for one in ml.cloud.node_groups() if one.name == "shared")
    assert group.sharing == GpuSharing(strategy="time-slicing", replicas=4, most=1)
    assert group.node.capacity["nvidia.com/gpu"] == "4"


def test_what_ec2_offers(ml: Account) -> None:
    """Instance types by zone, and Capacity Blocks of those that have them."""
    filters = [{"Name": "instance-type", "Values": ["g7e.2xlarge"]}]
    rows = everything(
        ml.ec2, "describe_instance_type_offerings", "InstanceTypeOfferings", size=5,
        LocationType="availability-zone", Filters=filters,
    )  # fmt: skip
    assert sorted(row["Location"] for row in rows) == ["us-east-1a", "us-east-1c"]
    ask = ml.ec2.describe_capacity_block_offerings
    offers = ask(InstanceType="p5.48xlarge", InstanceCount=2, CapacityDurationHours=48)
    offer = offers["CapacityBlockOfferings"][0]
    assert (offer["InstanceCount"], offer["CapacityBlockDurationHours"]) == (2, 48)
    assert float(offer["UpfrontFee"]) > 1000
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        ask(InstanceType="g4dn.xlarge", CapacityDurationHours=48)


def test_a_fault_is_the_apis(ml: Account) -> None:
    """Whoever asks next gets the error, once."""
    ml.faults.errors["eks:ListAddons"] = ["ThrottlingException: Rate exceeded"]
    with pytest.raises(ClientError, match=r"ThrottlingException.*Rate exceeded"):
        ml.cloud.account.client("eks").list_addons(clusterName="ml")
    assert ml.eks.list_addons(clusterName="ml")["addons"] == []


def test_an_answer_takes_milliseconds(ml: Account) -> None:
    """Of the CPU, with all that the client does: how long one waits says more of the machine."""
    started = time.process_time()
    for _ in range(100):
        ml.eks.describe_cluster(name="ml")
    assert time.process_time() - started < 100 * 0.02


def test_a_type_that_nothing_lists_is_seen_by_its_tags(ml: Account) -> None:
    """A leak of a type that moto has is one, with no line of ours for the type."""
    ec2 = ml.ec2
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    tags = [{"ResourceType": "egress-only-internet-gateway", "Tags": [{"Key": "a", "Value": "b"}]}]
    before = {*ml.cloud.list_resources()}
    gateway = ec2.create_egress_only_internet_gateway(VpcId=vpc, TagSpecifications=tags)
    name = gateway["EgressOnlyInternetGateway"]["EgressOnlyInternetGatewayId"]
    assert {*ml.cloud.list_resources()} - before == {f"egress-only-internet-gateway {name}"}
    ec2.delete_egress_only_internet_gateway(EgressOnlyInternetGatewayId=name)
    tags = [{"ResourceType": "elastic-ip", "Tags": [{"Key": "a", "Value": "b"}]}]
    address = ec2.allocate_address(Domain="vpc", TagSpecifications=tags)["AllocationId"]
    assert {*ml.cloud.list_resources()} - before == {f"elastic IP {address}"}
    ec2.release_address(AllocationId=address)
    assert {*ml.cloud.list_resources()} == before
