import re
from collections.abc import Iterator

import jmespath  # type: ignore[import-untyped]
import pytest

from clouds.rows import aws
from clouds.rows.aws import PLACEHOLDER, Row, rows
from rehearsal.plugins.aws import settings_for
from rehearsal.plugins.aws.api import service_model
from rehearsal.plugins.aws.rowed import Rowed
from rehearsal.plugins.cloud.schema import resource_schema
from rehearsal.plugins.faults import Faults

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
    monkeypatch.setattr(aws, "read", lambda name: {"aws:a/b:B": {**base, **read, **words}})
    with pytest.raises(ValueError, match=rf"clouds/rows/aws\.yaml: aws:a/b:B: .*{reason}"):
        rows.__wrapped__()


def test_an_unsimulated_input_may_have_its_default() -> None:
    """Only another value is refused."""
    handler = HANDLERS["aws:ec2/subnet:Subnet"]
    given = {"vpcId": "vpc-1", "ipv6Native": False}
    assert handler.validate_preview({}, given) == []
    (problem,) = handler.validate_preview({}, given | {"ipv6Native": True})
    assert problem.reason == ("a rehearsal does not simulate 'ipv6Native' of aws:ec2/subnet:Subnet")
