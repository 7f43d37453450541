"""`clouds/overrides.yaml` has what nothing else says, and says why."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from clouds.read import read
from rehearsal.plugins.cloud import facts
from rehearsal.plugins.cloud.derived import derived

GROUPS = [(cloud, group) for cloud, groups in read("overrides").items() for group in groups]


def idle(row: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    """Entries of an override that change nothing of what is known without it."""
    for word, values in row.items():
        have = known.get(word)
        if word == "without":
            for removed, entries in values.items():
                there = known.get(removed, ())
                yield from (f"without {removed} {each}" for each in entries if each not in there)
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
    """What the SDK, a source or an earlier group says already is removed from the overrides."""
    known = derived(token)
    groups = [group["types"][token] for _, group in GROUPS if token in group["types"]]
    for row in facts.rows(token):
        if any(row is group for group in groups):
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
