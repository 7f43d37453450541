"""Preview equals update, and a bad config is one line: for configs that nobody wrote."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from components.settings import load as config
from tests.components.recording import Recording, record
from tests.policy.cases import findings
from tests.policy.test_environments import resources_of
from tests.program.environments import CLUSTER_OUTPUTS, as_engine_config, run_program
from tests.program.generated import PLATFORM_STACKS, broken, configs
from tests.unit.cli.test_stack_schema import complaints

QUICK = settings(
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # to shrink a failing config takes minutes, and it is small as it is
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
"""The same examples in every run of the same tests: a test that others wait for must not fail by
chance. Hypothesis also draws constants of the modules that are imported, so that another selection
of tests, or another literal in the code, gives other examples."""


def refusal(values: dict[str, Any]) -> str | None:
    """What refuses the config; None where it is accepted."""
    try:
        config.from_config(as_engine_config(values))
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
    planned = {each.urn: each for each in preview.resources}
    made = {each.urn: each for each in update.resources}
    assert planned.keys() == made.keys()
    assert len(planned) == len(preview.resources)
    for urn, each in planned.items():
        assert agree(each.inputs, made[urn].inputs), urn
        assert each.ignore_changes == made[urn].ignore_changes, urn


@pytest.mark.parametrize("stack", PLATFORM_STACKS)
def test_a_preview_shows_what_the_update_makes(stack: str) -> None:
    """Every accepted config registers the same resources with the same known inputs in both, and
    no pod has a power over its node that the policy pack does not know by name."""
    accepted = configs(stack).filter(lambda values: refusal(values) is None)

    @settings(QUICK, max_examples=5)
    @given(values=accepted)
    def check(values: dict[str, Any]) -> None:
        given_config = as_engine_config(values)
        preview = record(run_program, config=given_config, preview=True)
        update = record(run_program, config=given_config, outputs=CLUSTER_OUTPUTS)
        check_the_same(preview, update)
        for policy in ("pod-security-baseline", "host-paths", "rbac-too-broad"):
            assert findings(policy, resources_of(stack, update)) == []

    check()


@pytest.mark.parametrize("stack", PLATFORM_STACKS)
def test_a_broken_config_is_refused_in_one_line(stack: str) -> None:
    """Whatever stands at whatever key, it is read or refused in one line that names a key."""
    refused = 0

    @settings(QUICK, max_examples=60)
    @given(values=broken(stack))
    def check(values: dict[str, Any]) -> None:
        nonlocal refused
        says = refusal(values)
        if says is not None:
            refused += 1
            assert says.startswith(("gpu-cluster:", "gcp:", "aws:")), says
            assert len(says.splitlines()) == 1, says

    check()
    assert refused >= 20


BATCH = {"batch", "trainingJobs", "queue", "gpuTest", "wait"}
DRAWN: Mapping[str, set[str]] = {
    "dev": {*BATCH, "on-demand", "spot", "flex-start", "reservation", "sharing"},
    "autopilot": {*BATCH, "on-demand", "spot", "flex-start", "reservation", "sharing"},
    "train": {*BATCH, "on-demand", "spot", "reservation", "capacity-block", "sharing"},
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


@pytest.mark.parametrize("stack", PLATFORM_STACKS)
def test_what_is_drawn_has_queues_jobs_and_every_way_to_get_gpus(stack: str) -> None:
    """And the settings accept it: what they refuse never reaches a preview.

    It draws until everything was seen, since a fixed number of examples promises nothing.
    """
    missing = set(DRAWN[stack])

    def complete(values: dict[str, Any]) -> bool:
        missing.difference_update(words(values))
        return not missing

    accepted = configs(stack).filter(lambda values: refusal(values) is None)
    try:
        find(accepted, complete, settings=settings(QUICK, max_examples=2000))
    except NoSuchExample:
        pytest.fail(f"of 2000 examples none has {', '.join(sorted(missing))}")


@pytest.mark.parametrize("stack", PLATFORM_STACKS)
def test_an_editor_underlines_nothing_that_is_accepted(stack: str) -> None:
    """The JSON Schema of stack files lets every accepted config pass."""

    @settings(QUICK, max_examples=40)
    @given(values=configs(stack).filter(lambda values: refusal(values) is None))
    def check(values: dict[str, Any]) -> None:
        assert complaints({"config": values}) == []

    check()


@given(value=st.recursive(st.integers() | st.text(max_size=3), st.lists, max_leaves=4))
def test_a_difference_is_seen(value: Any) -> None:
    """The comparison itself tells one value from another."""
    assert agree(value, json.loads(json.dumps(value)))
    assert not agree({"a": value}, {"a": [value]})
    assert not agree({"a": value}, {})
