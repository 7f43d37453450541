import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jmespath  # type: ignore[import-untyped]
import pytest
import yaml

from gpu_cluster.clouds.rows import aws
from gpu_cluster.clouds.rows.aws import PLACEHOLDER, Row, rows
from gpu_cluster.rehearsal.plugins.aws import settings_for
from gpu_cluster.rehearsal.plugins.aws.api import service_model
from gpu_cluster.rehearsal.plugins.aws.rowed import Rowed
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.diff import Comparison
from gpu_cluster.rehearsal.plugins.cloud.rules import breaches
from gpu_cluster.rehearsal.plugins.cloud.schema import resource_schema
from gpu_cluster.rehearsal.plugins.faults import Faults

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""

HANDLERS = settings_for({"AWS_ENDPOINT_URL": ""}, Faults()).handlers


def _calls(row: Row) -> Iterator[str]:
    yield from (row.create, row.read.call, row.delete.call)
    for step in row.update:
        yield from filter(None, (step.call, step.undo))
    yield from (more.call for more in row.more)
    if row.tags and not row.tags.spec:
        yield from filter(None, (row.tags.tag, row.tags.untag, row.tags.read))


@pytest.mark.parametrize("token", sorted(rows()))
def test_a_row_names_what_botocore_and_the_sdk_have(token: str) -> None:
    """Calls, members and properties; every expression can be read."""
    row, kinds = rows()[token], resource_schema(token).kinds
    model = service_model(row.api)
    assert {*_calls(row)} <= {*model.operation_names}
    shapes = {call: model.operation_model(call).input_shape for call in _calls(row)}
    members = {name for shape in shapes.values() for name in shape.members}
    assert {path.partition(".")[0] for path in row.always} <= members
    for step in row.update:
        inputs = shapes[step.call].members
        targets = {path.partition(".")[0] for path in (*step.by, *step.names.values()) if path}
        assert targets <= {*inputs}
    assert {*row.read.by} <= {*shapes[row.read.call].members}
    assert {path.partition(".")[0] for path in row.delete.by} <= {*shapes[row.delete.call].members}
    named = {
        *row.outputs, *row.provider_own, *row.unsimulated, *row.documents,
        *(re.split(r"[.[]", name)[0] for name in row.names if name != "id"),
        *(name for more in row.more for name in more.outputs),
    }  # fmt: skip
    assert named <= {*kinds}
    assert {*(row.found_by or {}).values()} <= {*resource_schema(token).inputs.properties}
    for text in (row.id, row.read.at, *row.outputs.values()):
        jmespath.compile(PLACEHOLDER.sub("x", text) if "'{" in text else "x" if
                         PLACEHOLDER.search(text) else text)  # fmt: skip


@pytest.mark.parametrize("token", sorted(rows()))
def test_what_is_not_simulated_is_no_accepted_input(token: str) -> None:
    """And what is accepted is an input of the type."""
    handler = HANDLERS[token]
    assert isinstance(handler, Rowed)
    assert not {*rows()[token].unsimulated} & {*handler.supported_inputs}
    assert {*handler.supported_inputs} <= {*resource_schema(token).inputs.properties}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"api": "ec2", "colour": "red"}, "colour"),
        ({"api": "ec2", "id": "Id", "create": "CreateVpc", "delete": "DeleteVpc"}, "'read'"),
    ],
)
def test_a_word_that_is_unknown_or_missing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, object], reason: str
) -> None:
    """It names the file and the type."""
    base = {"id": "Id", "create": "A", "delete": "B"} if "colour" in words else {}
    read = {"read": {"call": "C", "at": "@"}} if base else {}
    monkeypatch.setattr(aws, "read_facts", lambda name: {"aws:a/b:B": {**base, **read, **words}})
    with pytest.raises(
        ValueError, match=rf"gpu_cluster/clouds/rows/aws\.yaml: aws:a/b:B: .*{reason}"
    ):
        rows.__wrapped__()


def test_an_unsimulated_input_may_have_its_default() -> None:
    """Only another value is refused."""
    handler = HANDLERS["aws:ec2/subnet:Subnet"]
    given = {"vpcId": "vpc-1", "ipv6Native": False}
    assert handler.validate_preview({}, given) == []
    (problem,) = handler.validate_preview({}, given | {"ipv6Native": True})
    assert problem.reason == ("a rehearsal does not simulate 'ipv6Native' of aws:ec2/subnet:Subnet")


GROUP, CLUSTER = "aws:eks/nodeGroup:NodeGroup", "aws:eks/cluster:Cluster"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
ROLE = "arn:aws:iam::123456789012:role/{}".format


@pytest.mark.parametrize(
    ("token", "old", "new", "changes"),
    [
        (GROUP, {"subnetIds": ["a", "b"]}, {"subnetIds": ["b", "a"]}, []),
        (GROUP, {"subnetIds": ["a", "b"]}, {"subnetIds": ["c", "a"]}, [("subnetIds[0]", True)]),
        (GROUP, {"launchTemplate": {"id": "lt-1"}}, {}, [("launchTemplate", False)]),
        (GROUP, {"launchTemplate": {"id": "lt-1", "version": "1"}},
         {"launchTemplate": {"version": "1"}}, []),
        (TEMPLATE, {"metadataOptions": {"httpTokens": "required"}}, {"metadataOptions": {}}, []),
        (TEMPLATE, {"vpcSecurityGroupIds": ["a", "b"]}, {"vpcSecurityGroupIds": ["b", "a"]}, []),
        ("aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
         {"accessScope": {"namespaces": ["a", "b"]}}, {"accessScope": {"namespaces": ["b", "a"]}},
         []),
        (CLUSTER, {"enabledClusterLogTypes": ["api", "audit"]},
         {"enabledClusterLogTypes": ["audit", "api"]}, []),
        (CLUSTER, {"computeConfig": {"nodeRoleArn": ROLE("a")}},
         {"computeConfig": {"nodeRoleArn": ROLE("b")}}, [("computeConfig.nodeRoleArn", True)]),
        (CLUSTER, {"vpcConfig": {"controlPlaneEgressMode": "CUSTOMER_ROUTED"}},
         {"vpcConfig": {"controlPlaneEgressMode": "AWS_MANAGED"}},
         [("vpcConfig.controlPlaneEgressMode", True)]),
    ],
)  # fmt: skip
def test_a_change_is_what_aws_own_provider_makes_of_it(
    token: str, old: dict[str, Any], new: dict[str, Any], changes: list[tuple[str, bool]]
) -> None:
    """Of sets, of nested values that AWS fills in, and of what its code decides (hashicorp/
    terraform-provider-aws, asked with the same states and inputs)."""
    handler = HANDLERS[token]
    comparison = Comparison(
        shape=resource_schema(token).inputs,
        facts=facts.of(token),
        same=handler.same,
        replaces=handler.forces_replacement,
    )
    found = comparison.changes(old, old, new)
    assert [(change.path, change.replace) for change in found] == changes


@pytest.mark.parametrize(
    ("token", "inputs", "reason"), TABLE["test_a_value_is_refused_in_a_preview"]
)
def test_a_value_is_refused_in_a_preview(token: str, inputs: dict[str, Any], reason: str) -> None:
    """As AWS's own provider validates it, before any request."""
    found = [problem.reason for problem in breaches(inputs, facts.of(token))]
    assert (reason in found[0]) if reason else (found == [])


def test_some_combinations_are_refused_in_a_create_only() -> None:
    """A volume that becomes gp2 keeps the throughput that gp3 had."""
    volume = facts.of("aws:ebs/volume:Volume")
    inputs = {"size": 1, "throughput": 125, "type": "gp2"}
    assert [len(breaches(inputs, volume, new=new)) for new in (True, False)] == [1, 0]
