"""What a program registered, flat: a path and a value for each input and option of a resource."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.stacks.engine.urn import Urn, of_reference
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


def inputs_of(resource: Registration) -> Iterator[tuple[str, Any]]:
    """Each option, its name in parentheses, and each input: `nodeConfig.labels.team`."""
    yield from options_of(resource)
    yield from flat(tree_of(resource))


def options_of(resource: Registration) -> Iterator[tuple[str, Any]]:
    """Each option that is given, its name in parentheses; a list's values one by one."""
    for option in OPTIONS:
        given = getattr(resource, option)
        for value in sorted(given) if isinstance(given, frozenset | tuple) else [given]:
            if value:
                urn = of_reference(value)[0] if option == "provider" else value
                yield f"({option})", _last(urn) if isinstance(urn, str) else urn


def tree_of(resource: Registration, *, longest: float = float("inf")) -> Any:
    """The inputs, with the values of JSON texts; a definition of a resource type is one text, and
    so is a JSON text of more than `longest` values."""
    if resource.type.endswith(":CustomResourceDefinition"):
        return json.dumps(resource.inputs, sort_keys=True)
    return tree(resource.inputs, longest)


def tree(value: Any, longest: float = float("inf")) -> Any:
    """A value with those of JSON in its texts."""
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(ValueError):
            inner = tree(json.loads(value))
            return inner if len([*flat(inner)]) <= longest else value
    if isinstance(value, Mapping):
        return {str(key): tree(each, longest) for key, each in sorted(value.items())}
    return [tree(each, longest) for each in value] if isinstance(value, list) else value


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a value with their paths, sorted."""
    if isinstance(value, Mapping) and value:
        for key, each in sorted(value.items()):
            yield from flat(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for position, each in enumerate(value):
            yield from flat(each, f"{path}[{position}]")
    else:
        yield path, value


def _last(urn: str) -> str:
    """Type and name of a URN; anything else as it is."""
    return Urn.parse(urn).label if urn.startswith("urn:") else urn
