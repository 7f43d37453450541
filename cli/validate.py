"""`gpu-cluster validate`."""

import click

from cli.options import json_option, stack_argument
from cli.output import say
from stacks.outcome import ExitCode


@click.command(epilog="Example: gpu-cluster validate dev")
@stack_argument
@json_option
def validate(stack: str, as_json: bool) -> ExitCode:
    """Everything that is wrong in the file of STACK, each with its line and column.

    Asks nobody: neither the engine nor a cloud. What a cloud, a quota or a price has against it,
    the other commands say.
    """
    from stacks import validation

    return say("validate", lambda: validation.answer(stack), as_json=as_json)
