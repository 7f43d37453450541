"""What a preview of a create says: the inputs, and as unknown all that only the cloud fills in.

A program may read any of it. What a preview leaves out is missing where the program uses it, and
that refuses a stack which the cloud would have made.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from plugins.cloud.immutable import blocks
from plugins.cloud.schema import UNKNOWN, key_path


def planned(
    inputs: Mapping[str, Any], output_only: Iterable[str], computed: Iterable[str]
) -> dict[str, Any]:
    """The properties of a resource that is to be created. `computed` are paths such as
    `vpcConfig.vpcId` or `rules[].id`: unknown where they are unset and their block is given."""
    nested = [path for path in computed if "." in path]
    top = [path for path in computed if "." not in path]
    plan: dict[str, Any] = dict.fromkeys([*output_only, *top], UNKNOWN) | _copy(dict(inputs))
    for path in nested:
        parent, _, name = path.rpartition(".")
        for _, block in blocks(plan, parent):
            if block.get(name) is None:
                block[name] = UNKNOWN
    return plan


def left_out(plan: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """Paths of what the cloud has filled in and the preview did not know of at all.

    A value that the preview knew and the cloud then changed does not count: clouds do that.
    """
    return list(_left_out(plan, made, ""))


def _left_out(plan: Any, made: Any, path: str) -> Iterator[str]:
    if made in (None, "", [], {}):  # as good as nothing
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
        return {name: _copy(each) for name, each in value.items()}
    return [_copy(each) for each in value] if isinstance(value, list) else value
