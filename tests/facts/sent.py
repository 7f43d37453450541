"""What the real program sends to each cloud: the samples and the starts of `quality/tries.yaml`."""

import copy
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from gpu_cluster.components.schema.limits import fragment
from quality.keys import choices
from tests.components.recording import Registration
from tests.program.effects import leaves as leaves_of
from tests.program.effects import own_starts, places, read, starts
from tests.program.environments import recorded


@cache
def registered(platform: str) -> Sequence[Registration]:
    """Every resource of the platform's sample, and of the configs that follow from it, once."""
    found = {}
    configs = [*starts(platform)[: 1 + len(own_starts(platform))], *_chosen(platform)]
    for config in configs:
        if read(config) is None:
            continue
        for resource in recorded(config).resources:
            if resource.custom:
                found[resource.type, json.dumps(resource.inputs, sort_keys=True)] = resource
    return [replace(each, inputs=_whole(each.inputs)) for each in found.values()]


def _chosen(platform: str) -> Iterator[dict[str, Any]]:
    """With PROVE=1, a config for each word that a setting of cluster or pools can have: the cloud's
    own word for it is none of the sample's."""
    for key, setting in leaves_of(platform).items() if os.environ.get("PROVE") == "1" else ():
        words = (*choices(setting.kind), *fragment(setting.annotations).get("enum", ()))
        for word in words if key.startswith(("cluster.", "gpuPools.")) else ():
            for start in starts(platform):
                config = copy.deepcopy(dict(start))
                block, last = next(places(config, key), ({}, ""))
                block[last] = word
                if last and read(config) is not None:
                    yield config
                    break


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
