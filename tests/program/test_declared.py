"""What each environment declares, in full: nothing is added, lost or changed unnoticed."""

import difflib
import itertools
import re
from collections.abc import Mapping

import pytest
import yaml

from gpu_cluster.stacks.definition.files import ROOT
from tests.program.declared import FOLDER, documents
from tests.program.listing import WIDTH, differences, lines, named
from tests.program.registered import flat, tree

FILES = sorted(file.stem for file in FOLDER.glob("*.txt"))


@pytest.fixture(scope="module")
def found() -> Mapping[str, str]:
    """File -> what the program declares now."""
    return documents()


@pytest.mark.parametrize("name", FILES)
def test_the_program_declares_what_the_file_says(found: Mapping[str, str], name: str) -> None:
    """Review the difference; `python -m tests.program.declared` then writes the files again."""
    kept = (FOLDER / f"{name}.txt").read_text()
    changes = difflib.unified_diff(kept.splitlines(), found[name].splitlines(), "file", "now", n=0)
    first = "\n".join(itertools.islice(changes, 60))
    assert not first, first


def test_every_config_has_its_file(found: Mapping[str, str]) -> None:
    """And no file is left over."""
    assert sorted(found) == FILES


def test_what_ec2_tags_has_the_tag_of_the_stack() -> None:
    """By which the leak check, `leftovers` and `recover` find it. A launch template belongs to a
    cluster, since another tag is another version of it."""
    rows = yaml.safe_load((ROOT / "gpu_cluster" / "clouds" / "rows" / "aws.yaml").read_text())
    taggable = {kind for kind, row in rows.items() if "spec" in (row.get("tags") or {})}
    declared, tagged = set[str](), set[str]()
    for file in FOLDER.glob("*.txt"):
        for block in re.split(r"\n(?=\S)", file.read_text()):
            kind = block.partition(" ")[0]
            declared |= {kind} & taggable
            if re.search(r"^  tags[.]gpu-cluster/stack ", block, re.MULTILINE):
                tagged.add(kind)
    assert declared - tagged == {"aws:ec2/launchTemplate:LaunchTemplate"}


def test_inputs_are_sorted_by_path() -> None:
    """The order in which the program gives them moves no line; the order of a list is a value."""
    inputs = {"b": {"d": 1, "c": '{"y": 1, "x": 2}'}, "a": ["z", "a"]}
    assert [path for path, _ in flat(tree(inputs))] == ["a[0]", "a[1]", "b.c.x", "b.c.y", "b.d"]


def test_a_line_has_what_fits_in_it() -> None:
    """In full each value has its own; packed, neighbors share one, and a wide part is opened."""
    value = {"a": 1, "b": {"c": [2], "d": {}}, "wide": {"x": "x" * 60, "y": "y" * 60}}
    assert [*lines(value)] == [
        "a 1", "b.c [2]", "b.d {}", f'wide.x "{"x" * 60}"', f'wide.y "{"y" * 60}"',
    ]  # fmt: skip
    packed = [*lines(value, packed=True)]
    assert packed == ["a: 1, b: {c: [2], d: {}}", *(f'wide {{{k}: "{k * 60}"}}' for k in "xy")]
    assert [*lines({"a": ["z" * 50] * 3}, packed=True)] == [
        f'a[0:2] ["{"z" * 50}", "{"z" * 50}"]', f'a[2] "{"z" * 50}"',
    ]  # fmt: skip


def test_every_difference_has_a_line() -> None:
    """Keys that are gone, what is new, and what has another value, in lists also another order."""
    old = {"a": 1, "b": {"c": 2, "d": 3}, "e": [{"f": 1}, {"g": 2}], "h": ["x", "y"], "i": "one"}
    new = {"b": {"c": 2, "j": 4}, "e": [{"f": 5}], "h": ["y", "x"], "i": "t" * WIDTH}
    assert [*differences(old, new)] == [
        "- a", "- b: d", "+ b {j: 4}", "e[0].f 1 -> 5", "- e: from [1] on",
        'h ["x", "y"] -> ["y", "x"]', f'+ i "{"t" * WIDTH}"',
    ]  # fmt: skip
    long = [letter * 60 for letter in "abc"]
    assert [*differences({"(o)": long}, {"(o)": [long[2], long[0]]})] == [
        f'- (o): "{long[1]}"', f'(o) in another order ["{long[2]}", "{long[0]}"]',
    ]  # fmt: skip
    assert [*differences(old, old)] == []


def test_an_element_more_is_a_line_more() -> None:
    """Elements of a list are listed by their names; without names that differ, by position."""
    first, second, third = ({"alert": word, "for": "5m"} for word in ("Gone", "Hot", "Cold"))
    assert [*lines(named({"rules": [first, second]}))] == [
        'rules[Gone].for "5m"', 'rules[Hot].for "5m"',
    ]  # fmt: skip
    more = named({"rules": [first, third, second]})
    assert [*differences(named({"rules": [first, second]}), more)] == [
        '+ rules {[Cold]: {for: "5m"}}'
    ]
    assert [*differences(more, named({"rules": [second, first, third]}))] == [
        "rules in another order [Hot][Gone][Cold]"
    ]
    same = {"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}], "keys": [{}, "x"]}
    assert named(same) == same
