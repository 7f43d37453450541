"""What the real program sends to each cloud: the samples and what `effects.yaml` makes of them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from tests.components.recording import Registration
from tests.program.effects import own_starts, read, starts
from tests.program.environments import recorded


@cache
def registered(platform: str) -> Sequence[Registration]:
    """Every resource of the platform's sample, and of the configs that follow from it, once."""
    found = {}
    for config in starts(platform)[: 1 + len(own_starts(platform))]:
        if read(config) is None:
            continue
        for each in recorded(config).resources:
            if each.custom:
                found[each.type, json.dumps(each.inputs, sort_keys=True)] = each
    return [replace(each, inputs=_whole(each.inputs)) for each in found.values()]


def _whole(value: Any) -> Any:
    """Without what is unknown, and with integers where the wire has numbers alone."""
    if isinstance(value, Mapping):
        return {key: _whole(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Path with `[]` for list elements -> value, for every value that is no map or list.

    A map's own key, such as a label's, is `*`.
    """
    if isinstance(value, dict):
        for key, each in value.items():
            name = key if key.isalnum() else "*"
            yield from leaves(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each, f"{path}[]")
    else:
        yield path, value
