"""`gpu-cluster images`."""

import click

from cli.options import json_option, stack_argument
from cli.output import say
from stacks.outcome import ExitCode


@click.command(epilog="Example: gpu-cluster images dev --json")
@stack_argument
@json_option
def images(stack: str, as_json: bool) -> ExitCode:
    """Every image that the pods of STACK run, and what it is pulled as.

    With images.registry set, the commands that copy each there follow.
    """
    from stacks.images import answer

    return say("images", lambda: answer(stack), as_json=as_json)
