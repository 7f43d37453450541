"""`gpu_cluster/clouds/overrides.yaml` has what nothing else says, and says why."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpu_cluster.clouds.read import read_facts
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.derived import derived

GROUPS = [(cloud, group) for cloud, groups in read_facts("overrides").items() for group in groups]


def idle(row: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    """Entries of an override that change nothing of what is known without it."""
    for word, values in row.items():
        have = known.get(word)
        if word == "without":
            for removed, entries in values.items():
                there = known.get(removed, ())
                yield from (f"without {removed} {entry}" for entry in entries if entry not in there)
        elif isinstance(values, list):
            yield from (f"{word} {each}" for each in values if each in (have or ()))
        elif isinstance(values, dict):
            for path, value in values.items():
                if facts.merged([known, {word: {path: value}}])[word] == have:
                    yield f"{word} {path}"
        elif values == have:
            yield word


@pytest.mark.parametrize("token", sorted(facts.types()))
def test_every_override_changes_what_is_known_without_it(token: str) -> None:
    """What the SDK, a source or an earlier group says already is removed from the overrides, and
    from what the type's row says of the provider."""
    by_hand = list(facts.overrides(token))
    sources = list(facts.rows(token))[: -len(by_hand)]
    known = facts.merged([derived(token), *sources])
    for row in by_hand:
        assert not list(idle(row, known))
        known = facts.merged([known, row])


def test_every_group_says_why() -> None:
    """With the source and the day, of types that are known."""
    for _, group in GROUPS:
        assert group.keys() == {"why", "source", "read", "types"}, group
        assert group["why"]
        assert group["source"]
        assert group["read"].year >= 2026
        assert group["types"].keys() <= facts.types()


ROWS = [row for name in facts.FILES.values() for row in read_facts(f"rows/{name}").values()]


@pytest.mark.parametrize("told", [row["provider"] for row in ROWS if "provider" in row])
def test_a_row_says_why_too(told: Mapping[str, Any]) -> None:
    """As a group does, in the words of the overrides."""
    assert told["why"]
    assert told["source"]
    assert told["read"].year >= 2026


@pytest.mark.parametrize(
    ("rules", "refusal"),
    [
        ({"without": ["tags"]}, "without: expected a map"),
        ({"without": {"immutable": "tags"}}, "without: immutable: expected a list"),
        ({"immutable": "tags"}, "immutable: expected a list, such as [name, tags], got 'tags'"),
        ({"enums": ["a"]}, "enums: expected a map"),
        ({"longest": "63"}, "longest: expected an integer, got '63'"),
    ],
)  # fmt: skip
def test_rules_of_another_form_are_refused(rules: dict[str, Any], refusal: str) -> None:
    """With the place, the form, and an example."""
    with pytest.raises(ValueError, match=re.escape(f"aws.yaml: T: {refusal}")):
        facts.checked("aws.yaml: T", rules)
    with pytest.raises(ValueError, match=r"T: immutabel: unknown; allowed: .*, immutable, "):
        facts.checked("T", {"immutabel": []})


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"immutable": ["a", "b"]}, ["immutable a"]),
        ({"defaults": {"a": 1, "b": 1}}, ["defaults a"]),
        ({"bounds": {"a": {"min": 1}}}, ["bounds a"]),
        ({"bounds": {"a": {"min": 2}}}, []),
        ({"longest": 63}, ["longest"]),
        ({"without": {"immutable": ["a", "c"], "enums": ["x"]}}, ["without immutable c",
                                                                  "without enums x"]),
    ],
)  # fmt: skip
def test_an_entry_that_is_known_already_is_found(row: dict[str, Any], found: list[str]) -> None:
    """Of lists, maps, single values and removals."""
    known = {"immutable": ["a"], "defaults": {"a": 1, "b": 2}, "longest": 63,
             "bounds": {"a": {"min": 1, "max": 3}}}  # fmt: skip
    assert list(idle(row, known)) == found
