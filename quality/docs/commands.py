"""The page of commands: the output of `gpu-cluster COMMAND --help` for each of them."""

from collections.abc import Iterator

import click

from cli.main import COMMANDS, NAME, gpu_cluster
from tools.sections import REFERENCE, table

PAGE = REFERENCE / "cli.md"
WIDTH = 100

_HEAD = f"""# Commands

`make docs` writes this page from the commands themselves. `make setup` puts `{NAME}` into
`.venv`.

- Exit codes: 0: ok. 1: a finding. 2: the command could not answer, or its arguments are wrong.
- `--json` prints the answer as JSON.
- `make rehearse`, `make test` and the other targets of `make help` run these commands for
  development; make itself ends with exit code 2 for every failure.
"""


def markdown() -> str:
    """The page's text."""
    parts = [_HEAD]
    for title, section in COMMANDS.items():
        rows = ((f"[`{name}`](#{NAME}-{name})", says) for name, (_, says) in section.items())
        parts += [f"## {title}\n", *table(("command", "shows or does"), rows), ""]
    for section in COMMANDS.values():
        for name in section:
            parts += [f"## `{NAME} {name}`\n", *_help(name), ""]
    return "\n".join(parts)


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
