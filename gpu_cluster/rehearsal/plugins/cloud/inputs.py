"""How inputs pass through a provider: defaults, generated names, merging, reading back."""

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.facts import Facts
from gpu_cluster.rehearsal.plugins.cloud.patterns import blocks, given
from gpu_cluster.rehearsal.plugins.cloud.rules import breaches, lacking
from gpu_cluster.rehearsal.plugins.cloud.schema import Block, Problem, fit_block
from gpu_cluster.rehearsal.plugins.cloud.wire import decode
from gpu_cluster.stacks.engine.urn import Urn

_SUFFIX_DIGITS = 7


def checked(request: Any, shape: Block, known: Facts) -> tuple[dict[str, Any], list[Problem]]:
    """The inputs of a CheckRequest with defaults and names, and their problems."""
    problems: list[Problem] = []
    inputs = fit_block(decode(request.news), shape, "", problems)
    problems += lacking(inputs, known)
    olds = decode(request.olds)
    defaulted = add_defaults(inputs, known)
    for path in known.auto_named:
        if path in inputs or (path == "name" and "namePrefix" in inputs):
            continue
        if path in olds:
            # Even one that was chosen and is no longer given: the bridge reads it from the state.
            name, reason = olds[path], None
        elif olds:
            continue  # it was named by `namePrefix`: the resulting name is kept
        else:
            name, reason = auto_name(request, known)
        if reason:
            problems.append(Problem(path, reason))
        else:
            inputs[path] = name
            defaulted.append(path)
    # Like the official bridge: the next check can then tell a generated name from a chosen one.
    inputs["__defaults"] = defaulted
    return inputs, problems + breaches(inputs, known, new=not olds)


def add_defaults(inputs: dict[str, Any], known: Facts) -> list[str]:
    """Adds the provider's own defaults and returns the top-level properties that it added.

    As in the official bridge, a default is not added if a given property excludes it.
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
    """The physical name for the resource of a CheckRequest, and the reason if there is none.

    The engine may propose one (`pulumi:autonaming`); otherwise it is the resource's name and seven
    digits, derived from the request's random seed if it has one.
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
            return known.begins + request.autonaming.proposed_name.removeprefix(known.begins), None
    if request.randomSeed:
        digits = hashlib.sha256(request.randomSeed).hexdigest()[:_SUFFIX_DIGITS]
    else:
        digits = secrets.token_hex(_SUFFIX_DIGITS)[:_SUFFIX_DIGITS]
    resource = resource.lower() if known.small_letters else resource
    return f"{known.begins}{resource.removeprefix(known.begins)}-{digits}", None


def merge(
    old_inputs: Mapping[str, Any],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    known: Facts,
    pattern: str = "",
) -> dict[str, Any]:
    """The complete properties of an update. Properties that the program no longer gives are removed
    unless the provider keeps them; those that only the cloud sets are kept."""
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
            (is_left_out(value, current) and _pattern(pattern, name) not in known.attributes)
            or (value == "" and current is not None)
        ):
            merged[name] = current
        else:
            merged[name] = value
    return merged


def _pattern(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name


def is_left_out(new: Any, old: Any) -> bool:
    """Whether a list is equivalent to none: an empty list of blocks is, an empty list of plain
    values is not."""
    return new == [] and isinstance(old, list) and any(isinstance(element, dict) for element in old)


def with_ignored(
    merged: Mapping[str, Any], old: Mapping[str, Any], ignored: Iterable[str]
) -> dict[str, Any]:
    """The properties of an update, with ignored ones at their current value. The engine sends the
    old inputs for those, which another owner, such as an autoscaler, may have changed since. Paths
    into lists keep the engine's values."""
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
    """The inputs with their current values, without the cloud's additions."""
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
    """The properties without the bridge's metadata, such as `__defaults`."""
    return {name: value for name, value in properties.items() if not name.startswith("__")}
