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
    from cli.ceiling import kept_running, line
    from stacks import validation
    from stacks.cost.stack_cost import bill_at
    from stacks.settings import NOWHERE, config_of, settings_of

    def ask() -> Answer:
        code, document, text = validation.answer(stack)
        if code is not ExitCode.OK:
            return code, document, text
        config = config_of(stack)
        said = kept_running(stack, settings_of(stack, config, kubeconfig=NOWHERE))
        lines = [text, line(stack, bill_at(stack, config)), *said]
        return code, document, "\n".join(filter(None, lines))

    return say("validate", ask, as_json=as_json)
