"""What each environment declares, in full: nothing is added, lost or changed unnoticed."""

import difflib
from collections.abc import Mapping

import pytest

from tests.program.declared import FOLDER, documents
from tests.program.registered import flat

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
    assert not "\n".join(list(changes)[:60])


def test_every_config_has_its_file(found: Mapping[str, str]) -> None:
    """And no file is left over."""
    assert sorted(found) == FILES


def test_inputs_are_sorted_by_path() -> None:
    """The order in which the program gives them moves no line; the order of a list is a value."""
    inputs = {"b": {"d": 1, "c": '{"y": 1, "x": 2}'}, "a": ["z", "a"]}
    assert [path for path, _ in flat(inputs)] == ["a[0]", "a[1]", "b.c.x", "b.c.y", "b.d"]
