"""Who follows a refusal that names a range or words is not refused again at the same key."""

import copy
import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from quality.docs.keys import choices
from tests.program.effects import STACK_OF, Config, leaves, places, starts
from tests.program.test_generated import refusal

RANGE = re.compile(
    r"allowed[^:]*: (?:(-?\d+) to (-?\d+)|(-?\d+) or more|at most (-?\d+)|(\d+)(?:;|$))"
)


WORDS = re.compile(r"'nonsense' is not known; allowed: ([^; ]+(?:, [^; ]+)*)$")


def spots(platform: str, *kinds: type) -> Iterator[tuple[str, Config, int]]:
    """Each key with a value of these types, a config, and the position of a block that can have
    it."""
    for key, setting in leaves(platform).items():
        seen = set()
        for start in (
            starts(platform)
            if setting.kind in kinds or (str in kinds and choices(setting.kind))
            else ()
        ):
            scaler = start["gpu-cluster:cluster"].get("scaler")
            for position, (block, _) in enumerate(places(start, key)):
                mark = json.dumps([block, scaler, "gpu-cluster:batch" in start])
                if mark not in seen:
                    seen.add(mark)
                    yield key, start, position


def refused_again(key: str, start: Config, position: int) -> list[Any]:
    """The refusals of a number and of an end of its range, unless the first one has the reason."""
    config = copy.deepcopy(start)
    block, name = [*places(config, key)][position]
    found = []
    for given in (-(10**9), 10**9):
        block[name] = given
        says = refusal(config) or "accepted"
        path, _, reason = says.partition(": ")
        match = path.endswith(name) and RANGE.search(reason)
        for end in filter(None, match.groups() if match else ()):
            block[name] = int(end)
            again = refusal(config) or ""
            why = again.removeprefix(f"{path}: ").removeprefix(f"{end} ")
            if again.startswith(f"{path}: ") and why not in says:
                found.append((says, again))
    return found


def word_refused_again(key: str, start: Config, position: int) -> list[Any]:
    """The same for a word that is not known, and each of those that are listed instead."""
    config = copy.deepcopy(start)
    block, name = [*places(config, key)][position]
    block[name] = "nonsense"
    says = refusal(config) or "accepted"
    path, _, reason = says.partition(": ")
    match = path.endswith(name) and WORDS.search(reason)
    found = []
    for word in match[1].split(", ") if match else ():
        block[name] = word
        again = refusal(config) or ""
        if again.startswith(f"{path}: "):
            found.append((says, again))
    return found


@pytest.mark.parametrize(
    "most", [60, pytest.param(10**6, marks=pytest.mark.prove(reason="all of them: a minute"))]
)
@pytest.mark.parametrize("platform", STACK_OF)
def test_what_a_refusal_offers_is_accepted(platform: str, most: int) -> None:
    """With the other settings of the same stack."""
    for again, kinds in ((refused_again, (int, float)), (word_refused_again, (str,))):
        drawn = [*spots(platform, *kinds)]
        drawn = Random(platform).sample(drawn, min(most, len(drawn)))
        assert [one for spot in drawn for one in again(*spot)] == []
