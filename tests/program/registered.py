"""What a program registered, flat: a path and a value for each input and option of a resource."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from stacks.engine.urn import Urn, of_reference
from tests.components.recording import Registration

OPTIONS = (
    "parent",
    "provider",
    "depends_on",
    "ignore_changes",
    "protect",
    "deleted_with",
    "delete_before_replace",
    "replace_on_changes",
    "secret_outputs",
    "update_timeout",
    "hooks",
)


def inputs_of(
    resource: Registration, *, longest: float = float("inf")
) -> Iterator[tuple[str, Any]]:
    """Each option, its name in parentheses, and each input: `nodeConfig.labels.team`. A JSON text
    of more than `longest` values stays a text."""
    for option in OPTIONS:
        given = getattr(resource, option)
        for value in sorted(given) if isinstance(given, frozenset | tuple) else [given]:
            if value:
                urn = of_reference(value)[0] if option == "provider" else value
                yield f"({option})", _last(urn) if isinstance(urn, str) else urn
    if resource.type.endswith(":CustomResourceDefinition"):
        yield "", json.dumps(resource.inputs, sort_keys=True)
    else:
        yield from flat(resource.inputs, longest=longest)


def flat(value: Any, path: str = "", *, longest: float = float("inf")) -> Iterator[tuple[str, Any]]:
    """The leaves of a value with their paths, sorted; also of JSON in a text."""
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(ValueError):
            inner = [*flat(json.loads(value), path)]
            yield from inner if len(inner) <= longest else [(path, value)]
            return
    if isinstance(value, Mapping) and value:
        for key, each in sorted(value.items()):
            yield from flat(each, f"{path}.{key}" if path else str(key), longest=longest)
    elif isinstance(value, list) and value:
        for position, each in enumerate(value):
            yield from flat(each, f"{path}[{position}]", longest=longest)
    else:
        yield path, value


def _last(urn: str) -> str:
    """Type and name of a URN; anything else as it is."""
    return Urn.parse(urn).label if urn.startswith("urn:") else urn
