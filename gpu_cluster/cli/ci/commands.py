"""`gpu-cluster ci`: the commands that the workflows run."""

import json
from pathlib import Path

import click

from gpu_cluster.cli.options import stack_argument
from gpu_cluster.stacks.outcome import ExitCode


@click.group()
def ci() -> None:
    """Commands for the workflows of continuous integration."""


@ci.command(epilog="Example: gpu-cluster ci changed origin/main")
@click.argument("revision", metavar="REV")
def changed(revision: str) -> None:
    """Print whether code has changed since REV, and which stacks are affected.

    Before anything is installed, python -m gpu_cluster.stacks.definition.changed REV prints it.
    """
    from gpu_cluster.stacks.definition.changed import changed_lines

    print(changed_lines(revision))


@ci.command(epilog="Example: gpu-cluster ci offline dev /tmp/offline")
@stack_argument
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def offline(stack: str, folder: Path) -> None:
    """Copy the program for STACK to FOLDER, so that a preview needs no key.

    Secrets of the stack's file and of its kept state, .github/states/STACK.json, are placeholders.
    """
    from gpu_cluster.cli.ci.offline import copy

    copy(stack, folder)


@ci.command(epilog="Example: gpu-cluster ci open-state exported.json > .github/states/dev.json")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True, dir_okay=False))
def open_state(file: Path) -> None:
    """Print the export of a stack without its secrets, so that a repository can contain it.

    FILE is the output of pulumi stack export, - for standard input.
    """
    from gpu_cluster.cli.ci.kept_state import opened
    from gpu_cluster.cli.ci.offline import export

    print(json.dumps(opened(export(file)), indent=1))


@ci.command(epilog="Example: gpu-cluster ci preview-comment previews --base main > comment.md")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--base", metavar="REV", help="The revision to compare the cost with.")
def preview_comment(folder: Path, base: str | None) -> ExitCode:
    """Print the previews in FOLDER and the costs of the stacks as one comment, in Markdown.

    FOLDER contains STACK.json, the output of pulumi preview --json, for each stack; if the base was
    previewed too, STACK.base.json; and if the base has other policies, the same preview under
    those, STACK.policies.json. Exit code 1: a cluster or GPU pool would be replaced or deleted, or
    only the base's policies refuse the change. 2: a preview failed or cannot be read.
    """
    from gpu_cluster.cli.ci.preview_comment import comment, exit_code, sections_of

    sections = sections_of(folder, base)
    print(comment(sections))
    return exit_code(sections)
