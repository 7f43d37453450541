"""Every command that a page shows is one that there is."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.main import COMMANDS, NAME, gpu_cluster
from tests import getting_started
from tools.sections import DOCS, README, ROOT

PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
ELSEWHERE = {"aws", "cd", "devcontainer", "editor", "export", "gcloud", "git", "kubectl", "pipx"}
"""Programs that are not ours, for which a real cloud or cluster is needed: known by name alone."""
KNOWN = ELSEWHERE | {NAME, "cp", "make", "pulumi", "source", "(umask"}
"""The first words of commands. `pulumi`, `cp` and most of our own are run, or asked for their
help, by tests/rehearsal/test_getting_started.py."""
_OURS = re.compile(rf"(?:`|\$ |&& |\| ){NAME}((?: (?![|#&])[^`\s#|&]+)+)")


def ours(page: Path) -> Iterator[list[str]]:
    """Every command of this program in the text and the blocks of a page; generated help is not
    meant."""
    text = re.sub(r"^```text\n.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for found in _OURS.findall(text):
        yield found.split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_ours_can_be_typed(page: Path) -> None:
    """The verb is there, and takes what it is given."""
    group = click.Context(gpu_cluster, info_name=NAME, **gpu_cluster.context_settings)
    for verb, *arguments in ours(page):
        command = gpu_cluster.get_command(group, verb)
        assert command is not None, verb
        if arguments and not arguments[0].isupper():
            command.make_context(verb, arguments, parent=group)


def test_every_verb_is_in_the_documents() -> None:
    """Beside its generated page."""
    shown = {verb for page in PAGES if page.name != "cli.md" for verb, *_ in ours(page)}
    verbs = {verb for section in COMMANDS.values() for verb in section}
    assert verbs - shown == set()


@pytest.mark.parametrize("page", getting_started.PAGES, ids=lambda page: page.stem)
def test_every_command_of_getting_started_has_a_rule(page: Path) -> None:
    """None is overlooked."""
    found = getting_started.commands(page)
    assert found
    assert [command.text for command in found if command.words[0] not in KNOWN] == []
