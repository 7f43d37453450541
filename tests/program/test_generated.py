"""Preview equals update, and a bad config is one line: for configs that nobody wrote."""

import copy
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_cluster.components.schema import decode, limits
from gpu_cluster.components.schema.refusal import Refusal
from gpu_cluster.components.settings import load as settings
from gpu_cluster.components.settings.blocks import RUNNING
from gpu_cluster.stacks.definition.validation import refusals
from quality.keys import Setting
from tests.components.recording import Recording, record
from tests.policy.cases import findings
from tests.policy.test_environments import resources_of
from tests.program.effects import STACK_OF, leaves, places
from tests.program.environments import ANSWERS, as_engine_config, run_program, values_of
from tests.program.generated import PLATFORM_STACKS, STACKS, broken, config, mistaken
from tests.unit.cli.test_stack_schema import complaints


def refusal(values: dict[str, Any]) -> str | None:
    """What refuses the config; None where it is accepted."""
    try:
        settings.from_config(as_engine_config(values))
    except ValueError as error:
        return str(error)
    return None


def agree(preview: Any, update: Any) -> bool:
    """Whether what a preview knows is what the update has; what it does not know is missing."""
    if preview is None:
        return True
    if isinstance(preview, dict) and isinstance(update, dict):
        return all(key in update and agree(item, update[key]) for key, item in preview.items())
    if isinstance(preview, list) and isinstance(update, list):
        return len(preview) == len(update) and all(map(agree, preview, update))
    return bool(preview == update)


def check_the_same(preview: Recording, update: Recording) -> None:
    """Asserts that both register the same resources with the same inputs where known."""
    planned = {resource.urn: resource for resource in preview.resources}
    made = {resource.urn: resource for resource in update.resources}
    assert planned.keys() == made.keys()
    assert len(planned) == len(preview.resources)
    for urn, each in planned.items():
        assert agree(each.inputs, made[urn].inputs), urn
        assert each.ignore_changes == made[urn].ignore_changes, urn


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("stack", PLATFORM_STACKS)
def test_a_preview_shows_what_the_update_makes(stack: str, seed: int) -> None:
    """Every accepted config registers the same resources with the same known inputs in both, and
    no pod has a power over its node that neither the config nor the policy pack names."""
    values = config(stack, seed)
    given_config = as_engine_config(values)
    directories = [word for word in words(values) if word.startswith("/")]
    preview = record(run_program, config=given_config, preview=True)
    update = record(run_program, config=given_config, outputs=ANSWERS)
    check_the_same(preview, update)
    for policy in ("pod-security-baseline", "host-paths", "rbac-too-broad"):
        found = findings(policy, resources_of(stack, update))
        assert [each for each in found if not any(path in each for path in directories)] == []


DRAWS = pytest.mark.parametrize(
    "seeds",
    [range(20), pytest.param(range(20, 60), marks=pytest.mark.prove(reason="half a minute"))],
)


@DRAWS
@pytest.mark.parametrize("stack", PLATFORM_STACKS)
def test_a_broken_config_is_refused_in_one_line(stack: str, seeds: range) -> None:
    """Whatever stands at whatever key, it is read or refused in one line that names a key."""
    refusals = [says for seed in seeds if (says := refusal(broken(stack, seed))) is not None]
    assert len(refusals) >= len(seeds) / 5
    for says in refusals:
        assert says.startswith(("gpu-cluster:", "gcp:", "aws:")), says
        assert len(says.splitlines()) == 1, says


SEED = int(os.environ.get("SEED") or date.today().toordinal())
"""Of the slow runs: another one each day, unless it is given."""
LINE = re.compile(r".+: \S.*")


@pytest.mark.parametrize(
    ("seed", "count"),
    [(0, 250), pytest.param(SEED, 30_000, marks=pytest.mark.prove(reason="ten minutes each"))],
)
@pytest.mark.parametrize("mistakes", [1, 2])
def test_a_mistaken_stack_file_is_refused_in_lines(mistakes: int, seed: int, count: int) -> None:
    """By the program as by `gpu-cluster validate`: no other exception, and a line for each."""
    refused = 0
    for number in range(count):
        stack, own = [*STACKS][number % len(STACKS)], seed + number // len(STACKS)
        where = f"SEED={own}: {stack}, {mistakes}"
        try:
            lines = [*map(str, refusals(mistaken(stack, own, mistakes)))]
        except Exception as error:
            raise AssertionError(where) from error
        assert [line for line in lines if not LINE.fullmatch(line)] == [], where
        refused += bool(lines)
    print(f"SEED={seed}: {refused} of {count} refused")
    assert refused > count / 2


def shown(values: Mapping[str, Any]) -> set[str]:
    """The paths of all refusals of the config."""
    try:
        settings.from_config(as_engine_config(values))
    except Refusal as error:
        return {refusal.at for refusal in error.every}
    return set()


def mistake(setting: Setting) -> Any:
    """A value that a setting's type and limits are likely to refuse."""
    return -(10**9) if setting.kind in (int, float) else "no such thing"


def refused_alone(setting: Setting) -> bool:
    """Whether its type or its limits refuse the mistake, without a look at other settings."""
    given = mistake(setting)
    try:
        read = decode._decode((setting.key,), setting.kind, given)
    except Refusal:
        return True
    return limits.refusal(setting.annotations, read) is not None


@pytest.mark.parametrize(
    "most", [40, pytest.param(10**6, marks=pytest.mark.prove(reason="all pairs: minutes"))]
)
@pytest.mark.parametrize("platform", STACK_OF)
def test_two_refused_settings_of_a_block_are_both_shown(platform: str, most: int) -> None:
    """Each that is refused without a look at others; whatever else the block has."""
    sample = values_of(STACK_OF[platform])

    @cache
    def paths(*keys: str) -> set[str]:
        values = copy.deepcopy(sample)
        for key in keys:
            block, name = next(places(values, key))
            block[name] = mistake(leaves(platform)[key]) if name != "xyz" else "no such thing"
        return shown(values)

    random, by_block = Random(platform), dict[str, dict[str, set[str]]]()
    refused = [
        key
        for key, setting in leaves(platform).items()
        if next(places(sample, key), None) and refused_alone(setting)
    ]
    for key in random.sample(refused, min(most, len(refused))):
        outer = key.rpartition(".")[0]
        xyz = f"{outer}.xyz"
        if own := paths(key, xyz) - paths(xyz):
            by_block.setdefault(outer, {})[key] = own
    pairs = [pair for keys in by_block.values() for pair in itertools.combinations(keys, 2)]
    assert len(pairs) > 20
    for one, other in random.sample(pairs, min(most, len(pairs))):
        outer = one.rpartition(".")[0]
        assert by_block[outer][one] | by_block[outer][other] <= paths(one, other), (one, other)


BATCH = {*RUNNING, "batch", "queue", "wait"}
DRAWN: Mapping[str, set[str]] = {
    "dev": {*BATCH, "spot", "flex-start", "reservation", "sharing"},
    "autopilot": {*BATCH, "spot", "flex-start", "reservation", "sharing"},
    "train": {*BATCH, "spot", "reservation", "capacity-block", "sharing"},
    "onprem": {*BATCH, "sharing"},
}


def words(value: Any) -> Iterator[str]:
    """Every key and every text in a config."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key.removeprefix("gpu-cluster:")
            yield from words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from words(inner)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("stack", DRAWN)
def test_what_is_drawn_has_queues_jobs_and_every_way_to_get_gpus(stack: str) -> None:
    """And the settings accept it: what they refuse never reaches a preview."""
    missing = set(DRAWN[stack])
    for seed in range(400):
        values = config(stack, seed)
        assert refusal(values) is None
        missing -= set(words(values))
        if seed >= 20 and not missing:
            break
    assert missing == set()


@pytest.mark.parametrize("stack", PLATFORM_STACKS)
def test_a_seed_gives_the_same_config(stack: str) -> None:
    """And another seed another one."""
    assert config(stack, 1) == config(stack, 1, again=True)
    assert config(stack, 1) != config(stack, 2)


@DRAWS
@pytest.mark.parametrize("stack", PLATFORM_STACKS)
def test_an_editor_underlines_nothing_that_is_accepted(stack: str, seeds: range) -> None:
    """The JSON Schema of stack files lets every accepted config pass."""
    for seed in seeds:
        assert complaints({"config": config(stack, seed)}) == []


@given(value=st.recursive(st.integers() | st.text(max_size=3), st.lists, max_leaves=4))
def test_a_difference_is_seen(value: Any) -> None:
    """The comparison itself tells one value from another."""
    assert agree(value, json.loads(json.dumps(value)))
    assert not agree({"a": value}, {"a": [value]})
    assert not agree({"a": value}, {})
