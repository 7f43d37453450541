"""`gpu-cluster validate`."""

import click

from cli.options import json_option, stack_argument
from cli.output import say
from stacks.outcome import Answer, ExitCode


@click.command(epilog="Example: gpu-cluster validate dev")
@stack_argument
@json_option
def validate(stack: str, as_json: bool) -> ExitCode:
    """Everything that is wrong in the file of STACK, each with its line and column.

    Asks nobody: neither the engine nor a cloud. What a cloud, a quota or a price has against it,
    the other commands say.
    """
    from cli.ceiling import line
    from stacks import validation
    from stacks.cost.stack_cost import bill_at
    from stacks.settings import config_of

    def ask() -> Answer:
        code, document, text = validation.answer(stack)
        if code is ExitCode.OK and (said := line(stack, bill_at(stack, config_of(stack)))):
            return code, document, f"{text}\n{said}"
        return code, document, text

    return say("validate", ask, as_json=as_json)
