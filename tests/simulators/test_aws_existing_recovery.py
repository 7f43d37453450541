"""Recovery on an EKS cluster of another owner: what it adopts, and what it leaves alone."""

import json
from types import SimpleNamespace
from typing import Any

from gpu_cluster.stacks.engine.state import resources
from gpu_cluster.stacks.recovery.aws_resources import Aws
from gpu_cluster.stacks.recovery.command import recover
from gpu_cluster.stacks.recovery.orphans import duplicates
from tests.simulators import test_aws_existing
from tests.simulators.aws_account import TRUSTS, Account
from tests.unit.stacks.test_recovery import FakePulumi, Nobody, row, state

made = test_aws_existing.made


def test_a_recovery_takes_nothing_of_its_owner(made: Account) -> None:
    """Of the same cluster: a node group whose name begins like the pool's, the entry of a role and
    the identity of a service account to which both give rights. The stack's own are adopted."""
    team, pods = "arn:aws:iam::210987654321:role/team", {"namespace": "team", "serviceAccount": "a"}
    own, theirs = (role_of(made, name) for name in ("own", "theirs"))
    group = made.eks.describe_nodegroup(clusterName="platform", nodegroupName="default")
    templates = {}
    for name in ("own", "theirs"):
        data = {"InstanceType": "g4dn.xlarge"}
        created = made.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        templates[name] = created["LaunchTemplate"]["LaunchTemplateId"]
        made.eks.create_nodegroup(
            clusterName="platform", nodegroupName=f"train-gpu-{name}",
            nodeRole=group["nodegroup"]["nodeRole"], subnets=group["nodegroup"]["subnets"],
            launchTemplate={"id": templates[name], "version": "1"}, amiType="AL2023_x86_64_NVIDIA",
            scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
        )  # fmt: skip
    made.eks.create_access_entry(clusterName="platform", principalArn=team)
    made.eks.create_pod_identity_association(clusterName="platform", roleArn=theirs, **pods)
    tagged = {"gpu-cluster/stack": "gpu-cluster/on-eks"}
    made.eks.create_access_entry(clusterName="platform", principalArn=own, tags=tagged)
    begun = [
        row(f"aws:eks/{kind}", name, inputs={"clusterName": "platform", **inputs})
        for kind, name, inputs in (
            ("nodeGroup:NodeGroup", "train-gpu",
             {"nodeGroupNamePrefix": "train-gpu-", "launchTemplate": {"id": templates["own"]}}),
            ("accessEntry:AccessEntry", "team", {"principalArn": team, "tags": tagged}),
            ("accessEntry:AccessEntry", "own", {"principalArn": own, "tags": tagged}),
            ("podIdentityAssociation:PodIdentityAssociation", "a", {**pods, "roleArn": own}),
        )
    ]  # fmt: skip
    deployment = state()
    deployment["deployment"]["pending_operations"] = [
        {"type": "creating", "resource": each} for each in begun
    ]
    clouds: Any = SimpleNamespace(
        aws=lambda region: Aws(lambda service: getattr(made, service)), google=Nobody().google
    )
    pulumi = FakePulumi(deployment)
    done = recover(pulumi, clouds=clouds)
    assert list(done.adopted.values()) == ["platform:train-gpu-own", f"platform:{own}"]
    assert [line.partition(" exists and ")[2] for line in done.notes] == [
        "has no label of a stack, not gpu-cluster/on-eks: it is not adopted",
        "belongs to theirs, not own: it is not adopted",
    ]
    rows = [one for one in resources(pulumi.deployment) if one["type"].startswith("aws:")]
    for one in rows:
        one["outputs"]["region"] = "us-east-1"
    assert list(duplicates(pulumi.deployment, {"us-east-1": clouds.aws("")})) == []


def role_of(account: Account, name: str) -> str:
    """The ARN of a new role that pods may have."""
    service, actions = TRUSTS["pods"]
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": actions}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    made = account.iam.create_role(RoleName=name, AssumeRolePolicyDocument=policy)
    return str(made["Role"]["Arn"])
