"""A life of each AWS resource, from its create over updates to its delete."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from gpu_cluster.clouds.rows.aws import rows
from gpu_cluster.rehearsal.plugins.aws.rowed import Rowed
from gpu_cluster.stacks.recovery.aws_resources import Aws
from tests.rehearsal import aws_stack as aws
from tests.rehearsal.aws_stack import AwsStack

Step = tuple[str, str, tuple[dict[str, Any], ...]]
"""Type, name, and the inputs of its create and of each update; `@token@name` is an id, and
`@token@name@output` an output of what was created before."""

_TAGS, _OTHER_TAGS = {"tags": {"team": "ml", "Name": "one"}}, {"tags": {"team": "hpc"}}
_CLUSTER = "k8s-ml"
_ALIAS, _POLICY = "aws:kms/alias:Alias", "aws:iam/policy:Policy"
_IN = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
_OUT = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
_ENDPOINT, _VOLUME = "aws:ec2/vpcEndpoint:VpcEndpoint", "aws:ebs/volume:Volume"
_QUEUE, _QUEUE_POLICY = "aws:sqs/queue:Queue", "aws:sqs/queuePolicy:QueuePolicy"
_RULE, _TARGET = "aws:cloudwatch/eventRule:EventRule", "aws:cloudwatch/eventTarget:EventTarget"
_PLACEMENT = "aws:ec2/placementGroup:PlacementGroup"
_PROFILE = "aws:iam/instanceProfile:InstanceProfile"
_SEND = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "*",
         "Principal": {"Service": "events.amazonaws.com"}}  # fmt: skip
_SAY = {"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"}
_MORE = _SAY | {"Action": "eks:Describe*"}
_KMS = {"Effect": "Allow", "Action": "kms:*", "Resource": "*",
        "Principal": {"AWS": "arn:aws:iam::123456789012:root",
                      "Service": "logs.us-east-1.amazonaws.com"}}  # fmt: skip
_VPC, _GATEWAY = f"@{aws.VPC}@net", f"@{aws.GATEWAY}@net"
_WEB = {"protocol": "tcp", "fromPort": 443, "toPort": 443, "cidrBlocks": ["10.0.0.0/8"]}
_SCOPE = {"type": "namespace", "namespaces": ["team"]}
_TAG = {"key": "k8s.io/cluster-autoscaler/node-template/label/role", "value": "train-gpu"}


def _subnet(block: str, **more: Any) -> dict[str, Any]:
    return {"vpcId": _VPC, "cidrBlock": block} | more


_NETWORK: tuple[Step, ...] = (
    (aws.VPC, "net",
        ({"cidrBlock": "10.0.0.0/16"}, {"cidrBlock": "10.0.0.0/16",
            "enableDnsHostnames": True})),
    (aws.GATEWAY, "net", ({"vpcId": _VPC}, {}, {"vpcId": _VPC})),
    (aws.SUBNET, "public",
        (_subnet("10.0.255.0/28", availabilityZone="us-east-1a"), _subnet("10.0.255.0/28",
            availabilityZone="us-east-1a", mapPublicIpOnLaunch=True))),
    (aws.SUBNET, "a", (_subnet("10.0.0.0/24", availabilityZone="us-east-1a"),)),
    (aws.SUBNET, "b", (_subnet("10.0.1.0/24", availabilityZoneId="use1-az2"),)),
    (aws.EIP, "nat", ({"domain": "vpc"},)),
    (aws.NAT, "nat",
        ({"subnetId": f"@{aws.SUBNET}@public", "allocationId": f"@{aws.EIP}@nat"},)),
    (aws.TABLE, "private", ({"vpcId": _VPC},)),
    (aws.TABLE, "public",
        ({"vpcId": _VPC, "routes": [{"cidrBlock": "0.0.0.0/0", "gatewayId": _GATEWAY}]},
            {"vpcId": _VPC, "routes": []})),
    (aws.ROUTE, "private",
        ({"routeTableId": f"@{aws.TABLE}@private", "destinationCidrBlock": "0.0.0.0/0",
            "gatewayId": _GATEWAY}, {"routeTableId": f"@{aws.TABLE}@private",
            "destinationCidrBlock": "0.0.0.0/0", "natGatewayId": f"@{aws.NAT}@nat"})),
    (aws.ASSOCIATION, "a",
        ({"routeTableId": f"@{aws.TABLE}@public", "subnetId": f"@{aws.SUBNET}@a"},
            {"routeTableId": f"@{aws.TABLE}@private", "subnetId": f"@{aws.SUBNET}@a"})),
    (aws.ASSOCIATION, "b",
        ({"routeTableId": f"@{aws.TABLE}@private", "subnetId": f"@{aws.SUBNET}@b"},)),
    (_ENDPOINT, "s3",
        ({"vpcId": _VPC, "serviceName": "com.amazonaws.us-east-1.s3", "vpcEndpointType": "Gateway",
            "routeTableIds": [f"@{aws.TABLE}@private"]},)),
    (_ENDPOINT, "ecr",
        tuple({"vpcId": _VPC, "serviceName": "com.amazonaws.us-east-1.ecr.api",
            "vpcEndpointType": "Interface", "subnetIds": subnets}
            for subnets in ([f"@{aws.SUBNET}@a"], [f"@{aws.SUBNET}@a", f"@{aws.SUBNET}@b"]))),
    (aws.SECURITY_GROUP, "efa",
        ({"name": "efa", "description": "efa", "vpcId": _VPC, "ingress": [_WEB]},
            {"name": "efa", "description": "efa", "vpcId": _VPC,
            "ingress": [_WEB | {"toPort": 444}], "egress": [_WEB]})),
    *((kind, "rule", (
        {"securityGroupId": f"@{aws.SECURITY_GROUP}@efa", "ipProtocol": "tcp", "fromPort": 80,
         "toPort": 80, "cidrIpv4": "10.0.0.0/8"},
        {"securityGroupId": f"@{aws.SECURITY_GROUP}@efa", "ipProtocol": "tcp", "fromPort": 80,
         "toPort": 81, "cidrIpv4": "10.0.0.0/8", "description": "wider"},
    )) for kind in (_IN, _OUT)),
    (_VOLUME, "disk",
        ({"availabilityZone": "us-east-1a", "size": 10, "type": "gp3", "encrypted": True},
            {"availabilityZone": "us-east-1a", "size": 20, "type": "gp3", "encrypted": True,
            "iops": 4000})),
)  # fmt: skip

_IDENTITY: tuple[Step, ...] = (
    (_POLICY, "look",
        ({"name": "look", "policy": aws.document(_SAY), "description": "looks"},
            {"name": "look", "policy": aws.document(_MORE), "description": "looks"},
            {"name": "look", "policy": aws.document(_SAY), "description": "looks"})),
    (aws.ROLE, "team",
        ({"name": "team", "assumeRolePolicy": aws.trust("ec2.amazonaws.com"), "description": "team",
            "permissionsBoundary": f"@{_POLICY}@look"}, {"name": "team",
            "assumeRolePolicy": aws.trust(*aws.POD_TRUST), "description": "teams",
            "maxSessionDuration": 7200, "permissionsBoundary": f"@{_POLICY}@look",
            "forceDetachPolicies": True}, {"name": "team",
            "assumeRolePolicy": aws.trust(*aws.POD_TRUST), "maxSessionDuration": 7200})),
    (aws.ROLE_POLICY, "team",
        ({"role": "team", "name": "p", "policy": aws.document(_SAY)}, {"role": "team", "name": "p",
            "policy": aws.document(_MORE)})),
    (aws.ATTACHMENT, "team", ({"role": "team", "policyArn": f"@{_POLICY}@look"},)),
    (aws.KEY, "key",
        ({"description": "secrets"}, {"description": "disks", "enableKeyRotation": True,
            "rotationPeriodInDays": 180, "policy": aws.document(_KMS)},
            {"description": "disks", "isEnabled": False, "deletionWindowInDays": 7})),
    (aws.KEY, "other", ({"description": "other", "policy": aws.document(_KMS)},)),
    (_ALIAS, "key",
        ({"name": "alias/ml", "targetKeyId": f"@{aws.KEY}@other@arn"}, {"name": "alias/ml",
            "targetKeyId": f"@{aws.KEY}@key"})),
    (_ALIAS, "generated", ({"targetKeyId": f"@{aws.KEY}@key"},)),
    (aws.LOGS, "logs",
        ({"name": "/ml", "retentionInDays": 7, "kmsKeyId": f"@{aws.KEY}@other@arn"},
            {"name": "/ml", "retentionInDays": 14, "kmsKeyId": f"@{aws.KEY}@other@arn"},
            {"name": "/ml", "kmsKeyId": f"@{aws.KEY}@other@arn"})),
    (_QUEUE, "news", (
        {"name": "news", "messageRetentionSeconds": 300, "sqsManagedSseEnabled": True},
        {"name": "news", "messageRetentionSeconds": 600, "sqsManagedSseEnabled": True},
    )),
    (_QUEUE_POLICY, "news", (
        {"queueUrl": f"@{_QUEUE}@news", "policy": aws.document(_SEND)},
        {"queueUrl": f"@{_QUEUE}@news", "policy": aws.document(_SEND, _SEND | {"Sid": "two"})},
    )),
    (_RULE, "spot",
        ({"name": "spot", "eventPattern": '{"source":["aws.ec2"]}'}, {"name": "spot",
            "eventPattern": '{"source":["aws.health"]}'})),
    (_TARGET, "spot", ({"rule": "spot", "targetId": "queue", "arn": f"@{_QUEUE}@news@arn"},)),
    (aws.ROLE, "other", ({"name": "other", "assumeRolePolicy": aws.trust("ec2.amazonaws.com")},)),
    (_PROFILE, "nodes",
        ({"name": "nodes", "role": f"@{aws.ROLE}@team"}, {"name": "nodes",
            "role": f"@{aws.ROLE}@other"}, {"name": "nodes"})),
    (_PLACEMENT, "near",
        ({"name": "near", "strategy": "cluster", **_TAGS}, {"name": "near", "strategy": "cluster",
            **_OTHER_TAGS})),
)  # fmt: skip

_EKS: tuple[Step, ...] = (
    (aws.CLUSTER, "ml",
        (aws.cluster([f"@{aws.SUBNET}@a", f"@{aws.SUBNET}@b"]),
            aws.cluster([f"@{aws.SUBNET}@a", f"@{aws.SUBNET}@b"], deletionProtection=True,
            enabledClusterLogTypes=["api"], version="1.36"),
            aws.cluster([f"@{aws.SUBNET}@a", f"@{aws.SUBNET}@b"], deletionProtection=False,
            version="1.36"))),
    (aws.ENTRY, "team",
        ({"clusterName": _CLUSTER, "principalArn": f"@{aws.ROLE}@team@arn"},
            {"clusterName": _CLUSTER, "principalArn": f"@{aws.ROLE}@team@arn", "userName": "team",
            "kubernetesGroups": ["team"]})),
    (aws.ACCESS, "team", (
        {"clusterName": _CLUSTER, "principalArn": f"@{aws.ROLE}@team@arn",
         "policyArn": aws.ADMIN_POLICY.replace("ClusterAdmin", "Edit"), "accessScope": _SCOPE},
    )),
    (aws.IDENTITY, "team",
        ({"clusterName": _CLUSTER, "namespace": "team", "serviceAccount": "s",
            "roleArn": f"@{aws.ROLE}@team@arn"}, {"clusterName": _CLUSTER,
            "namespace": "team", "serviceAccount": "s", "roleArn": f"@{aws.ROLE}@cni@arn",
            "disableSessionTags": True})),
    (aws.ADDON, "agent", ({"clusterName": _CLUSTER, "addonName": "eks-pod-identity-agent"},)),
    (aws.ADDON, "cni",
        ({"clusterName": _CLUSTER, "addonName": "vpc-cni",
            "podIdentityAssociations": [{"roleArn": f"@{aws.ROLE}@cni@arn",
            "serviceAccount": "aws-node"}]}, {"clusterName": _CLUSTER,
            "addonName": "vpc-cni", "podIdentityAssociations": [{"roleArn": f"@{aws.ROLE}@cni@arn",
            "serviceAccount": "aws-node"}], "configurationValues": '{"env":{}}',
            "resolveConflictsOnUpdate": "OVERWRITE", "preserve": True})),
    (aws.TEMPLATE, "train",
        ({"name": "train", "metadataOptions": {"httpTokens": "required"}}, {"name": "train",
            "metadataOptions": {"httpTokens": "required"}, "updateDefaultVersion": True,
            "description": "disks", "blockDeviceMappings": [{"deviceName": "/dev/xvda",
            "ebs": {"volumeSize": 100, "encrypted": "true"}}]})),
    (aws.GROUP, "train-gpu",
        (aws.group([f"@{aws.SUBNET}@a"]), aws.group([f"@{aws.SUBNET}@a"],
            labels={"role": "train-gpu", "a": "b"}, taints=[], scalingConfig={"minSize": 0,
            "maxSize": 1, "desiredSize": 0}, warmPoolConfig={"maxGroupPreparedCapacity": 1,
            "minSize": 0, "poolState": "STOPPED", "reuseOnScaleIn": False}),
            aws.group([f"@{aws.SUBNET}@a"], labels={}, updateConfig={"maxUnavailable": 2}))),
    (aws.TAG, "role", tuple(
        {"autoscalingGroupName":
             f"@{aws.GROUP}@train-gpu@resources.0.autoscalingGroups.0.name",
         "tag": _TAG | {"value": value, "propagateAtLaunch": False}}
        for value in ("train-gpu", "other")
    )),
)  # fmt: skip


STEPS = (*_NETWORK, *_IDENTITY, *_EKS)


def steps() -> Iterator[Step]:
    """With tags for the first resource of each type whose row has some: others in its second step,
    and none in a third one."""
    seen = set[str]()
    for token, name, inputs in STEPS:
        if rows()[token].tags and token not in seen:
            first, second, *others = inputs if len(inputs) > 1 else inputs * 2
            yield token, name, (first | _TAGS, second | _OTHER_TAGS, *others)
        else:
            yield token, name, inputs
        seen.add(token)


def _roles(stack: AwsStack) -> None:
    stack.role("control", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
    stack.role("cni", aws.POD_TRUST[0], "AmazonEKS_CNI_Policy")
    policies = "AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"
    stack.role("nodes", "ec2.amazonaws.com", *policies)


_ELSEWHERE = {"encryptionConfig", "referencedSecurityGroupId", "securityGroupIds", "snapshotId"}
"""Outputs of inputs that no step gives."""


def lives(stack: AwsStack) -> Iterator[str]:
    """Creates every resource and leads it to its last state; what is wrong on the way: a difference
    after an update, another state after a refresh, an id that recovery does not find, or an output
    of a row that no step has. Recovery says None of types that it does not look for."""
    shown: defaultdict[str, set[str]] = defaultdict(set)
    for token, name, inputs in steps():
        if (token, name) == (aws.CLUSTER, "ml"):
            _roles(stack)
        for number, given in enumerate(inputs):
            state = stack.up(token, name, resolved(stack, given))
            identity, known, _ = stack.state[stack.urn(token, name)]
            step = f"{token} {name}, step {number}"
            if not number:
                found = Aws(_client(stack)).find(token, known)
                if found is not None and identity not in found:
                    yield f"{step}: recovery finds {found}, not {identity}"
            if different := stack.diff(token, name, resolved(stack, given))[0]:
                yield f"{step}: {sorted(different)} differ"
            if stack.refresh(token, name) != state:
                yield f"{step}: a refresh shows another state"
            read = handler_of(stack, token).read(identity, state)
            shown[token] |= {output for output, value in read.items() if value is not None}
    for token, row in rows().items():
        outputs = {*row.outputs, *(output for more in row.more for output in more.outputs)}
        if never := outputs - shown[token] - _ELSEWHERE:
            yield f"{token}: no read shows {sorted(never)}"


def handler_of(stack: AwsStack, token: str) -> Rowed:
    """The offline plugin's handler of a type."""
    handler = stack.provider.settings.handlers[token]
    assert isinstance(handler, Rowed)
    return handler


def _client(stack: AwsStack) -> Callable[[str], Any]:
    return handler_of(stack, aws.VPC).api.client


def resolved(stack: AwsStack, value: Any) -> Any:
    """The value with every `@token@name` and `@token@name@output` in it."""
    if isinstance(value, dict):
        return {key: resolved(stack, each) for key, each in value.items()}
    if isinstance(value, list):
        return [resolved(stack, each) for each in value]
    if not (isinstance(value, str) and value.startswith("@")):
        return value
    _, token, name, *path = value.split("@")
    identity, _, found = stack.state[stack.urn(token, name)]
    if not path:
        return identity
    answer: Any = found
    for key in path[0].split("."):
        answer = answer[int(key)] if key.isdigit() else answer[key]
    return answer
