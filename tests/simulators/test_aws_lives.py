from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpu_cluster.clouds.rows.aws import rows
from tests.rehearsal import aws_stack as aws
from tests.rehearsal.aws_stack import AwsStack
from tests.simulators.aws_lives import STEPS, handler_of, lives, resolved
from tests.simulators.round_trips import Skip, changes, complaints

_ASK = Skip("AWS or its provider decides by the values, which other tests have")
_RULE = "aws:vpc/securityGroup{0}Rule:SecurityGroup{0}Rule"
_STATEMENT = {"Effect": "Allow", "Action": "s3:List*", "Resource": "*", "Principal": "*"}
_DOCUMENT = aws.document(_STATEMENT)
_ALONE = aws.document({key: _STATEMENT[key] for key in ("Effect", "Action", "Resource")})
_SSH = {"protocol": "tcp", "fromPort": 22, "toPort": 22, "cidrBlocks": ["10.1.0.0/16"]}
_RANGE = Skip("a rule has either a range or a group: see the requests of Terraform")
VALUES: Mapping[str, Mapping[str, Any]] = {
    aws.VPC: {"instanceTenancy": Skip("replaces, unless it becomes default")},
    aws.GATEWAY: {"vpcId": Skip("a gateway in use cannot be detached")},
    aws.ROUTE: {"gatewayId": _ASK, "natGatewayId": _ASK},
    aws.ASSOCIATION: {"routeTableId": Skip("nodes need the route: see its life")},
    "aws:ec2/vpcEndpoint:VpcEndpoint": {
        "policy": _DOCUMENT,
        "routeTableIds": [f"@{aws.TABLE}@public", f"@{aws.TABLE}@private"],
    },
    aws.SECURITY_GROUP: {"ingress": [_SSH], "egress": [_SSH]},
    _RULE.format("Ingress"): {"cidrIpv4": "10.2.0.0/16", "referencedSecurityGroupId": _RANGE},
    _RULE.format("Egress"): {"cidrIpv4": "10.2.0.0/16", "referencedSecurityGroupId": _RANGE},
    "aws:iam/policy:Policy": {"policy": _ALONE},
    aws.ROLE: {
        "assumeRolePolicy": aws.trust("eks.amazonaws.com"),
        "permissionsBoundary": "@aws:iam/policy:Policy@look",
    },
    aws.ROLE_POLICY: {"policy": _ALONE},
    aws.KEY: {"policy": aws.document(_STATEMENT | {"Action": "kms:*"})},
    "aws:kms/alias:Alias": {"targetKeyId": f"@{aws.KEY}@other"},
    aws.LOGS: {"kmsKeyId": Skip("the key needs a policy: see its life")},
    "aws:sqs/queue:Queue": {"kmsMasterKeyId": Skip("instead of sqsManagedSseEnabled")},
    "aws:sqs/queuePolicy:QueuePolicy": {"policy": _DOCUMENT},
    "aws:cloudwatch/eventRule:EventRule": {"eventPattern": '{"source":["aws.s3"]}'},
    "aws:cloudwatch/eventTarget:EventTarget": {"arn": "arn:aws:sqs:us-east-1:123456789012:other"},
    aws.CLUSTER: {
        "accessConfig.authenticationMode": Skip("API is the last of the modes"),
        "enabledClusterLogTypes": ["audit", "api"],
        "version": Skip("1.36 is the newest"),
        "vpcConfig.publicAccessCidrs": ["198.51.100.0/24"],
    },
    aws.ENTRY: {"kubernetesGroups": ["b", "a"]},
    aws.IDENTITY: {"roleArn": f"@{aws.ROLE}@team@arn"},
    aws.ADDON: {
        "addonVersion": _ASK,
        "configurationValues": '{"resources":{}}',
        "serviceAccountRoleArn": _ASK,
    },
    aws.TEMPLATE: {
        "defaultVersion": Skip("instead of updateDefaultVersion"),
        "ebsOptimized": "true",
        "vpcSecurityGroupIds": [f"@{aws.SECURITY_GROUP}@efa"],
    },
    aws.GROUP: {
        "releaseVersion": _ASK,
        "version": _ASK,
        "scalingConfig.minSize": Skip("not above desiredSize, which other tests have"),
        "taints": [],
        "updateConfig.maxUnavailablePercentage": Skip("instead of maxUnavailable"),
    },
    aws.TAG: {"tag.value": "third"},
}
"""Type -> path -> a value, `@token@name` for what another resource has; or why there is none."""


@pytest.fixture(scope="module")
def stack() -> Iterator[AwsStack]:
    """A stack with every resource."""
    with aws.stack() as made:
        assert list(lives(made)) == []
        yield made


def test_every_aws_resource_lives() -> None:
    """After each update nothing differs, a refresh shows the same, and recovery finds it; deleted
    in the reverse order, all of it goes."""
    with aws.stack() as made:
        assert list(lives(made)) == []
        for token, name, _ in reversed(STEPS):
            made.delete(token, name)


def test_every_row_has_a_life() -> None:
    """A type whose row is new gets its inputs in `aws_lives.py`; its tags follow from the row."""
    assert rows().keys() - {token for token, _, _ in STEPS} == set()


@pytest.mark.parametrize(
    ("token", "lists"), [(aws.SECURITY_GROUP, ("ingress", "egress")), (aws.TABLE, ("routes",))]
)
def test_an_empty_list_removes_what_no_list_keeps(
    stack: AwsStack, token: str, lists: tuple[str, ...]
) -> None:
    """The provider declares these as attributes, which are not blocks; a left-out list stays."""
    vpc = {"vpcId": f"@{aws.VPC}@net"}
    route = [{"cidrBlock": "10.9.0.0/16", "gatewayId": f"@{aws.GATEWAY}@net"}]
    full = {name: route if name == "routes" else [_SSH] for name in lists}
    stack.up(token, "emptied", resolved(stack, vpc | full))
    assert not stack.diff(token, "emptied", resolved(stack, vpc))[0]
    empty = resolved(stack, vpc | {name: [] for name in lists})
    assert set(stack.diff(token, "emptied", empty)[0]) == {f"{name}[0]" for name in lists}
    assert list(complaints(stack, token, "emptied", empty)) == []
    stack.delete(token, "emptied")


@pytest.mark.prove(reason="each input of each type; the lives change the tags of all")
@pytest.mark.xdist_group("round trips on AWS")
@pytest.mark.parametrize("token", sorted(rows()))
def test_whatever_an_update_changes_is_read_back(stack: AwsStack, token: str) -> None:
    """Create, update, no difference, refresh, no difference: for each input that the provider
    updates in place, with a value of its type."""
    name, last = next((name, inputs[-1]) for kind, name, inputs in STEPS if kind == token)
    inputs, wrong = resolved(stack, last), []
    values = VALUES.get(token, {})
    accepted = handler_of(stack, token).supported_inputs
    tried = set()
    for path, changed in changes(token, inputs, accepted, values):
        tried.add(path)
        wrong += [f"{path}: {line}" for line in
                  complaints(stack, token, name, resolved(stack, changed))]  # fmt: skip
        stack.up(token, name, inputs)
    assert wrong == []
    given = {path for path, value in values.items() if not isinstance(value, Skip)}
    assert given - tried == set(), "values of inputs that no update changes"
