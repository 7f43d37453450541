"""Changes of a resource that its provider makes in place, derived from the SDK's types and from
what is known of the type; each must be there when it is read back."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.schema import Block, block, element_of, resource_schema
from gpu_cluster.rehearsal.plugins.sdk import is_input_type
from tests.unit.plugins.offline_engine import Engine, Refused

Values = Mapping[str, Any]
"""Path -> a value that neither type nor facts yield; a `Skip` says why an input is not changed."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Why an input is not changed."""

    why: str


def changes(
    token: str, inputs: Mapping[str, Any], accepted: Collection[str], values: Values
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each input that an update may change, and the inputs with another value there."""
    yield from _beneath(token, dict(inputs), resource_schema(token).inputs, "", accepted, values)


def _beneath(
    token: str,
    inputs: dict[str, Any],
    shape: Block,
    at: str,
    accepted: Collection[str],
    values: Values,
) -> Iterator[tuple[str, dict[str, Any]]]:
    known = facts.of(token)
    for name, kind in sorted(shape.properties.items()):
        path = f"{at}{name}"
        if (not at and name not in accepted) or path in known.not_inputs:
            continue
        if any(known.replaces(entry) for entry in (path, f"{path}[]")):
            continue
        current = inputs.get(name)
        if path in values:
            if not isinstance(values[path], Skip):
                yield path, inputs | {name: values[path]}
        elif is_input_type(kind):
            inner = current if isinstance(current, dict) else {}
            if current is not None:
                for deeper, changed in _beneath(token, inner, block(kind), f"{path}.", (), values):
                    yield deeper, inputs | {name: changed}
        elif (value := _another(path, kind, current, known)) is not None:
            yield path, inputs | {name: value}


def _another(path: str, kind: Any, current: Any, known: facts.Facts) -> Any:
    """Another value of the type; None if it does not follow from type and facts."""
    default = known.defaults.get(path) if current is None else current
    if allowed := known.enums.get(path):
        return next((value for value in allowed if value not in (default, "")), None)
    if kind is bool:
        return not default
    if kind in (int, float):
        bounds = known.bounds.get(path, {})
        ends = (bounds.get("min", 1), bounds.get("max", (default or 0) + 1))
        return next(int(value) for value in ends if value != default)
    if kind is str:
        return "other"
    if element_of(kind) is None:  # a map of texts
        return {"team": "hpc", "new": "yes"}
    return None


def complaints(engine: Engine, token: str, name: str, inputs: dict[str, Any]) -> Iterator[str]:
    """What is wrong after an update to these inputs: it is refused, replaces, or is not what is
    read back, at once or after a refresh."""
    try:
        different, answer = engine.diff(token, name, inputs)
    except AssertionError:
        yield f"refused: {engine.check(token, name, inputs)[1]}"
        return
    if answer.replaces:
        yield f"replaces: {sorted(answer.replaces)}"
        return
    if not different:
        yield "no change"
        return
    try:
        engine.up(token, name, inputs)
    except Refused as refused:
        yield f"refused: {refused}"
        return
    for when in ("update", "refresh"):
        if left := engine.diff(token, name, inputs)[0]:
            yield f"after the {when}: {sorted(left)}"
        engine.refresh(token, name)
