"""The preview of a create: the inputs, with everything that the cloud fills in as unknown.

A program may read any of it. If a preview omits a property that the program uses, the preview
refuses a stack that the cloud would have created.
"""

import string
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.patterns import blocks
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, key_path


def planned(
    inputs: Mapping[str, Any],
    output_only: Iterable[str],
    computed: Iterable[str],
    means_none: Mapping[str, Collection[Any]],
) -> dict[str, Any]:
    """The properties of a resource that is to be created. `computed` are paths such as
    `vpcConfig.vpcId` or `rules[].id`, which are unknown if their block is given and they are unset
    or have a value in `means_none`."""
    nested = [path for path in computed if "." in path]
    top = [path for path in computed if "." not in path]
    plan: dict[str, Any] = dict.fromkeys([*output_only, *top], UNKNOWN) | _copy(dict(inputs))
    for path in nested:
        parent, _, name = path.rpartition(".")
        for _, block in blocks(plan, parent):
            if block.get(name) in (None, *means_none.get(path, ())):
                block[name] = UNKNOWN
    return plan


def foreseen(
    inputs: Mapping[str, Any], rules: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Properties that the provider knows before a create, if it knows all their parts. A rule is a
    text with `{names}` of inputs or else of the provider's configuration, `{of: a map, with:
    more}`, or the value itself."""
    given = dict(config) | {name: given for name, given in inputs.items() if given is not None}
    known: dict[str, Any] = {}
    for name, rule in rules.items():
        if inputs.get(name) is not None:
            continue
        if isinstance(rule, Mapping):
            labels = given.get(rule["of"], {})
            if UNKNOWN not in (labels, *labels):
                known[name] = {**labels, **rule["with"]}
            continue
        parts = [part for _, part, _, _ in string.Formatter().parse(str(rule)) if part]
        if all(given.get(part, UNKNOWN) != UNKNOWN for part in parts):
            known[name] = rule.format(**given) if parts else rule
    return known


def left_out(plan: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """Paths that the cloud filled in and the preview lacked.

    A value that was in the preview and changed afterwards does not count: clouds do that.
    """
    return list(_left_out(plan, made, ""))


def _left_out(plan: Any, made: Any, path: str) -> Iterator[str]:
    if made is False or made in (None, "", [], {}):  # equivalent to none
        return
    if plan is None:
        yield path
    elif isinstance(plan, Mapping) and isinstance(made, Mapping):
        for name, value in made.items():
            yield from _left_out(plan.get(name), value, key_path(path, name) if path else name)
    elif isinstance(plan, list) and isinstance(made, list):
        for index, pair in enumerate(zip(plan, made, strict=False)):
            yield from _left_out(*pair, f"{path}[{index}]")


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(inner) for name, inner in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
