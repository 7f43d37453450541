"""Every command that a page shows is one that there is: verb and arguments.

tests/rehearsal/test_documented_commands.py runs them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import botocore
import botocore.exceptions
import botocore.session
import click
import pytest

from gpu_cluster.cli.main import COMMANDS, NAME, gpu_cluster
from gpu_cluster.tools.sections import DOCS, README, ROOT
from quality import __main__ as maintenance
from tests.documented import TABLE, documented
from tests.unit.project.test_habits import texts

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


def printed(program: str) -> list[tuple[str, list[str]]]:
    """The file of every command of a program that a message shows, and the command's words."""
    command = re.compile(rf"\b{program} ((?:[^;,()'`\n]|'[^']*')+)")
    return [
        (path.name, found[1].split())
        for path, text in texts()
        if "catalog" not in path.parts  # Its sources are notes.
        for found in command.finditer(text)
    ]


def test_aws_commands_in_messages_are_complete() -> None:
    """With the options that AWS's own models require, and the region unless nothing depends on it:
    IAM has none, and an addon's versions hardly differ."""
    lacks, seen = [], set()
    for file, (service, *words) in printed("aws"):
        verb = words[0] if words else ""
        try:
            model = botocore.session.get_session().get_service_model(service)
        except botocore.exceptions.UnknownServiceError:
            continue
        operations = {botocore.xform_name(name, "-"): name for name in model.operation_names}
        if verb not in operations:  # Such as eks get-token, which only the CLI has.
            continue
        seen.add(verb)
        shape = model.operation_model(operations[verb]).input_shape
        needed = [f"--{botocore.xform_name(name, '-')}" for name in shape.required_members]
        if service != "iam" and verb != "describe-addon-versions":
            needed.append("--region")
        lacks += [(file, verb, option) for option in needed if option not in words]
    assert lacks == []
    assert {"create-access-entry", "get-parameter", "set-repository-policy"} <= seen


_NAMING = ("delete", "describe", "label", "patch", "rollout", "taint")
_WITHOUT_NAMESPACE = ("{}", "node", "nodepool", "persistentvolume", "volumesnapshotcontent")


def test_kubectl_and_gcloud_commands_in_messages_are_complete() -> None:
    """What they change or show has a name, and its namespace, or location and project."""
    lacks = [
        words
        for _, words in printed("gcloud")
        if words[0] in ("artifacts", "container") and {"--location", "--project"} - {*words}
    ]
    for _, words in printed("kubectl"):
        verb, *what = words[2:] if words[0] == "-n" else words
        named = {"-n", "--namespace"} & {*words} or what[0] in _WITHOUT_NAMESPACE
        if verb in _NAMING and (len(what) < 2 or not named):
            lacks.append(words)
    assert lacks == []


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
