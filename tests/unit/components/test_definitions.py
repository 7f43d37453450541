"""The pinned definitions of JobSet, Kueue and Karpenter: of the image's version, readable."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import struct_pb2

from gpu_cluster.components.batch.kueue import CONVERTED
from gpu_cluster.components.catalog import images
from gpu_cluster.components.crds import definitions
from gpu_cluster.tools import definitions as pinned
from gpu_cluster.tools.programs import program
from gpu_cluster.tools.sections import ROOT

IMAGES = {
    "jobset": images.JOBSET, "kueue": images.KUEUE, "karpenter-aws": images.KARPENTER,
}  # fmt: skip


def levels(value: Any) -> int:
    """Levels of objects and lists, scalars included."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(levels, inner), default=0)


def schemas(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a definition."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from schemas(inner)


@pytest.mark.parametrize("name", pinned.PROGRAMS)
def test_definitions_and_image_are_of_one_version(name: str) -> None:
    """What the program declares is what runs in a cluster, whatever a rehearsal can build."""
    source = json.loads((pinned.FOLDER / f"{name}.json").read_text())["source"]
    assert f"{program(name).module} v{(IMAGES[name].tag or '').removeprefix('v')}," in source


def test_the_versions_are_those_that_were_chosen() -> None:
    """Kueue 0.16 stores v1beta2 and still serves v1beta1; 0.16.9 is its last patch, three after the
    one that a rehearsal can build, which a page compares for both."""
    assert (images.KUEUE.tag, images.JOBSET.tag) == ("v0.16.9", "v0.12.0")
    page = (ROOT / "docs" / "contributing" / "upgrade-kueue.md").read_text()
    built = program("kueue").version()
    assert f"### After {built.removeprefix('v')}," in page
    assert f"### After {images.KUEUE.tag.removeprefix('v')}," in page


def fields(schema: dict[str, Any], path: str = "") -> set[str]:
    """The paths of a schema's fields."""
    inner = {**schema.get("properties", {}), "[]": schema.get("items")}
    inner = {name: field for name, field in inner.items() if field is not None}
    return {f"{path}.{name}" for name in inner} | {
        each for name, field in inner.items() for each in fields(field, f"{path}.{name}")
    }


def test_kinds_whose_fields_have_new_names_are_converted() -> None:
    """The API server only renames the version of the others, and would drop what has moved."""
    moved = set()
    for definition in definitions.read_definitions("kueue"):
        former, current = (
            fields(version["schema"]["openAPIV3Schema"])
            for version in sorted(definition["spec"]["versions"], key=lambda one: one["name"])
        )
        if current - former:
            moved.add(definition["spec"]["names"]["plural"])
    assert moved <= set(CONVERTED)
    # Only a status field goes there.
    assert set(CONVERTED) - moved == {"cohorts"}


@pytest.mark.parametrize("name", pinned.PROGRAMS)
def test_the_file_is_what_the_command_writes(name: str) -> None:
    """Nobody has changed it by hand."""
    if not program(name).folder().is_dir():
        pytest.skip(f"{name} is not built: python -m gpu_cluster.tools build {name}")
    assert (pinned.FOLDER / f"{name}.json").read_text() == pinned.definitions_text(name)


@pytest.mark.parametrize("name", pinned.PROGRAMS)
def test_a_message_with_a_definition_in_it_can_be_read(name: definitions.Source) -> None:
    """Python's protobuf refuses more than 100 levels; a state adds two to a definition's."""
    for definition in definitions.read_definitions(name):
        message = struct_pb2.Struct()
        message.update({"state": {"__inputs": definition}})
        struct_pb2.Struct.FromString(message.SerializeToString())
        assert levels(definition) <= pinned.DEEPEST + 2


def test_only_what_lies_deep_is_open() -> None:
    """A container's image and its variables' names are checked; a variable's source is not."""
    (definition,) = definitions.read_definitions("jobset")
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    job = spec["properties"]["replicatedJobs"]["items"]["properties"]["template"]
    pod = job["properties"]["spec"]["properties"]["template"]["properties"]["spec"]
    container = pod["properties"]["containers"]["items"]["properties"]
    assert container["image"] == {"type": "string"}
    variable = container["env"]["items"]["properties"]
    assert variable["name"] == {"type": "string"}
    assert variable["valueFrom"] == {"type": "object", "x_kubernetes_preserve_unknown_fields": True}


@pytest.mark.parametrize("name", pinned.PROGRAMS)
def test_a_list_told_apart_by_keys_has_them(name: definitions.Source) -> None:
    """The API server refuses a definition whose list keys are not among its items' fields."""
    keyed = [
        each
        for each in schemas(definitions.read_definitions(name))
        if "x_kubernetes_list_map_keys" in each
    ]
    assert keyed
    for each in keyed:
        assert set(each["x_kubernetes_list_map_keys"]) <= set(each["items"]["properties"])
