"""The JSON Schema of stack files says what the program says, as far as a schema can."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpu_cluster.components.platforms import WRITTEN
from gpu_cluster.components.schema import decode
from gpu_cluster.components.schema.refusal import UNKNOWN_KEY, Refusal
from gpu_cluster.components.settings import load as settings
from gpu_cluster.stacks.definition.files import EXAMPLES, ROOT, SAMPLES, document_in
from quality.docs import stack_schema
from tests.program.environments import as_engine_config, values_of, with_changes
from tests.unit.components import (
    test_settings,
    test_settings_batch,
    test_settings_pods,
)

FIXTURES = ROOT / "tests" / "fixtures" / "stacks"
COMMITTED = sorted([*EXAMPLES.glob("Pulumi.*.yaml"), *FIXTURES.glob("Pulumi.*.yaml")])
SCHEMA = json.loads(stack_schema.FILE.read_text())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


def complaints(document: Any) -> list[str]:
    """What the schema says of a stack file's content, each with the path of the key."""
    return [
        f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
        for error in VALIDATOR.iter_errors(document)
    ]


def refused() -> Iterator[tuple[str, dict[str, Any]]]:
    """What the program says of each refused config, and the config."""
    dev = test_settings_batch.dev()
    on_dev = [(dev, row) for row in (*test_settings_batch.REFUSED, *test_settings_pods.REFUSED)]
    for values, row in on_dev:
        yield row["says"], with_changes(values, row["change"])
    for stack, changes, says in test_settings.REFUSED:
        if says != "accepted":
            yield says, with_changes(values_of(stack), changes)


def test_the_file_is_up_to_date() -> None:
    """`make docs` writes it, from the classes of the settings."""
    assert stack_schema.FILE.read_text() == stack_schema.stack_schema_text()
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_committed_stack_file_passes(file: Path) -> None:
    """Neither the samples nor users' stacks of the tests have anything underlined."""
    assert complaints(document_in(file.read_bytes(), file.name)) == []


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_committed_stack_file_names_the_schema(file: Path) -> None:
    """In its first line, relative to its folder, so that an editor finds it."""
    first, *_ = file.read_text().splitlines()
    found = first.removeprefix("# yaml-language-server: $schema=")
    assert (file.parent / found).resolve() == stack_schema.FILE


@pytest.mark.parametrize("stack", SAMPLES)
def test_the_file_at_the_root_names_the_schema_too(stack: str) -> None:
    """Unless its user has taken the line out, or the file."""
    file = ROOT / f"Pulumi.{stack}.yaml"
    first = file.read_text().splitlines()[0] if file.is_file() else ""
    if first.startswith("# yaml-language-server:"):
        assert first.endswith("$schema=docs/reference/stack.schema.json")


SHAPES = {"is not a list", "is not a map", *(f"is not {what}" for what in decode._WORDS.values())}
"""Reasons of refusals of a value for its type."""


def for_its_shape(values: dict[str, Any]) -> bool:
    """Whether the program refuses the config for a key or a type; test_limits has the limits."""
    with pytest.raises(Refusal) as refused:
        settings.from_config(as_engine_config(values))
    return refused.value.code == UNKNOWN_KEY or refused.value.reason in SHAPES


def test_what_the_program_refuses_for_its_shape_the_schema_refuses() -> None:
    """A misspelled key or a wrong type; what several settings decide is for the program."""
    shapes = [(says, values) for says, values in refused() if for_its_shape(values)]
    assert len(shapes) > 50
    assert [says for says, values in shapes if not complaints({"config": values})] == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([["platfrom", "gke"]], "not allowed ('platfrom' was unexpected)"),
        ([["platform", "oke"]], f"'oke' is not one of {sorted(WRITTEN)}"),
        ([["name", "absent"]], "'name' is a required property"),
        ([["releaseChannel", "fast"]], "'fast' is not one of ['rapid', 'regular', "),
        ([["deletionProtection", "no"]], "'no' is not of type 'boolean'"),
    ],
)
def test_a_mistake_is_said_once_and_in_place(changes: list[list[Any]], says: str) -> None:
    """The platform decides by `if` and `then`, so that an editor shows no other platform's keys."""
    changes = [["gpu-cluster:cluster", *change] for change in changes]
    (said,) = complaints({"config": with_changes(values_of("dev"), changes)})
    assert said.startswith("config.gpu-cluster:cluster")
    assert says in said


def test_a_key_that_every_cluster_of_a_platform_refuses_is_not_offered() -> None:
    """An existing GKE cluster has no compute classes."""
    values = values_of("on-gke")
    for pool in values["gpu-cluster:gpuPools"].values():
        pool |= {"fallback": ["spot", "on-demand"], "migrateBack": False}
        pool |= {"consolidationDelayMinutes": 5}
    first, *_ = complaints({"config": values})
    assert "('consolidationDelayMinutes', 'fallback', 'migrateBack' were unexpected)" in first


def test_an_encrypted_value_passes_where_a_string_does() -> None:
    """`pulumi config set --secret --path` leaves a map with the key `secure`."""
    values = values_of("onprem")
    values["gpu-cluster:cluster"]["kubeconfig"] = {"secure": "v1:abc"}
    values["aws:secretKey"] = {"secure": "v1:abc"}
    assert complaints({"config": values, "encryptionsalt": "v1:x"}) == []
    values["gpu-cluster:cluster"]["kubeconfig"] = {"secrue": "v1:abc"}
    assert complaints({"config": values})


def test_what_is_beside_the_config_is_refused() -> None:
    """The engine ignores a key that is not indented, without a word."""
    assert complaints({"config": values_of("dev"), "gpu-cluster:workloads": {}})
