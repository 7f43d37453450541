"""What a stack's resources carry, and that recovery adopts nothing that carries something else."""

from typing import Any

import boto3
import pytest
from moto import mock_aws

from gpu_cluster.stacks.recovery.aws_resources import Aws
from gpu_cluster.stacks.recovery.state import NotOursError


@mock_aws
def test_on_aws_the_tag_decides() -> None:
    """Log group, key and cluster of another stack are not this one's."""
    clients: dict[str, Any] = {}

    def client(service: str) -> Any:
        return clients.setdefault(service, boto3.client(service, region_name="us-east-1"))

    logs, kms, eks = (client(name) for name in ("logs", "kms", "eks"))
    theirs, ours = {"gpu-cluster/stack": "gpu-cluster/prod"}, {"gpu-cluster/stack": "gpu-cluster/a"}
    logs.create_log_group(logGroupName="/aws/eks/x/cluster", tags=theirs)
    kms.create_key(Description="d", Tags=[{"TagKey": "gpu-cluster/stack", "TagValue": "b"}])
    eks.create_cluster(name="x", roleArn="arn:aws:iam::123456789012:role/r", tags=theirs,
                       resourcesVpcConfig={"subnetIds": []})  # fmt: skip
    aws = Aws(client)
    group = {"name": "/aws/eks/x/cluster", "tags": ours}
    with pytest.raises(NotOursError, match="is labelled gpu-cluster/prod, not gpu-cluster/a"):
        aws.find("aws:cloudwatch/logGroup:LogGroup", group)
    assert aws.find("aws:cloudwatch/logGroup:LogGroup", group | {"tags": theirs}) == [
        "/aws/eks/x/cluster"
    ]
    begins = {"name": "/aws/eks/x", "tags": theirs}
    assert aws.find("aws:cloudwatch/logGroup:LogGroup", begins) == []
    assert aws.find("aws:kms/key:Key", {"description": "d", "tags": ours}) == []
    with pytest.raises(NotOursError, match="cluster x exists and is labelled gpu-cluster/prod"):
        aws.find("aws:eks/cluster:Cluster", {"name": "x", "tags": ours})


@mock_aws
def test_roles_and_aliases_of_others_are_left() -> None:
    """A role has the stack's tag; an alias, which cannot have one, leads to the stack's key."""
    clients: dict[str, Any] = {}

    def client(service: str) -> Any:
        return clients.setdefault(service, boto3.client(service, region_name="us-east-1"))

    aws, ours = Aws(client), {"gpu-cluster/stack": "gpu-cluster/a"}
    for name, tags in (("mine", ours), ("theirs", {"gpu-cluster/stack": "gpu-cluster/b"}),
                       ("nobodys", {})):  # fmt: skip
        client("iam").create_role(
            RoleName=name, AssumeRolePolicyDocument="{}",
            Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
        )  # fmt: skip
    role = "aws:iam/role:Role"
    assert aws.find(role, {"name": "mine", "tags": ours}) == ["mine"]
    assert aws.find(role, {"name": "not-there", "tags": ours}) == []
    with pytest.raises(NotOursError, match="role theirs exists and is labelled gpu-cluster/b"):
        aws.find(role, {"name": "theirs", "tags": ours})
    with pytest.raises(NotOursError, match="role nobodys exists and has no label of a stack"):
        aws.find(role, {"name": "nobodys", "tags": ours})
    keys = [client("kms").create_key()["KeyMetadata"]["KeyId"] for _ in range(2)]
    client("kms").create_alias(AliasName="alias/eks/a", TargetKeyId=keys[0])
    alias = "aws:kms/alias:Alias"
    assert aws.find(alias, {"name": "alias/eks/a", "targetKeyId": keys[0]}) == ["alias/eks/a"]
    assert aws.find(alias, {"name": "alias/eks/b", "targetKeyId": keys[0]}) == []
    with pytest.raises(NotOursError, match="alias alias/eks/a exists and belongs to"):
        aws.find(alias, {"name": "alias/eks/a", "targetKeyId": keys[1]})
