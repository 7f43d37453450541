"""All input paths of a resource type, from its SDK."""

from collections.abc import Iterator
from typing import Any

from rehearsal.plugins import sdk
from rehearsal.plugins.cloud.schema import Block, block, element_of, resource_schema


def inputs(token: str) -> Iterator[tuple[str, Any]]:
    """Path (`a[].b`) and type of every input; for a list, also the path of its elements."""
    yield from _beneath(resource_schema(token).inputs, "", ())


def _beneath(shape: Block, parent: str, above: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    for name, kind in shape.properties.items():
        path = f"{parent}{name}"
        yield path, kind
        element, inside = element_of(kind), ""
        if element is not None:
            inside = "[]"
            yield f"{path}{inside}", element
        within = kind if element is None else element
        if sdk.is_input_type(within) and within not in above:
            yield from _beneath(block(within), f"{path}{inside}.", (*above, within))
