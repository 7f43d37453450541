"""How inputs pass through a provider: defaults, generated names, merging, reading back."""

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from rehearsal.plugins.cloud.facts import Facts
from rehearsal.plugins.cloud.patterns import blocks, given
from rehearsal.plugins.cloud.rules import breaches, lacking
from rehearsal.plugins.cloud.schema import Block, Problem, fit_block
from rehearsal.plugins.cloud.wire import decode
from stacks.engine.urn import Urn

_SUFFIX_DIGITS = 7


def checked(request: Any, shape: Block, known: Facts) -> tuple[dict[str, Any], list[Problem]]:
    """The inputs of a CheckRequest with defaults and names, and what is wrong with them."""
    problems: list[Problem] = []
    inputs = fit_block(decode(request.news), shape, "", problems)
    problems += lacking(inputs, known)
    olds = decode(request.olds)
    defaulted = add_defaults(inputs, known)
    for path in known.auto_named:
        if path in inputs or (path == "name" and "namePrefix" in inputs):
            continue
        if path in olds:
            # Also one that somebody chose and no longer gives: the bridge takes it from the state.
            name, reason = olds[path], None
        elif olds:
            continue  # it was named by `namePrefix`: what the cloud made of that stays
        else:
            name, reason = auto_name(request, known)
        if reason:
            problems.append(Problem(path, reason))
        else:
            inputs[path] = name
            defaulted.append(path)
    # As the official bridge does: so that the next check tells a generated name from a chosen one.
    inputs["__defaults"] = defaulted
    return inputs, problems + breaches(inputs, known)


def add_defaults(inputs: dict[str, Any], known: Facts) -> list[str]:
    """Adds the provider's own defaults and returns the top-level properties that it added.

    As in the official bridge, a default that something given excludes stays away.
    """
    added = []
    for path, value in known.defaults.items():
        rivals = {
            rival
            for group in (*known.conflicts, *known.exactly_one_of)
            if path in group
            for rival in group
            if rival != path
        }
        if any(given(inputs, rival) for rival in rivals):
            continue
        parent, _, name = path.rpartition(".")
        for _, block in blocks(inputs, parent):
            if block.get(name) is None:
                block[name] = value
                if not parent:
                    added.append(name)
    return added


def auto_name(request: Any, known: Facts) -> tuple[str, str | None]:
    """The physical name for the resource of a CheckRequest, and why there is none, if so.

    The engine may propose one (`pulumi:autonaming`); else it is the resource's name and seven
    digits, which the request's random seed decides if it has one.
    """
    resource = Urn.parse(request.urn).name
    longest = known.longest
    if longest is not None and len(resource) + 1 + _SUFFIX_DIGITS > longest:
        return "", (
            f"could not make instance: name '{resource}-' plus {_SUFFIX_DIGITS} random chars is "
            f"longer than maximum length {longest}"
        )
    if request.HasField("autonaming"):
        if request.autonaming.mode == request.autonaming.DISABLE:
            return "", f"'{resource}' needs an explicit name: the stack turns automatic ones off"
        if request.autonaming.proposed_name:
            return request.autonaming.proposed_name, None
    if request.randomSeed:
        digits = hashlib.sha256(request.randomSeed).hexdigest()[:_SUFFIX_DIGITS]
    else:
        digits = secrets.token_hex(_SUFFIX_DIGITS)[:_SUFFIX_DIGITS]
    return f"{resource.lower() if known.small_letters else resource}-{digits}", None


def merge(
    old_inputs: Mapping[str, Any],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    known: Facts,
    pattern: str = "",
) -> dict[str, Any]:
    """The complete properties of an update: what the program no longer gives is removed, unless the
    provider keeps it; what only the cloud knows stays."""
    merged: dict[str, Any] = {}
    for name, value in old.items():
        kept = _pattern(pattern, name) in known.kept_when_removed
        if name in new or name not in old_inputs or kept:
            merged[name] = value
    for name, value in new.items():
        current = old.get(name)
        if isinstance(value, dict) and isinstance(current, dict):
            inputs = old_inputs.get(name)
            inputs = inputs if isinstance(inputs, dict) else {}
            merged[name] = merge(inputs, current, value, known, _pattern(pattern, name))
        elif _pattern(pattern, name) in known.kept_when_removed and (
            is_left_out(value, current) or (value == "" and current is not None)
        ):
            merged[name] = current
        else:
            merged[name] = value
    return merged


def _pattern(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name


def is_left_out(new: Any, old: Any) -> bool:
    """Whether a list says nothing: an empty one of blocks is as good as none. An empty one of plain
    values is a value."""
    return new == [] and isinstance(old, list) and any(isinstance(each, dict) for each in old)


def with_ignored(
    merged: Mapping[str, Any], old: Mapping[str, Any], ignored: Iterable[str]
) -> dict[str, Any]:
    """The properties of an update with those that it ignores as they are: the engine puts the old
    inputs there, which somebody else, an autoscaler say, may have left behind. Paths into lists
    stay with the engine's values."""
    kept = dict(merged)
    for path in ignored:
        name, _, rest = path.partition(".")
        if name not in kept or name not in old:
            continue
        if not rest:
            kept[name] = old[name]
        elif isinstance(kept[name], Mapping) and isinstance(old[name], Mapping):
            kept[name] = with_ignored(kept[name], old[name], [rest])
    return kept


def as_declared(inputs: Any, current: Any) -> Any:
    """The inputs with their current values, without what the cloud added to them."""
    if isinstance(inputs, dict) and isinstance(current, dict):
        return {
            name: value if name.startswith("__") else as_declared(value, current[name])
            for name, value in inputs.items()
            if name.startswith("__") or name in current
        }
    if isinstance(inputs, list) and isinstance(current, list) and len(inputs) == len(current):
        return [as_declared(*pair) for pair in zip(inputs, current, strict=True)]
    return current


def without_meta(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties without the bridge's own bookkeeping, such as `__defaults`."""
    return {name: value for name, value in properties.items() if not name.startswith("__")}
