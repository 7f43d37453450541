"""Who follows a refusal that offers numbers or words is not refused again at the same key."""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from gpu_cluster.components.schema.refusal import Range, Refusal
from gpu_cluster.components.settings import load as settings
from quality.keys import Setting, choices
from tests.program.effects import STACK_OF, Config, leaves, places, starts
from tests.program.environments import as_engine_config


def refused(config: Config) -> dict[str, Refusal]:
    """Key -> what refuses it."""
    try:
        settings.from_config(as_engine_config(config))
    except Refusal as first:
        return {refusal.at: refusal for refusal in reversed(first.every)}
    return {}


def wrong(setting: Setting) -> list[Any]:
    """Values of its type that the setting never has; none if any value is good."""
    if setting.kind in (int, float):
        return [-(10**9), 10**9]
    return ["nonsense"] if choices(setting.kind) or setting.kind is str else []


def spots(platform: str) -> Iterator[tuple[Setting, Config, int]]:
    """Each setting with wrong values, a config, and the position of a block that can have it."""
    for key, setting in leaves(platform).items():
        seen = set()
        for start in starts(platform) if wrong(setting) else ():
            scaler = start["gpu-cluster:cluster"].get("scaler")
            for position, (block, _) in enumerate(places(start, key)):
                mark = json.dumps([block, scaler, "gpu-cluster:batch" in start])
                if mark not in seen:
                    seen.add(mark)
                    yield setting, start, position


def offers(refusal: Refusal | None) -> list[Any]:
    """The ends of the numbers that it offers, or the words."""
    if refusal is None:
        return []
    allowed = refusal.allowed
    ends = (allowed.least, allowed.most) if isinstance(allowed, Range) else allowed
    return [end for end in ends if end is not None]


def refused_again(setting: Setting, start: Config, position: int) -> list[tuple[str, str]]:
    """The refusals of wrong values, each with that of a value that it offers."""
    config = copy.deepcopy(start)
    block, name = [*places(config, setting.key)][position]
    found = []
    for given in wrong(setting):
        block[name] = given
        paths = refused(config)
        own = {path: refusal for path, refusal in paths.items() if path.endswith(f".{name}")}
        for path, refusal in own.items():
            if refusal.given != given:
                continue
            for value in offers(refusal):
                block[name] = value
                again = refused(config).get(path)
                # More than this key has to change, and the refusal says what.
                more = (
                    "which its owner must enable", "name one of them in",
                    "needs cluster.gpuNetworks", "only for clusters of this stack",
                    "EC2 does not offer", "needs a file system that several nodes can mount",
                )  # fmt: skip
                if again and not any(words in str(again) for words in more):
                    found.append((str(refusal), str(again)))
    return found


@pytest.mark.parametrize(
    "most", [60, pytest.param(10**6, marks=pytest.mark.prove(reason="all of them: minutes"))]
)
@pytest.mark.parametrize("platform", STACK_OF)
def test_what_a_refusal_offers_is_accepted(platform: str, most: int) -> None:
    """With the other settings of the same stack."""
    drawn = [*spots(platform)]
    assert len(drawn) > 100
    drawn = Random(platform).sample(drawn, min(most, len(drawn)))
    assert [fault for spot in drawn for fault in refused_again(*spot)] == []
