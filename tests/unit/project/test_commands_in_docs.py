"""Every command that a page shows is one that there is: verb and arguments.

tests/rehearsal/test_documented_commands.py runs them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.main import COMMANDS, NAME, gpu_cluster
from quality import __main__ as maintenance
from tests.documented import TABLE, documented
from tools.sections import DOCS, README, ROOT

PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
GROUPS = {NAME: gpu_cluster, maintenance.NAME: maintenance.quality}
_OURS = re.compile(rf"(?:`|\$ |&& |\| )({'|'.join(GROUPS)})((?: (?![|#&])[^`\s#|&]+)+)")


def ours(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Every command of ours in the text and the blocks of a page, as program and arguments, except
    in generated help."""
    text = re.sub(r"^```text\n.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for program, rest in _OURS.findall(text):
        yield program, rest.split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_ours_can_be_typed(page: Path) -> None:
    """The verb is there, and takes what it is given."""
    for program, (verb, *arguments) in ours(page):
        group = click.Context(GROUPS[program], info_name=program)
        command = GROUPS[program].get_command(group, verb)
        assert command is not None, verb
        if arguments and not arguments[0].isupper():
            command.make_context(verb, arguments, parent=group)


def test_every_verb_is_in_the_documents() -> None:
    """Beside its generated page."""
    shown = {verb for page in PAGES if page.name != "cli.md" for _, (verb, *_) in ours(page)}
    verbs = {verb for section in COMMANDS.values() for verb in section}
    assert verbs - shown == set()


def test_every_command_of_the_documents_has_a_row() -> None:
    """A new command is run, or somebody says why not; a row whose command is gone is removed."""
    rows = [form for section in TABLE.values() for form in section]
    assert sorted(rows) == sorted(set(rows))
    found = documented()
    assert {form: lines[0] for form, lines in found.items() if form not in rows} == {}
    assert [form for form in rows if form not in found] == []


def test_every_test_that_a_row_names_is_there() -> None:
    """And every reason is a sentence."""
    for named in TABLE["by"].values():
        file, _, name = named.partition("::")
        functions = ast.walk(ast.parse((ROOT / file).read_text()))
        assert name in {each.name for each in functions if isinstance(each, ast.FunctionDef)}, named
    assert [why for why in TABLE["why"].values() if not why.endswith(".")] == []
