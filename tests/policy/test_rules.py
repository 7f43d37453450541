"""Every rule: what keeps it, what breaks it and in which words, and what nobody knows yet."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_cluster.policy.pack import POLICIES
from gpu_cluster.policy.reading import UNKNOWN
from tests.policy.cases import Case, Path, cases, findings

CASES = [*cases()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_says_nothing_of_what_keeps_the_rule(case: Case) -> None:
    """Resources as they should be are not mentioned."""
    assert findings(case.rule, case.good, **case.config) == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_says_in_one_line_what_is_wrong_and_what_to_do(case: Case) -> None:
    """One wrong value gives one line, word for word."""
    assert findings(case.rule, case.broken, **case.config) == [case.message]
    assert "\n" not in case.message


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_not_known_yet_is_no_violation(case: Case) -> None:
    """Where the decisive value, or anything around it, is unknown, the rule is silent."""
    if str(case.path[0]).startswith("@"):
        return  # options are always known; the values that the rule reads have the next test
    for length in range(1, len(case.path) + 1):
        resources = case.with_value(UNKNOWN, case.path[:length])
        assert findings(case.rule, resources, **case.config) == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_unknown_value_makes_good_resources_bad(case: Case) -> None:
    """Whichever value of a good resource becomes unknown, no rule takes that for a violation."""
    for path in _paths(case.good[-1].props):
        resources = case.with_value(UNKNOWN, path)
        assert findings(case.rule, resources, **case.config) == [], path


def test_every_rule_is_tested() -> None:
    """No policy of the pack is without cases."""
    assert {case.rule for case in CASES} == {policy.name for policy in POLICIES}


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _paths(item, (*path, position))
