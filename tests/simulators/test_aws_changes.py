"""What stays right on the simulated AWS while any client changes what belongs together there:
launch templates under node groups, associations under addons, policies under admins, tags."""

import json
import threading
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpu_cluster.rehearsal.simulators.aws import eks, node_groups
from tests.simulators.aws_account import NUMBER, Account, role

pytestmark = pytest.mark.usefixtures("emptied")

POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKS{}Policy".format
EBS, CNI = "aws-ebs-csi-driver", "vpc-cni"


def test_a_node_group_outlives_its_launch_template(ml: Account) -> None:
    """EKS read it when the group was made; a change of the group needs it again."""
    vpc = ml.ec2.describe_subnets(SubnetIds=ml.subnets)["Subnets"][0]["VpcId"]
    given = {"GroupName": "own", "Description": "own", "VpcId": vpc}
    network = ml.eks.describe_cluster(name="ml")["cluster"]["resourcesVpcConfig"]
    for gone in ("template", "security group"):
        own = ml.ec2.create_security_group(**given)["GroupId"]
        disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 200}}
        groups = [own, network["clusterSecurityGroupId"]]
        data = {"SecurityGroupIds": groups, "BlockDeviceMappings": [disk]}
        ml.ec2.create_launch_template(LaunchTemplateName="own", LaunchTemplateData=data)
        ml.group("train-gpu", launchTemplate={"name": "own", "version": "1"})
        before = ml.cloud.node_groups()
        if gone == "template":
            ml.ec2.delete_launch_template(LaunchTemplateName="own")
        ml.ec2.delete_security_group(GroupId=own)
        assert ml.described("train-gpu")["status"] == "ACTIVE"
        assert ml.cloud.node_groups() == before
        assert before[0].node.capacity["ephemeral-storage"] == f"{200 * 1024 * 9 // 10 - 1024}Mi"
        with pytest.raises(ClientError, match=f"({own}'|template own) does not exist"):
            ml.eks.update_nodegroup_config(
                clusterName="ml",
                nodegroupName="train-gpu",
                labels={"addOrUpdateLabels": {"a": "b"}},
            )
        ml.eks.delete_nodegroup(clusterName="ml", nodegroupName="train-gpu")
    ml.ec2.delete_launch_template(LaunchTemplateName="own")


def test_an_addon_shows_the_associations_that_it_has(ml: Account) -> None:
    """Not one that somebody deleted, and after a refused change those from before."""
    ml.group("system", scalingConfig={"minSize": 1, "maxSize": 1, "desiredSize": 1})
    ask = {"clusterName": "ml", "addonName": EBS}
    mine = {"serviceAccount": "ebs-csi-controller-sa", "roleArn": role("pods")}
    ml.eks.create_addon(**ask, podIdentityAssociations=[mine])
    (arn,) = ml.eks.describe_addon(**ask)["addon"]["podIdentityAssociations"]
    with pytest.raises(ClientError, match=r"does not let pods\.eks\.amazonaws\.com take it"):
        ml.eks.update_addon(**ask, podIdentityAssociations=[mine | {"roleArn": role("nodes")}])
    assert ml.eks.describe_addon(**ask)["addon"]["podIdentityAssociations"] == [arn]
    ml.eks.delete_pod_identity_association(clusterName="ml", associationId=arn.rpartition("/")[2])
    addon = ml.eks.describe_addon(**ask)["addon"]
    assert (addon["status"], addon["podIdentityAssociations"]) == ("DEGRADED", [])
    (issue,) = addon["health"]["issues"]
    assert "service account ebs-csi-controller-sa, which has no role" in issue["message"]


def test_the_role_of_the_cni_is_changed_under_running_nodes(ml: Account) -> None:
    """What nodes need is there before and after; in between nobody looks."""
    for name in ("pods", "team"):
        if name == "team":
            trust = ml.iam.get_role(RoleName="pods")["Role"]["AssumeRolePolicyDocument"]
            ml.iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
        ml.iam.attach_role_policy(
            RoleName=name, PolicyArn="arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"
        )
    ask, agent = {"clusterName": "ml", "addonName": CNI}, "eks-pod-identity-agent"
    ml.eks.create_addon(clusterName="ml", addonName=agent)
    mine = {"serviceAccount": "aws-node", "roleArn": role("pods")}
    ml.eks.create_addon(**ask, podIdentityAssociations=[mine])
    ml.iam.detach_role_policy(
        RoleName="nodes", PolicyArn="arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"
    )
    ml.group("train-gpu")
    ml.eks.update_addon(**ask, podIdentityAssociations=[mine | {"roleArn": role("team")}])
    with pytest.raises(ClientError, match="AWS would do this, but"):
        ml.eks.update_addon(**ask, podIdentityAssociations=[])
    (arn,) = ml.eks.describe_addon(**ask)["addon"]["podIdentityAssociations"]
    found = ml.eks.describe_pod_identity_association(
        clusterName="ml", associationId=arn.rpartition("/")[2]
    )
    assert found["association"]["roleArn"] == role("team")
    ml.eks.delete_nodegroup(clusterName="ml", nodegroupName="train-gpu")
    ml.iam.attach_role_policy(
        RoleName="nodes", PolicyArn="arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"
    )
    for name in (CNI, agent):
        ml.eks.delete_addon(clusterName="ml", addonName=name)


def test_tags_outlive_a_new_version(ml: Account) -> None:
    """Those that somebody put on a group which was made without any."""
    arn = ml.group("train-gpu", releaseVersion="1.36.2-20260714")["nodegroupArn"]
    ml.eks.tag_resource(resourceArn=arn, tags={"team": "ml"})
    named = {"clusterName": "ml", "nodegroupName": "train-gpu"}
    ml.eks.update_nodegroup_version(**named, releaseVersion="1.36.3-20261015")
    assert ml.described("train-gpu")["tags"] == {"team": "ml"}


@pytest.mark.parametrize(
    ("far", "errors"),
    [("done", []), ("held", ["PodEvictionFailure"]), ("starting", ["NodeCreationFailure"])],
)
def test_an_update_ends_with_the_nodes(
    ml: Account, monkeypatch: pytest.MonkeyPatch, far: str, errors: list[str]
) -> None:
    """One whose node does not leave, or whose new node is never ready, fails, and the group is what
    it was before; until it has ended, no other starts."""
    going = threading.Event()
    monkeypatch.setattr(node_groups, "wait_for_nodes", lambda *_, nodes: going.wait() and far)
    one = {"minSize": 1, "maxSize": 1, "desiredSize": 1}
    ml.group("train-gpu", releaseVersion="1.36.2-20260714", scalingConfig=one)
    named = {"clusterName": "ml", "nodegroupName": "train-gpu"}
    update = ml.eks.update_nodegroup_version(**named, releaseVersion="1.36.3-20261015")["update"]
    for change in (ml.eks.update_nodegroup_version, ml.eks.update_nodegroup_config):
        with pytest.raises(ClientError, match=r"ResourceInUse.*currently not in Active State"):
            change(**named)
    going.set()
    ml.eks.get_waiter("nodegroup_active").wait(**named, WaiterConfig={"Delay": 1})
    found = ml.eks.describe_update(name="ml", nodegroupName="train-gpu", updateId=update["id"])
    assert [error["errorCode"] for error in found["update"]["errors"]] == errors
    assert found["update"]["status"] == ("Failed" if errors else "Successful")
    release = "1.36.2-20260714" if errors else "1.36.3-20261015"
    assert ml.described("train-gpu")["releaseVersion"] == release
    assert ml.described("train-gpu")["scalingConfig"] == one
    # Whatever ran of the failed one, the next one replaces.
    monkeypatch.setattr(node_groups, "wait_for_nodes", lambda *_, nodes: "done")
    ml.eks.update_nodegroup_version(**named, releaseVersion="1.36.3-20261016")
    assert ml.cloud.node_groups()[0].revision == 2


def test_only_nodes_that_eks_started_get_successors_before_they_go(
    ml: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an update of a group that is deleted meanwhile ends in peace."""
    going, failed, update = threading.Event(), list[Any](), {"maxUnavailable": 1}
    monkeypatch.setattr(threading, "excepthook", lambda args: failed.append(args.exc_value))
    monkeypatch.setattr(node_groups, "wait_for_nodes", lambda *_, nodes: going.wait() and "done")
    sizes = {"minSize": 1, "maxSize": 4, "desiredSize": 1}
    ml.group(
        "train-gpu", releaseVersion="1.36.2-20260714", scalingConfig=sizes, updateConfig=update
    )
    ml.cloud.set_size("train-gpu", 3)
    named = {"clusterName": "ml", "nodegroupName": "train-gpu"}
    before = {*threading.enumerate()}
    ml.eks.update_nodegroup_version(**named, releaseVersion="1.36.3-20261015")
    (group,) = ml.cloud.node_groups()
    assert (group.target_nodes, group.surging, group.max_nodes) == (2, 1, 5)
    ml.eks.delete_nodegroup(**named)
    going.set()
    for thread in {*threading.enumerate()} - before:
        thread.join(10)
    assert failed == []


def test_a_version_that_is_none_is_refused(ml: Account) -> None:
    """In EKS's words, new or changed."""
    with pytest.raises(ClientError, match=r"InvalidParameter.* version foo is invalid\. Allowed"):
        ml.group("train-gpu", version="foo")
    ml.group("train-gpu")
    with pytest.raises(ClientError, match="InvalidParameterException"):
        ml.eks.update_nodegroup_version(clusterName="ml", nodegroupName="train-gpu", version="foo")


def test_another_policy_takes_no_admin_away(ml: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """An access policy works ten seconds after it was associated, whatever comes later."""
    clock = _Clock()
    monkeypatch.setattr(eks, "time", clock)
    monkeypatch.setattr("gpu_cluster.rehearsal.simulators.aws.access.time", clock)
    cluster = ml.cloud.account.clusters["ml"]
    monkeypatch.setattr(cluster, "grew", 0.0)
    monkeypatch.setattr(cluster, "policies", {})
    me = {"clusterName": "ml", "principalArn": role("team/admin")}
    whole = {"accessScope": {"type": "cluster"}}
    ml.eks.create_access_entry(**me)
    ml.eks.associate_access_policy(**me, **whole, policyArn=POLICY("ClusterAdmin"))
    clock.now += 4
    for policy in ("View", "ClusterAdmin"):
        ml.eks.associate_access_policy(**me, **whole, policyArn=POLICY(policy))
        assert (eks.access_granted(cluster), eks.access_due(cluster)) == (False, 6.0)
    clock.now += 6
    assert (eks.access_granted(cluster), eks.access_due(cluster)) == (True, None)
    ml.eks.associate_access_policy(**me, **whole, policyArn=POLICY("Edit"))
    assert eks.access_granted(cluster)
    some = {"accessScope": {"type": "namespace", "namespaces": ["team"]}}
    for scope in (some, whole):
        ml.eks.associate_access_policy(**me, **scope, policyArn=POLICY("ClusterAdmin"))
    assert (eks.access_granted(cluster), eks.access_due(cluster)) == (False, 10.0)
    ml.eks.delete_access_entry(**me)


class _Clock:
    """The time module's, which stands still."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_whoever_may_only_look_is_not_the_admin(ml: Account) -> None:
    """Keys that nobody gave are those of an admin of the cluster, not of any principal."""
    cluster = ml.cloud.account.clusters["ml"]
    me = {"clusterName": "ml", "principalArn": role("team/admin")}
    creator = f"arn:aws:iam::{NUMBER}:user/rehearsal"
    entry, policies = cluster.entries.pop(creator), cluster.policies.pop(creator)
    ml.eks.create_access_entry(**me)
    scope = {"accessScope": {"type": "cluster"}}
    ml.eks.associate_access_policy(**me, **scope, policyArn=POLICY("View"))
    assert ml.sts.get_caller_identity()["Arn"] == f"arn:aws:iam::{NUMBER}:user/rehearsal"
    ml.eks.associate_access_policy(**me, **scope, policyArn=POLICY("ClusterAdmin"))
    assert ml.sts.get_caller_identity()["Arn"].endswith(":assumed-role/admin/rehearsal")
    ml.eks.delete_access_entry(**me)
    other = me | {"principalArn": "arn:aws:iam::999999999999:role/admin"}
    ml.eks.create_access_entry(**other)
    ml.eks.associate_access_policy(**other, **scope, policyArn=POLICY("ClusterAdmin"))
    who = ml.sts.get_caller_identity()
    # `recover` refuses to judge resources of an account that is not the one that answers.
    assert (who["Account"], who["Arn"].split(":")[4]) == (NUMBER, "999999999999")
    ml.eks.delete_access_entry(**other)
    cluster.entries[creator], cluster.policies[creator] = entry, policies


def test_the_key_that_ebs_makes_itself_is_managed_by_aws(ml: Account) -> None:
    """Not by the customer, whose keys others may lack the right to use."""
    ml.ec2.create_volume(AvailabilityZone="us-east-1a", Size=1, Encrypted=True)
    default = ml.ec2.get_ebs_default_kms_key_id()["KmsKeyId"]
    assert default.startswith("arn:")
    assert ml.kms.describe_key(KeyId=default)["KeyMetadata"]["KeyManager"] == "AWS"
    own = ml.kms.create_key()["KeyMetadata"]
    assert own["KeyManager"] == "CUSTOMER"
    ml.kms.schedule_key_deletion(KeyId=own["KeyId"])


def test_an_auto_scaling_group_takes_fifty_tags(ml: Account) -> None:
    """However many of them come at once; five are EKS's."""
    name = ml.group("train-gpu")["resources"]["autoScalingGroups"][0]["name"]
    tag = {"ResourceId": name, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": True}
    many: list[dict[str, Any]] = [tag | {"Key": f"k{n}", "Value": "v"} for n in range(46)]
    with pytest.raises(ClientError, match="takes 50 tags"):
        ml.autoscaling.create_or_update_tags(Tags=many)
    ml.autoscaling.create_or_update_tags(Tags=many[:45])
    ml.autoscaling.create_or_update_tags(Tags=many[:45])


SERVICE_ROLE = "aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
AUTO_SCALING = role(SERVICE_ROLE)
LAUNCHED = "Instance became unhealthy while waiting for instance to be in InService state. "


def key_policy(*statements: dict[str, Any]) -> str:
    root = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{NUMBER}:root"},
            "Action": "kms:*", "Resource": "*"}  # fmt: skip
    return json.dumps({"Version": "2012-10-17", "Statement": [root, *statements]})


def lets_use(principal: Any, **condition: Any) -> list[dict[str, Any]]:
    """The two statements that AWS's guide prints, for this principal."""
    shared = {"Effect": "Allow", "Principal": principal, "Resource": "*"}
    use = [
        "kms:Encrypt",
        "kms:Decrypt",
        "kms:ReEncrypt*",
        "kms:GenerateDataKey*",
        "kms:DescribeKey",
    ]
    grant = {"Bool": {"kms:GrantIsForAWSResource": True}}
    return [
        {**shared, "Action": use, **condition},
        {**shared, "Action": "kms:CreateGrant", "Condition": grant},
    ]


@pytest.mark.parametrize(
    ("statements", "state", "reason"),
    [
        ([], "Enabled", "Termination Reason: Client.InternalError: Client error on launch"),
        (lets_use({"AWS": role("nodes")}), "Enabled", "Client.InternalError: Client error on"),
        (lets_use({"AWS": AUTO_SCALING})[:1], "Enabled", "Client.InternalError: Client error on"),
        (lets_use({"AWS": AUTO_SCALING}), "Enabled", None),
        (lets_use("*"), "Enabled", None),
        (
            lets_use(
                "*", Condition={"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}
            ),
            "Enabled",
            "Client.InternalError: Client error on launch",
        ),
        (lets_use({"AWS": AUTO_SCALING}), "Disabled", "Client.InvalidKMSKey.InvalidState: The KMS"),
    ],
)
def test_a_key_that_auto_scaling_may_not_use_starts_no_node(
    ml: Account, statements: list[dict[str, Any]], state: str, reason: str | None
) -> None:
    """Whether the launch template names the key or it is the account's default for disks."""
    made = ml.kms.create_key(Policy=key_policy(*statements))["KeyMetadata"]
    key = made["Arn"]
    if state == "Disabled":
        ml.kms.disable_key(KeyId=made["KeyId"])
    before = ml.ec2.get_ebs_default_kms_key_id()["KmsKeyId"]
    for number, volume in enumerate(({"KmsKeyId": key}, {})):
        ebs = {"VolumeSize": 50, "Encrypted": True, **volume}
        data = {"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": ebs}]}
        ml.ec2.create_launch_template(LaunchTemplateName=f"disks-{number}", LaunchTemplateData=data)
        if not volume:
            ml.ec2.modify_ebs_default_kms_key_id(KmsKeyId=key)
        try:
            size = {"minSize": 0, "maxSize": 2, "desiredSize": 1}
            template = {"name": f"disks-{number}", "version": "1"}
            found = ml.group(f"g{number}", launchTemplate=template, scalingConfig=size)
            assert found["status"] == ("CREATE_FAILED" if reason else "ACTIVE")
            said = [(issue["code"], issue["message"]) for issue in found["health"]["issues"]]
            assert [code for code, _ in said] == ["AsgInstanceLaunchFailures"] * bool(reason)
            assert all(text.startswith(LAUNCHED) and str(reason) in text for _, text in said)
        finally:
            ml.ec2.delete_launch_template(LaunchTemplateName=f"disks-{number}")
            ml.ec2.modify_ebs_default_kms_key_id(KmsKeyId=before)
    ml.kms.schedule_key_deletion(KeyId=made["KeyId"])
