"""EBS snapshots of nodes' volumes: what EC2 refuses of node groups and of fleets."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpu_cluster.rehearsal.simulators.aws.disk_snapshots import disks_refusal
from tests.simulators.aws_account import Account

SNAPSHOT = "snap-0123456789abcdef0"


def disks(**volume: Any) -> dict[str, Any]:
    """Launch template data with a second volume, on `device` if given."""
    device = volume.pop("device", "/dev/xvdb")
    return {"BlockDeviceMappings": [{"DeviceName": device, "Ebs": {"VolumeSize": 100, **volume}}]}


def test_a_volume_is_created_from_a_snapshot_that_somebody_has_built(ml: Account) -> None:
    """Unknown before, and then described as the account's."""
    assert disks_refusal(ml.cloud.account, disks()) is None
    good = disks(SnapshotId=SNAPSHOT, VolumeInitializationRate=300)
    assert disks_refusal(ml.cloud.account, good) is None
    (found,) = ml.ec2.describe_snapshots(SnapshotIds=[SNAPSHOT])["Snapshots"]
    assert (found["SnapshotId"], found["State"]) == (SNAPSHOT, "completed")
    with pytest.raises(ClientError, match="InvalidSnapshot"):
        ml.ec2.describe_snapshots(SnapshotIds=["snap-1"])


@pytest.mark.parametrize(
    ("volume", "code", "words"),
    [
        ({"SnapshotId": "snap-1"}, "InvalidSnapshotID.Malformed", 'Invalid id: "snap-1"'),
        ({"VolumeInitializationRate": 300}, "InvalidParameterCombination", "only for volumes fr"),
        ({"SnapshotId": SNAPSHOT, "VolumeInitializationRate": 99}, "InvalidParameterValue", "99"),
        ({"SnapshotId": SNAPSHOT, "device": "/dev/xvda"}, "InvalidBlockDeviceMapping", "the root"),
    ],
)
def test_ec2_refuses_what_no_volume_can_be(
    ml: Account, volume: dict[str, Any], code: str, words: str
) -> None:
    """With the code, whose words are EC2's only for the size."""
    refused = disks_refusal(ml.cloud.account, disks(**volume))
    assert refused is not None
    assert (refused[0], words in refused[1]) == (code, True)


def test_a_volume_smaller_than_its_snapshot_is_refused(ml: Account) -> None:
    """When a node group is created without nodes or updated, and when Karpenter launches."""
    volume = ml.ec2.create_volume(AvailabilityZone="us-east-1a", Size=200)["VolumeId"]
    snapshot = ml.ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
    ml.ec2.create_launch_template(LaunchTemplateName="small", LaunchTemplateData=disks())
    ml.ec2.create_launch_template_version(
        LaunchTemplateName="small", LaunchTemplateData=disks(SnapshotId=snapshot)
    )
    words = f"Volume of size 100GB is smaller than snapshot '{snapshot}', expect size>= 200GB"
    with pytest.raises(ClientError, match=f"InvalidRequestException.*{words}"):
        ml.group("refused", launchTemplate={"name": "small", "version": "2"})
    assert "refused" not in ml.eks.list_nodegroups(clusterName="ml")["nodegroups"]
    ml.group("small", launchTemplate={"name": "small", "version": "1"})
    newer = {"name": "small", "version": "2"}
    with pytest.raises(ClientError, match=f"InvalidRequestException.*{words}"):
        ml.eks.update_nodegroup_version(
            clusterName="ml", nodegroupName="small", launchTemplate=newer
        )
    launch = {"LaunchTemplateName": "small", "Version": "2"}
    with pytest.raises(ClientError, match=words):
        ml.ec2.run_instances(MinCount=1, MaxCount=1, LaunchTemplate=launch, DryRun=True)
