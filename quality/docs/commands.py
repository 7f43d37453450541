"""The page of commands: the output of `gpu-cluster COMMAND --help` for each of them."""

from collections.abc import Iterator

import click

from gpu_cluster.cli.main import COMMANDS, NAME, gpu_cluster
from gpu_cluster.tools.sections import REFERENCE, TEMPLATES, page, table

PAGE = REFERENCE / "cli.md"
WIDTH = 100


def markdown() -> str:
    """The page's text."""
    return page(TEMPLATES / PAGE.name, commands=_sections()).rstrip() + "\n"


def _sections() -> Iterator[str]:
    for title, section in COMMANDS.items():
        rows = ((f"[`{name}`](#{NAME}-{name})", says) for name, (_, says) in section.items())
        yield from (f"## {title}\n", *table(("command", "shows or does"), rows), "")
    for section in COMMANDS.values():
        for name in section:
            yield from (f"## `{NAME} {name}`\n", *_help(name), "")


def _help(name: str) -> Iterator[str]:
    settings = {**gpu_cluster.context_settings, "terminal_width": WIDTH}
    with click.Context(gpu_cluster, info_name=NAME, **settings) as group:
        command = gpu_cluster.get_command(group, name)
        assert command is not None
        with click.Context(command, parent=group, info_name=name) as context:
            lines = command.get_help(context).splitlines()
    yield "```text"
    yield from (line.rstrip() for line in lines)
    yield "```"
