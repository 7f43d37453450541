"""The page of commands: what `gpu-cluster COMMAND --help` says, for each of them."""

from collections.abc import Iterator

import click

from cli.main import COMMANDS, HELP, NAME, Commands
from tools.sections import REFERENCE, table

PAGE = REFERENCE / "cli.md"
WIDTH = 100

_HEAD = f"""# Commands

`gpu-cluster docs` writes this page from the commands themselves. `make setup` puts `{NAME}` into
`.venv`.

- Exit codes: 0 is ok, 1 a finding, 2 that something could not be asked or was given wrong.
- `--json` prints the answer for programs.
- `make rehearse`, `make test` and the other targets of `make help` run these commands for
  development; make itself ends with 2 whatever fails.
"""


def markdown() -> str:
    """The page."""
    parts = [_HEAD]
    for title, section in COMMANDS.items():
        rows = ((f"[`{name}`](#{NAME}-{name})", says) for name, (_, says) in section.items())
        parts += [f"## {title}\n", *table(("command", "shows or does"), rows), ""]
    for section in COMMANDS.values():
        for name in section:
            parts += [f"## `{NAME} {name}`\n", *_help(name), ""]
    return "\n".join(parts)


def _help(name: str) -> Iterator[str]:
    group = Commands(name=NAME)
    command = group.get_command(click.Context(group), name)
    assert command is not None
    with click.Context(
        command,
        info_name=f"{NAME} {name}",
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=HELP,
    ) as context:
        lines = command.get_help(context).splitlines()
    yield "```text"
    yield from (line.rstrip() for line in lines)
    yield "```"
