"""`gpu_cluster/clouds/rows/google.yaml` against Google's documents and the SDK."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from gpu_cluster.clouds.rows.google import rows
from gpu_cluster.rehearsal.plugins import gcp
from gpu_cluster.rehearsal.plugins.cloud.schema import (
    Block,
    block,
    element_of,
    property_at,
    resource_schema,
)
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.plugins.gcp.resource import Resource
from gpu_cluster.rehearsal.plugins.gcp.translate import from_api, to_api
from gpu_cluster.rehearsal.plugins.sdk import is_input_type
from gpu_cluster.tools.google_discovery import Document, document
from tests.unit.simulators.google_stack import GoogleStack

_HANDLERS: Mapping[str, Any] = gcp.settings_for({}, faults=Faults()).handlers
_WITH_BODY = [token for token, row in rows().items() if row.api != ("", "")]


def test_every_class_has_a_row() -> None:
    """A class whose token no row has would never be asked."""
    classes = {type(handler) for handler in _HANDLERS.values()} - {Resource}
    assert {one.token: type(_HANDLERS[one.token]) for one in classes} == {
        one.token: one for one in classes
    }
    assert len(classes) == len(gcp._MORE)


@pytest.mark.parametrize("token", _WITH_BODY)
def test_names_are_properties_of_the_sdk(token: str) -> None:
    """A name for a property that is gone, or misspelled, would do nothing."""
    schema, row = resource_schema(token), rows()[token]
    paths = [*row.names, *row.own, *row.by_hand, *row.kept, *row.links, *row.keyed, *row.upper,
             *(name for names in row.inside.values() for name in names),
             *(f"{at}.{name}" for at, names in row.blocks.items() for name in names)]  # fmt: skip
    for path in paths:
        assert path in schema.kinds or property_at(schema.inputs, path) is not None, path


@pytest.mark.parametrize("token", _WITH_BODY)
def test_fields_are_fields_of_the_api(token: str) -> None:
    """A field that the message lacks would never be read, and never differ."""
    row = rows()[token]
    fields = [field.partition(".")[0] for path, field in row.names.items()
              if field and "." not in path and "[" not in path]  # fmt: skip
    fields += row.inside
    for request in row.update:
        fields += [*request.fields, *request.without, *request.empty]
    assert [field for field in fields if field not in _HANDLERS[token].fields] == []


def test_a_block_that_the_api_has_as_a_list_is_its_only_element() -> None:
    """The bridge flattens lists of at most one element."""
    google = document("file", "v1")
    assert google is not None
    inputs = {"fileShares": {"name": "data", "capacityGb": 1024}}
    body = to_api(google, "Instance", inputs, {})
    assert body == {"fileShares": [{"name": "data", "capacityGb": "1024"}]}
    kinds = resource_schema("gcp:filestore/instance:Instance").kinds
    assert from_api(kinds, body, {}) == inputs
    assert from_api(kinds, {"fileShares": []}, {}) == {}


@pytest.mark.parametrize("token", [t for t in _WITH_BODY if type(_HANDLERS[t]) is Resource])
def test_a_type_that_its_row_describes_lives_in_the_simulated_cloud(token: str) -> None:
    """It is created with what the SDK requires, changed in each property of which an update sends
    a text, read back without a difference, and deleted."""
    stack, row, handler = GoogleStack(), rows()[token], _HANDLERS[token]
    shape, message = resource_schema(token).inputs, handler.document.schemas[row.schema]
    inputs = _least(shape, message, handler.document, {row.key, *row.in_path} - {"project"})
    if "autoCreateSubnetworks" in shape.properties:
        inputs["autoCreateSubnetworks"] = False  # a rehearsal has no others
    stack.up(token, "one", inputs)
    sent = {field for request in row.update for field in request.fields}
    for name in shape.properties.keys() & sent - inputs.keys():
        if shape.properties[name] is str and "enum" not in message["properties"][name]:
            inputs[name] = f"a {name}"
            assert stack.up(token, "one", inputs)[name] == f"a {name}"
    read = stack.refresh(token, "one")
    assert read is not None
    assert read.items() >= inputs.items()
    assert stack.diff(token, "one", inputs)[0] == {}
    stack.delete(token, "one")
    assert stack.cloud.list_resources() == []


def _least(shape: Block, message: Any, google: Document, names: Iterable[str] = ()) -> Any:
    """What must be given: each value the document's first that says something, or a word."""
    found = {}
    for name in sorted({*shape.required, *names}):
        kind, field = shape.properties[name], message["properties"].get(name, {})
        field = field.get("items", field)
        inner = element_of(kind) or kind
        value = {"location": "us-central1-a", "region": "us-central1"}.get(name, "one")
        if is_input_type(inner):
            value = _least(block(inner), google.schemas[field["$ref"]], google)
        elif inner in (int, bool):
            value = inner(1)
        elif "enum" in field:
            value = next(each for each in field["enum"] if not each.endswith("UNSPECIFIED"))
        found[name] = value if inner is kind else [value]
    return found
